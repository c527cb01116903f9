"""Classes of the nodes of a relational graph, by R-GCN, as a scikit-learn classifier.

>>> import numpy as np
>>> from shardgraph.relational import RelationalClassifier, Triples
>>> papers = Triples([0, 1, 2, 3], [0, 0, 0, 0], [4, 4, 5, 5])
>>> model = RelationalClassifier(papers, epochs=60).fit([0, 2], ["biology", "physics"])
>>> model.predict([1, 3]).tolist()
['biology', 'physics']
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._graph import integers
from ._sklearn import BaseEstimator, ClassifierMixin, check_is_fitted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["RelationalClassifier", "Triples"]


@dataclass(frozen=True, eq=False)
class Triples:
    """Edges with relations: three integer columns of one length, ids from 0."""

    heads: ArrayLike
    relations: ArrayLike
    tails: ArrayLike
    n_nodes: int | None = None
    n_relations: int | None = None

    @classmethod
    def from_pyg(cls, edge_index: Any, edge_type: ArrayLike, *, n_nodes: int | None = None) -> Triples:
        """The triples of an ``edge_index`` of shape [2, E] and an ``edge_type`` of shape [E]."""
        edge_index = np.asarray(edge_index)
        return cls(edge_index[0], np.asarray(edge_type), edge_index[1], n_nodes)

    def _native(self) -> _shardgraph.NativeTriples:
        columns = [_ids(getattr(self, name), name) for name in ("heads", "relations", "tails")]
        heads, relations, tails = columns
        n_nodes = self.n_nodes
        if n_nodes is None:
            n_nodes = 1 + max((int(ends.max()) for ends in (heads, tails) if ends.size), default=-1)
        n_relations = self.n_relations
        if n_relations is None:
            n_relations = 1 + (int(relations.max()) if relations.size else -1)
        return _shardgraph.NativeTriples(n_nodes, n_relations, heads, relations, tails)


def _ids(values: ArrayLike, name: str) -> NDArray[np.uint32]:
    array = integers(values, name)
    if array.size and not (0 <= array.min() and array.max() < 2**32 - 1):
        raise ValueError(f"{name} has ids from {array.min()} to {array.max()}: expected 0 to 4294967294")
    return array.astype(np.uint32)


class RelationalClassifier(ClassifierMixin, BaseEstimator):
    """R-GCN: a layer sums over the neighbours in each relation, with weights that relations share as bases.

    The graph is part of the model; ``fit`` and ``predict`` take node ids.

    :param triples: the graph, a :class:`Triples`.
    :param hidden: width of the hidden layer.
    :param n_bases: weight bases that relations share; 0 gives each its own.
    :param l2: weight of the squared parameters in the loss.
    """

    def __init__(
        self,
        triples: Triples,
        *,
        hidden: int = 16,
        n_bases: int = 0,
        l2: float = 0.0,
        epochs: int = 50,
        learning_rate: float = 0.01,
        random_state: int | None = 0,
        ranks: int = 1,
    ) -> None:
        self.triples = triples
        self.hidden = hidden
        self.n_bases = n_bases
        self.l2 = l2
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.ranks = ranks

    def fit(self, X: ArrayLike, y: ArrayLike) -> RelationalClassifier:
        """Trains on the classes ``y`` of the nodes ``X``; the estimator itself."""
        nodes = _ids(np.ravel(X), "X")
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(codes) != len(nodes):
            raise ValueError(f"{len(nodes)} nodes and {len(codes)} classes: expected one class a node")
        config = {
            "hidden": [self.hidden],
            "bases": self.n_bases,
            "l2": self.l2,
            "epochs": self.epochs,
            "rate": self.learning_rate,
            "seed": 0 if self.random_state is None else self.random_state,
        }
        self._graph = self.triples._native()
        self._folder = tempfile.TemporaryDirectory(prefix="shardgraph-")
        self.loss_curve_ = self._graph.train(
            f"{self._folder.name}/run",
            nodes,
            codes.astype(np.uint32),
            json.dumps(config),
            self.ranks,
        )
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of each of the nodes ``X``."""
        check_is_fitted(self, "loss_curve_")
        return self.classes_[self._graph.predict(f"{self._folder.name}/run", _ids(np.ravel(X), "X"))]
