"""Node embeddings by LINE, as a scikit-learn estimator.

>>> import shardgraph
>>> from shardgraph.embed import Line
>>> karate = shardgraph.generate("karate")
>>> Line(n_components=8, epochs=50).fit_transform(karate).shape
(34, 16)
"""

import json

import numpy as np

from . import _shardgraph
from ._graph import Graph
from ._sklearn import BaseEstimator, TransformerMixin, check_is_fitted

__all__ = ["Line"]


class Line(TransformerMixin, BaseEstimator):
    """LINE: first-order and second-order proximity, trained by sampled edges and negatives.

    ``fit`` takes a :class:`shardgraph.Graph` or a square scipy.sparse adjacency. ``embedding_`` is float32 of shape
    [n_nodes, n_components], twice as wide with ``order="both"``. One seed gives the same bits for any ``n_jobs``.

    :param order: first, second or both.
    :param epochs: passes of as many samples as there are edges.
    """

    def __init__(
        self,
        n_components=128,
        *,
        order="both",
        epochs=10,
        n_negative=5,
        learning_rate=None,
        random_state=1,
        n_jobs=1,
    ):
        self.n_components = n_components
        self.order = order
        self.epochs = epochs
        self.n_negative = n_negative
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y=None):
        """Trains the embedding of a graph's nodes; the estimator itself."""
        graph = X if isinstance(X, Graph) else Graph.from_csr(X)
        config = {
            "dim": self.n_components,
            "order": self.order,
            "epochs": self.epochs,
            "negatives": self.n_negative,
            "learning_rate": self.learning_rate,
            "threads": self.n_jobs or 1,
            "seed": 1 if self.random_state is None else self.random_state,
        }
        self.embedding_ = _shardgraph.embed(graph._native, json.dumps(config), None)
        self.n_features_in_ = graph.n_nodes
        return self

    def fit_transform(self, X, y=None):
        """Trains and returns ``embedding_``."""
        return self.fit(X).embedding_

    def nearest(self, node, k=10):
        """The ``k`` other nodes of the largest cosine and their cosines, nearest first."""
        check_is_fitted(self, "embedding_")
        if not 0 <= node < len(self.embedding_):
            raise ValueError(f"node {node} does not exist: the graph has {len(self.embedding_)} nodes")
        scores = self._cosines(self.embedding_, self.embedding_[node])
        scores[node] = -np.inf
        nearest = np.argsort(-scores, kind="stable")[: min(k, len(scores) - 1)]
        return nearest, scores[nearest]

    def score_links(self, src, dst):
        """Cosines of the rows of ``src`` and ``dst``, pair by pair."""
        check_is_fitted(self, "embedding_")
        return self._cosines(self.embedding_[np.asarray(src)], self.embedding_[np.asarray(dst)])

    @staticmethod
    def _cosines(rows, others):
        rows, others = rows.astype(np.float64), others.astype(np.float64)
        norms = np.linalg.norm(rows, axis=-1) * np.linalg.norm(others, axis=-1)
        return np.divide((rows * others).sum(axis=-1), norms, out=np.zeros(norms.shape), where=norms > 0)

    def save(self, path):
        """Writes ``embedding_`` as a .npy file."""
        check_is_fitted(self, "embedding_")
        np.save(path, self.embedding_)

    def load(self, path):
        """Reads ``embedding_`` of :meth:`save`; the estimator itself."""
        self.embedding_ = np.load(path)
        self.n_features_in_ = len(self.embedding_)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        return tags
