"""Node embeddings by LINE, as a scikit-learn estimator.

>>> import shardgraph
>>> from shardgraph.embed import Line
>>> karate = shardgraph.generate("karate")
>>> Line(n_components=8, epochs=50).fit_transform(karate).shape
(34, 16)
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._graph import Graph
from ._sklearn import BaseEstimator, TransformerMixin, check_is_fitted, validate_data

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Line"]

_ORDERS = {"first": "1", "second": "2"}


class Line(TransformerMixin, BaseEstimator):
    """LINE: first-order and second-order proximity, trained by sampled edges and negatives.

    ``fit`` takes a :class:`shardgraph.Graph` or a square adjacency, dense or of scipy.sparse, of which every
    entry that is not 0 is an edge. ``embedding_`` is float32 of shape
    [n_nodes, n_components], twice as wide with ``order="both"``. One seed gives the same bits for any ``n_jobs``.

    :param order: first, second or both.
    :param epochs: passes of as many samples as there are edges.
    """

    def __init__(
        self,
        n_components: int = 128,
        *,
        order: str = "both",
        epochs: int = 10,
        n_negative: int = 5,
        learning_rate: float | None = None,
        random_state: int | None = 1,
        n_jobs: int | None = 1,
    ) -> None:
        self.n_components = n_components
        self.order = order
        self.epochs = epochs
        self.n_negative = n_negative
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Line:
        """Trains the embedding of a graph's nodes; the estimator itself."""
        graph = X if isinstance(X, Graph) else self._graph_of(X)
        config = {
            "dim": self.n_components,
            "order": _ORDERS.get(self.order, self.order),
            "epochs": self.epochs,
            "negatives": self.n_negative,
            "learning_rate": self.learning_rate,
            "threads": self.n_jobs or 1,
            "seed": 1 if self.random_state is None else self.random_state,
        }
        self.embedding_ = _shardgraph.embed(graph._native, json.dumps(config), None)
        self.n_features_in_ = graph.n_nodes
        return self

    def _graph_of(self, X: Any) -> Graph:
        X = validate_data(self, X, accept_sparse="csr")
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"an adjacency of shape {X.shape}: expected a square matrix")
        if hasattr(X, "tocsr"):
            return Graph.from_csr(X)
        src, dst = np.nonzero(X)
        return Graph.from_edges(src, dst, n_nodes=len(X))

    def fit_transform(self, X: Any, y: object = None) -> NDArray[np.float32]:
        """Trains and returns ``embedding_``."""
        return self.fit(X).embedding_

    def nearest(self, node: int, k: int = 10) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The ``k`` other nodes of the largest cosine and their cosines, nearest first."""
        check_is_fitted(self, "embedding_")
        if not 0 <= node < len(self.embedding_):
            raise ValueError(f"node {node} does not exist: the graph has {len(self.embedding_)} nodes")
        if k < 1:
            raise ValueError(f"k is {k}: expected at least 1")
        scores = self._cosines(self.embedding_, self.embedding_[node])
        scores[node] = -np.inf
        nearest = np.argsort(-scores, kind="stable")[: min(k, len(scores) - 1)]
        return nearest, scores[nearest]

    def score_links(self, src: ArrayLike, dst: ArrayLike) -> NDArray[np.float64]:
        """Cosines of the rows of ``src`` and ``dst``, pair by pair."""
        check_is_fitted(self, "embedding_")
        return self._cosines(self.embedding_[np.asarray(src)], self.embedding_[np.asarray(dst)])

    @staticmethod
    def _cosines(rows: Any, others: Any) -> Any:
        rows, others = rows.astype(np.float64), others.astype(np.float64)
        norms = np.linalg.norm(rows, axis=-1) * np.linalg.norm(others, axis=-1)
        return np.divide((rows * others).sum(axis=-1), norms, out=np.zeros(norms.shape), where=norms > 0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``embedding_`` as a .npy file."""
        check_is_fitted(self, "embedding_")
        np.save(path, self.embedding_)

    def load(self, path: str | os.PathLike[str]) -> Line:
        """Reads ``embedding_`` of :meth:`save`; the estimator itself."""
        self.embedding_ = np.load(path)
        self.n_features_in_ = len(self.embedding_)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        return tags
