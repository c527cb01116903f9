"""Training of policies for graph problems."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _shardgraph


@dataclass(frozen=True)
class Run:
    """A finished training: the policy file, the loss of each step, the step of the best policy, a hash of its weights.

    A loss is absent while the replay memory fills.
    """

    policy: str
    losses: list[float | None]
    best_step: int | None
    params_hash: str


def train(
    problem: str = "mvc",
    *,
    out: str | os.PathLike[str],
    graphs: str | Sequence[str] = "er:20:0.15",
    steps: int = 2000,
    seed: int = 1,
    ranks: int = 1,
    run: str | os.PathLike[str] | None = None,
    resume: bool = False,
    callback: Callable[[dict[str, Any]], object] | None = None,
    **settings: Any,
) -> Run:
    """Learns a policy by deep Q-learning on random graphs or files, and writes it to ``out`` for ``solve(model=out)``.

    :param graphs: generator specifications or files.
    :param run: folder of metrics and checkpoints, from which ``resume=True`` goes on.
    :param callback: called after each step with step, loss, epsilon and objective; an exception ends the training.
    :param settings: further settings by their names in a settings file, such as ``learning_rate`` or ``batch_size``.
    """
    graphs = [graphs] if isinstance(graphs, str) else list(graphs)
    config = {"problem": problem, "graphs": graphs, "steps": steps, "seed": seed} | settings
    folder = None if run is None else os.fspath(run)
    done = _shardgraph.train(json.dumps(config), os.fspath(out), folder, resume, ranks, callback)
    return Run(policy=os.fspath(out), **done)
