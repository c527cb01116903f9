"""Graphs: from arrays, files, generators and other libraries, and back to arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ._shardgraph import NativeGraph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Reading:
    """Counts of what was changed on the way to an undirected simple graph.

    ``self_loops`` were dropped, ``duplicates`` merged, of ``weight_conflicts`` the first weight was kept,
    ``weights_rounded`` did not fit 32-bit floats. ``copies`` says which arrays were copied, ``report`` is a file's report.
    """

    self_loops: int = 0
    duplicates: int = 0
    weight_conflicts: int = 0
    weights_rounded: int = 0
    copies: str = ""
    report: str = ""


def _array(values: Any) -> NDArray[Any]:
    """An array of what speaks numpy or DLPack."""
    if hasattr(values, "__array__") or not hasattr(values, "__dlpack__"):
        return np.asarray(values)
    return np.from_dlpack(values)


def integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    """One-dimensional contiguous int64 with the same numbers, or a sentence."""
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: expected one")
    if array.size == 0 and array.dtype == np.float64:
        # What numpy makes of an empty list.
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}: expected an integer type such as int64")
    if array.dtype == np.uint64 and array.size and int(array.max()) > 2**63 - 1:
        raise ValueError(f"{name} has {int(array.max())}: expected numbers below 2**63")
    return np.ascontiguousarray(array, dtype=np.int64)


def floats(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """One-dimensional contiguous float64, or a sentence."""
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: expected one")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}: expected float64 or an integer type")
    return np.ascontiguousarray(array, dtype=np.float64)


class Graph:
    """An undirected simple graph with nodes 0 to ``n_nodes - 1``, made by its ``from_...`` methods.

    >>> import shardgraph
    >>> graph = shardgraph.Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 2])
    >>> graph.n_nodes, graph.n_edges, graph.reading.self_loops
    (3, 3, 1)
    """

    __slots__ = ("_native", "_nodes", "_copies", "__weakref__")

    _native: NativeGraph
    _nodes: Sequence[Any] | None
    _copies: str

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "make graphs by Graph.from_edges, from_csr, from_networkx, from_pyg, read or generate"
        )

    @classmethod
    def _of(cls, native: NativeGraph, nodes: Sequence[Any] | None = None, copies: str = "") -> Graph:
        graph = object.__new__(cls)
        graph._native, graph._nodes, graph._copies = native, nodes, copies
        return graph

    @classmethod
    def from_edges(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        n_nodes: int | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Graph:
        """The graph with the edges ``src[i] - dst[i]``; directions are merged, the first of several weights is kept."""
        if n_nodes is not None and not 0 <= n_nodes < 2**64:
            raise ValueError(f"n_nodes = {n_nodes}: expected a number from 0")
        weight = None if weight is None else floats(weight, "weight")
        native = NativeGraph.from_edges(integers(src, "src"), integers(dst, "dst"), weight, n_nodes)
        if labels is not None and len(labels) != native.n_nodes:
            raise ValueError(f"{len(labels)} labels for {native.n_nodes} nodes: expected one label a node")
        return cls._of(native, labels, "edges: copied into rows")

    @classmethod
    def from_csr(cls, matrix: Any, *, weighted: bool = False) -> Graph:
        """The graph of a square scipy.sparse array or matrix; entries are edges, values weights where asked for."""
        matrix = matrix.tocsr()
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a matrix of shape {matrix.shape}: expected a square one")
        indptr = integers(matrix.indptr, "indptr")
        # What scipy makes of a symmetric matrix needs no sorting, only 32-bit columns and weights as they are.
        is_plain = matrix.indices.dtype == np.int32 and (not weighted or matrix.data.dtype == np.float32)
        if is_plain:
            data = np.ascontiguousarray(matrix.data) if weighted else None
            rows = NativeGraph.from_symmetric_rows(indptr, np.ascontiguousarray(matrix.indices), data)
            if rows is not None:
                return cls._of(rows, None, "rows: one copy")
        weights = floats(matrix.data, "data") if weighted else None
        native = NativeGraph.from_csr(indptr, integers(matrix.indices, "indices"), weights)
        return cls._of(native, None, "rows: copied as edges, sorted, made simple and symmetric")

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = None) -> Graph:
        """The graph of a networkx graph; ``weight`` names an edge attribute, which is 1 where it is absent."""
        nodes = list(graph)
        # All neighbours in the order of the rows, without a Python loop over edges.
        rows = [row for _, row in graph.adjacency()]
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        src = np.repeat(np.arange(len(rows)), counts)
        n_entries = int(counts.sum())
        ends: Iterable[Any] = chain.from_iterable(rows)
        if nodes != list(range(len(nodes))):
            ends = map({node: i for i, node in enumerate(nodes)}.__getitem__, ends)
        dst = np.fromiter(ends, dtype=np.int64, count=n_entries)
        values = None
        if weight is not None:
            values = np.fromiter(_weights(graph, rows, weight), dtype=np.float64, count=n_entries)
        if not graph.is_directed():
            once = src <= dst
            src, dst = src[once], dst[once]
            values = None if values is None else values[once]
        return cls.from_edges(src, dst, values, n_nodes=len(nodes), labels=nodes)

    @classmethod
    def from_pyg(cls, data: Any, *, n_nodes: int | None = None) -> Graph:
        """The graph of an ``edge_index`` of shape [2, E], or of what has one, such as torch_geometric's ``Data``."""
        edge_index = getattr(data, "edge_index", data)
        if n_nodes is None:
            n_nodes = getattr(data, "num_nodes", None)
        edge_index = _array(edge_index)
        if edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index has shape {edge_index.shape}: expected (2, n_edges)")
        return cls.from_edges(edge_index[0], edge_index[1], n_nodes=n_nodes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self._native.n_nodes

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return self._native.n_edges

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights."""
        return self._native.has_weights

    @property
    def reading(self) -> Reading:
        """Counts of what was dropped, merged, rounded and copied."""
        return Reading(copies=self._copies, **self._native.counts())

    def degrees(self) -> NDArray[np.int64]:
        """Degrees by node, int64."""
        return self._native.degrees()

    def edge_index(self) -> NDArray[np.int64]:
        """Both directions of every edge, int64 of shape [2, 2 * n_edges], as PyTorch Geometric has them."""
        offsets, columns, _ = self._native.csr()
        rows = np.repeat(np.arange(self.n_nodes), np.diff(offsets))
        return np.stack([rows, columns])

    def to_scipy(self) -> Any:
        """The adjacency as a symmetric ``scipy.sparse.csr_array`` of float32."""
        from scipy.sparse import csr_array

        offsets, columns, weights = self._native.csr()
        if weights is None:
            weights = np.ones(len(columns), dtype=np.float32)
        return csr_array((weights, columns, offsets), shape=(self.n_nodes, self.n_nodes))

    def complement(self) -> Graph:
        """The graph of the edges that this one lacks."""
        return Graph._of(self._native.complement(), self._nodes, "complement: new rows")

    def labels(self, nodes: ArrayLike | None = None) -> list[Any]:
        """Names of nodes in their file, networkx nodes, or the numbers themselves; of all nodes by default."""
        ids = np.arange(self.n_nodes) if nodes is None else integers(nodes, "nodes")
        if self._nodes is not None:
            return [self._nodes[node] for node in ids]
        names = self._native.labels(ids)
        return ids.tolist() if names is None else names

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> str:
        """Writes the graph as :func:`shardgraph.write`."""
        return write(self, path, format=format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        weighted = ", weighted" if self.is_weighted else ""
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}{weighted})"


def _weights(graph: Any, rows: list[Any], name: str) -> Iterable[float]:
    """The attribute of each entry, summed over parallel edges."""
    if graph.is_multigraph():
        return (sum(d.get(name, 1) for d in keys.values()) for row in rows for keys in row.values())
    return (data.get(name, 1) for row in rows for data in row.values())


def from_networkx(graph: Any, *, weight: str | None = None) -> Graph:
    """The graph of a networkx graph, as :meth:`Graph.from_networkx`."""
    return Graph.from_networkx(graph, weight=weight)


def from_pyg(data: Any, *, n_nodes: int | None = None) -> Graph:
    """The graph of an edge_index, as :meth:`Graph.from_pyg`."""
    return Graph.from_pyg(data, n_nodes=n_nodes)


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    weighted: bool = False,
    max_nodes: int | None = None,
    index: int | None = None,
) -> Graph:
    """Reads a graph file, plain or packed with gzip or zstd; the extension decides the format, then the content.

    :raises ReadError: a malformed file, with its line.
    """
    return Graph._of(NativeGraph.read(os.fspath(path), format, weighted, max_nodes, index), None, "file")


def write(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> str:
    """Writes a graph file at once or not at all; returns what the format could not hold, one line each."""
    return graph._native.write(os.fspath(path), format)


def generate(specification: str, *, seed: int = 1) -> Graph:
    """A built-in graph such as ``karate``, or a random one such as ``er:3000:0.15``."""
    return Graph._of(NativeGraph.generate(specification, seed), None, "generator")
