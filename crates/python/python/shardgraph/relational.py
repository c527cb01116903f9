"""Classes of the nodes of a relational graph by R-GCN, as a scikit-learn classifier, and links between nodes.

>>> import numpy as np
>>> from shardgraph.relational import RelationalClassifier, Triples
>>> papers = Triples([0, 1, 2, 3], [0, 0, 0, 0], [4, 4, 5, 5])
>>> model = RelationalClassifier(papers, epochs=60).fit([0, 2], ["biology", "physics"])
>>> model.predict([1, 3]).tolist()
['biology', 'physics']
>>> ring = Triples(np.arange(12), np.zeros(12, dtype=int), (np.arange(12) + 1) % 12)
>>> links = RelationalLinks(width=8, epochs=20).fit(ring)
>>> links.complete(head=3, relation=0, k=2)[0].shape
(2,)
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

__all__ = ["RelationalClassifier", "RelationalLinks", "Triples"]


@dataclass(frozen=True, eq=False)
class Triples:
    """Edges with relations: three integer columns of one length, ids from 0."""

    heads: ArrayLike
    relations: ArrayLike
    tails: ArrayLike
    n_nodes: int | None = None
    n_relations: int | None = None

    def __post_init__(self) -> None:
        lengths = [len(column) for column in self._columns()]
        if len(set(lengths)) != 1:
            heads, relations, tails = lengths
            raise ValueError(f"{heads} heads, {relations} relations and {tails} tails: expected columns of one length")

    @classmethod
    def from_pyg(cls, edge_index: Any, edge_type: ArrayLike, *, n_nodes: int | None = None) -> Triples:
        """The triples of an ``edge_index`` of shape [2, E] and an ``edge_type`` of shape [E]."""
        edge_index = np.asarray(edge_index)
        return cls(edge_index[0], np.asarray(edge_type), edge_index[1], n_nodes)

    def __len__(self) -> int:
        return len(np.asarray(self.heads))

    def _columns(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        return _ids(self.heads, "heads"), _ids(self.relations, "relations"), _ids(self.tails, "tails")

    def _shape(self) -> tuple[int, int]:
        """The numbers of nodes and relations: as given, or one more than the largest id."""
        heads, relations, tails = self._columns()
        n_nodes, n_relations = self.n_nodes, self.n_relations
        if n_nodes is None:
            n_nodes = 1 + max((int(ends.max()) for ends in (heads, tails) if ends.size), default=-1)
        if n_relations is None:
            n_relations = 1 + (int(relations.max()) if relations.size else -1)
        return n_nodes, n_relations

    def _native(self) -> _shardgraph.NativeTriples:
        return _shardgraph.NativeTriples(*self._shape(), *self._columns())


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

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each of ``classes_`` for each of the nodes ``X``, float64 of shape [n, n_classes]."""
        check_is_fitted(self, "loss_curve_")
        folder, nodes = f"{self._folder.name}/run", _ids(np.ravel(X), "X")
        return self._graph.predict_probabilities(folder, nodes, len(self.classes_))


class RelationalLinks(BaseEstimator):
    """Link prediction: a score for each triple, learnt from true ones.

    :param encoder: nothing for vectors of nodes alone; ``rgcn`` for layers that add to them once they are learnt.
    :param decoder: complex or distmult; by default complex.
    :param width: numbers of a node's vector.
    :param settings: further settings by their names in a settings file, such as ``{"n3": 0.01}``.

    >>> from shardgraph.relational import RelationalLinks
    >>> RelationalLinks(encoder="rgcn").encoder
    'rgcn'
    """

    def __init__(
        self,
        *,
        encoder: str | None = None,
        decoder: str | None = None,
        width: int | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        random_state: int | None = 1,
        ranks: int = 1,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.encoder = encoder
        self.decoder = decoder
        self.width = width
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.ranks = ranks
        self.settings = settings

    def _settings(self) -> str:
        if self.encoder not in (None, "rgcn"):
            raise ValueError(f"encoder = {self.encoder!r}: expected None or 'rgcn'")
        inner = {"epochs": self.epochs, "rate": self.learning_rate, "seed": self.random_state}
        outer = {"decoder": self.decoder, "width": self.width, "encode": True if self.encoder else None}
        more = dict(self.settings or {})
        inner_more = more.pop("encoder", {})
        whole: dict[str, Any] = {name: value for name, value in outer.items() if value is not None} | more
        whole["encoder"] = {name: value for name, value in inner.items() if value is not None} | inner_more
        return json.dumps(whole)

    def fit(self, X: Triples, y: object = None, *, valid: Triples | None = None) -> RelationalLinks:
        """Learns from the triples ``X``; with ``valid`` the parameters of the epoch that ranks these best are kept."""
        self._train, self._valid = X, valid
        data = self._data(None)
        self._folder = tempfile.TemporaryDirectory(prefix="shardgraph-")
        done = data.train(f"{self._folder.name}/run", self._settings(), self.ranks)
        self.loss_curve_, self.best_epoch_ = done["losses"], done["best_epoch"]
        return self

    def _data(self, test: Triples | None) -> _shardgraph.NativeLinks:
        """All triples in one id space: that of those to learn from."""
        parts = [self._train, *(part for part in (self._valid, test) if part is not None)]
        heads, relations, tails = (np.concatenate(column) for column in zip(*(part._columns() for part in parts)))
        n_valid = 0 if self._valid is None else len(self._valid)
        shapes = [part._shape() for part in parts[: 1 + (self._valid is not None)]]
        shape = max(s[0] for s in shapes), max(s[1] for s in shapes)
        return _shardgraph.NativeLinks(shape, heads, relations, tails, len(self._train), n_valid)

    def evaluate(self, test: Triples, *, filtered: bool = True) -> dict[str, float]:
        """Ranks both ends of each test triple among all nodes: mrr, mean_rank, hits@1, hits@3, hits@10 and n_ranks.

        :param filtered: leave out the nodes that make another known triple.
        """
        check_is_fitted(self, "loss_curve_")
        scores = self._data(test).rank(f"{self._folder.name}/run")
        if scores is None:
            raise ValueError("no triples to test on")
        return scores[0 if filtered else 1]

    def complete(
        self, *, relation: int, head: int | None = None, tail: int | None = None, k: int = 10
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The ``k`` likeliest nodes at the other end of a relation and their scores, best first; give head or tail."""
        check_is_fitted(self, "loss_curve_")
        if (head is None) == (tail is None):
            raise ValueError("complete: give either head or tail")
        given = head if tail is None else tail
        question = np.stack([_ids(np.array([given]), "node"), _ids(np.array([relation]), "relation")], axis=1)
        nodes, scores = self._data(None).complete(f"{self._folder.name}/run", question, tail is not None, k)
        return nodes[0], scores[0]
