"""Evaluation of policies beside everything that does without one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ._graph import Graph, generate, read
from ._solve import Solution, request_of, run_request


@dataclass(frozen=True)
class Row:
    """One way to an answer: its objective, its seconds, and its objective over the optimum where that is proved.

    ``name`` is policy, a greedy algorithm, or a stage of the search, of which the objective is the best at its end.
    """

    graph: str
    name: str
    objective: float
    seconds: float
    ratio: float | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The rows of some graphs, and the best answer to each."""

    problem: str
    rows: list[Row]
    solutions: list[Solution]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        lines = [f"{'graph':<24} {'row':<24} {'objective':>12} {'ratio':>8} {'seconds':>10}"]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.4f}"
            lines.append(
                f"{row.graph:<24} {row.name:<24} {row.objective:>12g} {ratio:>8} {row.seconds:>10.4f}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = [
            (row.graph, row.name, f"{row.objective:g}", f"{row.ratio or float('nan'):.4f}", f"{row.seconds:.4f}")
            for row in self.rows
        ]
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
        heads = "".join(f"<th>{head}</th>" for head in ("graph", "row", "objective", "ratio", "seconds"))
        return f"<table><caption>{escape(self.problem)}</caption><tr>{heads}</tr>{body}</table>"


def _loaded(graph: Graph | str | os.PathLike[str], number: int, seed: int) -> tuple[str, Graph]:
    """A graph and its name: itself, a file, or a generator."""
    if isinstance(graph, Graph):
        return f"graph {number}", graph
    name = os.fspath(graph)
    return name, read(name) if os.path.exists(name) else generate(name, seed=seed)


def evaluate(
    graphs: Graph | str | os.PathLike[str] | Sequence[Graph | str | os.PathLike[str]],
    problem: str = "mvc",
    *,
    models: Sequence[str | os.PathLike[str] | None] = (None,),
    time_limit: float | None = None,
    steps: int | None = None,
    seed: int = 1,
    threads: int = 1,
    callback: Callable[[Solution], object] | None = None,
) -> Evaluation:
    """What policies are worth on some graphs, beside greedy algorithms, reductions and search; every answer is checked.

    :param graphs: graphs, files or generators; one or several.
    :param models: policy files or names; nothing is the problem's shipped policy.
    :param callback: called with the best solution of each graph; an exception ends the evaluation.

    >>> import shardgraph
    >>> found = shardgraph.evaluate("petersen", steps=100)
    >>> found.rows[0].graph, found.solutions[0].objective
    ('petersen', 6.0)
    """
    listed = [graphs] if isinstance(graphs, (Graph, str, os.PathLike)) else graphs
    options: dict[str, Any] = {"time_limit": time_limit, "steps": steps, "seed": seed, "threads": threads}
    rows: list[Row] = []
    solutions: list[Solution] = []
    for number, given in enumerate(listed):
        name, graph = _loaded(given, number, seed)
        first, *others = models or (None,)
        request = request_of(method="best", model=first, all_rows=True, **options)
        best = run_request(graph, problem, None, request)
        stages = [(stage.name, stage.objective, stage.seconds) for stage in best.stages]
        for model in others:
            request = request_of(method="policy", model=model, all_rows=True, **options)
            for stage in run_request(graph, problem, None, request).stages:
                stages.append((f"{stage.name} {model}", stage.objective, stage.seconds))
        optimum = best.objective if best.optimal else None
        for label, objective, seconds in stages:
            rows.append(Row(name, label, objective, seconds, objective / optimum if optimum else None))
        solutions.append(best)
        if callback is not None:
            callback(best)
    return Evaluation(problem, rows, solutions)
