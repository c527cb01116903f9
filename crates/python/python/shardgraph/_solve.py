"""The five graph problems and their answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._graph import Graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_METHODS = ("best", "policy", "greedy", "search", "exact")


@dataclass(frozen=True)
class Stage:
    """One part of a solve: its name, the objective at its end, its seconds."""

    name: str
    objective: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Solution:
    """A checked answer: the nodes of a cover, a set, a clique, or one side of a cut.

    ``bound`` is a number that no answer can beat; ``optimal`` says that the objective meets it.
    ``interrupted`` is true where Ctrl-C ended the search with what it had.
    """

    problem: str
    nodes: NDArray[np.int64]
    objective: float
    bound: float | None
    optimal: bool
    stages: list[Stage]
    found_by: str
    interrupted: bool
    seed: int
    _graph: Graph = field(repr=False)
    _weights: NDArray[np.uint32] | None = field(default=None, repr=False)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """A flag for each node of the graph, bool of shape [n_nodes]."""
        mask = np.zeros(self._graph.n_nodes, dtype=bool)
        mask[self.nodes] = True
        return mask

    def labels(self) -> list[Any]:
        """The nodes by their names in the file or in networkx."""
        return self._graph.labels(self.nodes)

    def verify(self, graph: Graph | None = None) -> None:
        """Checks the answer on the graph again; raises where it is none."""
        objective = _shardgraph.check((graph or self._graph)._native, self.problem, self.nodes)
        if self._weights is not None:
            objective = float(self._weights[self.nodes].sum(dtype=np.uint64))
        if objective != self.objective:
            raise RuntimeError(f"objective {self.objective} is {objective} by the check, please report this")

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes.tolist())

    def __contains__(self, node: int) -> bool:
        i = np.searchsorted(self.nodes, node)
        return bool(i < len(self.nodes) and self.nodes[i] == node)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.nodes, dtype=dtype, copy=True if copy is None else copy)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(s.name)}</td><td>{s.objective:g}</td><td>{s.seconds:.3f}</td></tr>"
            for s in self.stages
        )
        bound = "unknown" if self.bound is None else f"{self.bound:g}"
        state = "optimal" if self.optimal else f"bound {bound}"
        return (
            f"<table><caption>{escape(self.problem)}: {self.objective:g} ({state})</caption>"
            f"<tr><th>stage</th><th>objective</th><th>seconds</th></tr>{rows}</table>"
        )


def _node_weights(weights: ArrayLike, graph: Graph) -> NDArray[np.uint32]:
    array = np.asarray(weights)
    if array.shape != (graph.n_nodes,):
        raise ValueError(f"weights have shape {array.shape}: expected one weight a node, ({graph.n_nodes},)")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"weights have dtype {array.dtype}: expected whole numbers")
    if not np.all((array >= 0) & (array < 2**32) & (array == np.floor(array))):
        raise ValueError("weights have to be whole numbers from 0 to 4294967295: scale and round others")
    return np.ascontiguousarray(array, dtype=np.uint32)


def solve(
    graph: Graph,
    problem: str,
    *,
    weights: ArrayLike | None = None,
    method: str = "best",
    time_limit: float | None = None,
    steps: int | None = None,
    seed: int = 1,
    threads: int = 1,
    model: str | os.PathLike[str] | None = None,
) -> Solution:
    """The best checked answer to a problem: mvc, mis, clique, cut or dominating-set.

    :param weights: a whole number for each node; of mvc, mis and clique.
    :param method: best (all of them), policy, greedy, search or exact.
    :param time_limit: seconds of the whole search; by default 1 beyond reductions and greedy.
    :param model: a policy file of :func:`shardgraph.train`, or the name of a shipped one.
    :param steps: steps of local search in place of a time: one seed, one answer on every machine.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph is a {type(graph).__name__}: expected shardgraph.Graph, see Graph.from_edges")
    whole = None if weights is None else _node_weights(weights, graph)
    request = request_of(
        method=method, time_limit=time_limit, steps=steps, seed=seed, threads=threads, model=model
    )
    return run_request(graph, problem, whole, request)


def request_of(
    *,
    method: str,
    time_limit: float | None,
    steps: int | None,
    seed: int,
    threads: int,
    model: str | os.PathLike[str] | None,
    all_rows: bool = False,
) -> dict[str, Any]:
    """The settings of a search, or a sentence for one out of range."""
    if method not in _METHODS:
        raise ValueError(f"method = {method!r}: expected one of {', '.join(_METHODS)}")
    if time_limit is not None and not time_limit >= 0:
        raise ValueError(f"time_limit = {time_limit}: expected seconds from 0")
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads = {threads}: expected 1 to 1024")
    if steps is not None and steps < 0:
        raise ValueError(f"steps = {steps}: expected a number from 0")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed = {seed}: expected a number from 0 to 2**64 - 1")
    return {
        "method": method,
        "time_limit": time_limit,
        "steps": steps,
        "seed": seed,
        "threads": threads,
        "model": None if model is None else os.fspath(model),
        "all_rows": all_rows,
    }


def run_request(
    graph: Graph, problem: str, weights: NDArray[np.uint32] | None, request: dict[str, Any]
) -> Solution:
    """One search by checked settings."""
    found = _shardgraph.solve(graph._native, problem, weights, request)
    found["stages"] = [Stage(*stage) for stage in found["stages"]]
    return Solution(problem=problem, seed=request["seed"], _graph=graph, _weights=weights, **found)


def min_vertex_cover(graph: Graph, **options: Any) -> Solution:
    """A small set of nodes with an end of every edge; options as :func:`solve`.

    >>> import shardgraph
    >>> shardgraph.min_vertex_cover(shardgraph.generate("petersen")).objective
    6.0
    """
    return solve(graph, "mvc", **options)


def max_independent_set(graph: Graph, **options: Any) -> Solution:
    """A large set of nodes without an edge between two of them; options as :func:`solve`.

    >>> import shardgraph
    >>> shardgraph.max_independent_set(shardgraph.generate("petersen")).objective
    4.0
    """
    return solve(graph, "mis", **options)


def max_clique(graph: Graph, **options: Any) -> Solution:
    """A large set of nodes that are all joined; options as :func:`solve`.

    >>> import shardgraph
    >>> shardgraph.max_clique(shardgraph.generate("karate")).objective
    5.0
    """
    return solve(graph, "clique", **options)


def max_cut(graph: Graph, **options: Any) -> Solution:
    """One side of a heavy cut, by the graph's edge weights; options as :func:`solve`.

    >>> import shardgraph
    >>> shardgraph.max_cut(shardgraph.generate("petersen")).objective
    12.0
    """
    return solve(graph, "cut", **options)


def min_dominating_set(graph: Graph, **options: Any) -> Solution:
    """A small set of nodes that all others are next to; options as :func:`solve`.

    >>> import shardgraph
    >>> shardgraph.min_dominating_set(shardgraph.generate("petersen")).objective
    3.0
    """
    return solve(graph, "dominating-set", **options)
