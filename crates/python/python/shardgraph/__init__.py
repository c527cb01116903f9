"""Graph problems, node embeddings, relational graphs and placement: arrays in, checked answers out.

>>> import shardgraph
>>> karate = shardgraph.generate("karate")
>>> cover = shardgraph.min_vertex_cover(karate)
>>> len(cover), cover.optimal
(14, True)
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from ._errors import CapacityError, ReadError
from ._evaluate import Evaluation, evaluate
from ._graph import Graph, Reading, from_networkx, from_pyg, generate, read, write
from ._shardgraph import __version__
from ._solve import (
    Solution,
    Stage,
    max_clique,
    max_cut,
    max_independent_set,
    min_dominating_set,
    min_vertex_cover,
    solve,
)
from ._train import Run, train

__all__ = [
    "CapacityError",
    "Evaluation",
    "Graph",
    "ReadError",
    "Reading",
    "Run",
    "Solution",
    "Stage",
    "__version__",
    "evaluate",
    "from_networkx",
    "from_pyg",
    "generate",
    "max_clique",
    "max_cut",
    "max_independent_set",
    "min_dominating_set",
    "min_vertex_cover",
    "read",
    "solve",
    "train",
    "write",
]

_SUBMODULES = ("agents", "brkga", "components", "embed", "gym", "networkx", "place", "relational", "replay")


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
