"""Graphs from arrays of every kind, and back."""

import pickle

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from shardgraph import CapacityError, Graph, ReadError, generate, read, write

INTEGERS = ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8"]


def naive(src, dst, n_nodes):
    edges = {(min(u, v), max(u, v)) for u, v in zip(src, dst) if u != v}
    matrix = np.zeros((n_nodes, n_nodes), dtype=bool)
    for u, v in edges:
        matrix[u, v] = matrix[v, u] = True
    return matrix


@st.composite
def edges(draw):
    n_nodes = draw(st.integers(1, 70))
    pairs = draw(st.lists(st.tuples(st.integers(0, n_nodes - 1), st.integers(0, n_nodes - 1)), max_size=120))
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    array = np.array(pairs, dtype=dtype).reshape(-1, 2)
    if draw(st.booleans()):
        array = np.repeat(array, 2, axis=0)[::2]
    array.flags.writeable = draw(st.booleans())
    return n_nodes, array


@settings(max_examples=150, deadline=None)
@given(edges())
def test_arrays_of_any_integers_make_the_graph_of_a_naive_matrix(case):
    n_nodes, array = case
    graph = Graph.from_edges(array[:, 0], array[:, 1], n_nodes=n_nodes)
    matrix = naive(array[:, 0].tolist(), array[:, 1].tolist(), n_nodes)
    assert np.array_equal(graph.to_scipy().toarray() != 0, matrix)
    assert np.array_equal(graph.degrees(), matrix.sum(axis=0))
    assert graph.n_edges == matrix.sum() // 2
    assert graph == Graph.from_csr(graph.to_scipy()) == Graph.from_pyg(graph.edge_index(), n_nodes=n_nodes)
    reading = graph.reading
    assert reading.self_loops + reading.duplicates + graph.n_edges == len(array)


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(st.sampled_from(["<f4", ">f8", "i8", "f2"]), st.integers(0, 8)))
def test_weights_give_a_graph_or_a_sentence(weights):
    src = np.arange(len(weights))
    wide = np.asarray(weights, dtype=np.float64)
    narrow = wide.astype(np.float32)
    if np.all(np.isfinite(narrow)):
        graph = Graph.from_edges(src, src + 1, weights)
        assert np.array_equal(graph.to_scipy().toarray().diagonal(1), narrow)
        assert graph.reading.weights_rounded == np.count_nonzero(narrow.astype(np.float64) != wide)
    else:
        with pytest.raises(ValueError, match="expected a finite number"):
            Graph.from_edges(src, src + 1, weights)


def test_wrong_arrays_are_refused_in_a_sentence():
    ids = np.array([0, 1])
    for src, error, words in [
        ([0.5, 1.0], TypeError, "expected an integer type"),
        (["a", "b"], TypeError, "expected an integer type"),
        ([[0, 1]], ValueError, "2 dimensions: expected one"),
        ([0], ValueError, "expected arrays of one length"),
        ([-1, 0], ValueError, "node -1 does not exist"),
        ([0, 2**40], CapacityError, "at most 4294967294 nodes"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), ValueError, "below 2\\*\\*63"),
    ]:
        with pytest.raises(error, match=words):
            Graph.from_edges(src, ids)
    with pytest.raises(ValueError, match="node 1 does not exist: the graph has 1 nodes"):
        Graph.from_edges(ids, ids[::-1], n_nodes=1)
    with pytest.raises(CapacityError):
        Graph.from_edges(ids, ids, n_nodes=2**32)
    with pytest.raises(ValueError, match="square"):
        Graph.from_csr(scipy.sparse.csr_array((2, 3)))
    with pytest.raises(TypeError, match="from_edges"):
        Graph()


def test_empty_graphs_are_graphs():
    assert Graph.from_edges([], []).n_nodes == 0
    assert Graph.from_edges([], [], n_nodes=3).degrees().tolist() == [0, 0, 0]
    assert Graph.from_csr(scipy.sparse.csr_array((0, 0))).n_nodes == 0
    assert Graph.from_networkx(nx.Graph()).edge_index().shape == (2, 0)


def test_networkx_graphs_keep_their_nodes():
    for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph):
        G = kind([("a", "b"), ("b", "c"), ("c", "a"), ("c", "c")])
        graph = Graph.from_networkx(G)
        assert (graph.n_nodes, graph.n_edges, graph.reading.self_loops) == (3, 3, 1)
        assert graph.labels() == ["a", "b", "c"] and graph.labels([2]) == ["c"]
    weighted = nx.Graph()
    weighted.add_edge(0, 1, weight=2.5)
    weighted.add_edge(1, 2)
    assert Graph.from_networkx(weighted, weight="weight").to_scipy().toarray()[1].tolist() == [2.5, 0, 1]


def test_files_are_written_and_read_again(tmp_path):
    graph = generate("er:60:0.1", seed=3)
    for name in ("g.mtx", "g.mtx.gz", "g.col", "g.graph"):
        assert write(graph, tmp_path / name) == ""
        assert read(tmp_path / name) == graph
    with pytest.raises(ValueError, match="`.xyz` says no format"):
        write(graph, tmp_path / "graph.xyz")
    (tmp_path / "bad.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n9 1\n")
    with pytest.raises(ReadError) as caught:
        read(tmp_path / "bad.mtx")
    assert caught.value.line == 3 and caught.value.path.endswith("bad.mtx")
    assert pickle.loads(pickle.dumps(caught.value)).line == 3
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.mtx")
    with pytest.raises(ValueError, match="er:10:2|expected a number"):
        generate("er:10:2")
    (tmp_path / "named.el").write_text("ann bob\nbob cid\nann ann\n")
    named = read(tmp_path / "named.el")
    assert named.labels([1, 2]) == ["bob", "cid"] and "self-loops dropped: 1" in named.reading.report
    with pytest.raises(ValueError, match="node 3 does not exist"):
        named.labels([3])


def test_matrices_in_order_are_copied_once_and_others_are_made_so():
    graph = generate("er:200:0.05", seed=2)
    matrix = graph.to_scipy().astype(np.float32)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    assert Graph.from_csr(matrix).reading.copies == "rows: one copy"
    half = scipy.sparse.triu(matrix, format="csr")
    looped = matrix + scipy.sparse.eye_array(200, format="csr", dtype=np.float32)
    shuffled = matrix.copy()
    for row in range(200):
        entries = slice(shuffled.indptr[row], shuffled.indptr[row + 1])
        shuffled.indices[entries] = shuffled.indices[entries][::-1].copy()
    for other in (half, looped, shuffled):
        made = Graph.from_csr(other)
        assert made == graph and "sorted" in made.reading.copies
    weights = scipy.sparse.csr_array(matrix)
    weights.data = np.arange(len(weights.data), dtype=np.float32)
    assert "sorted" in Graph.from_csr(weights, weighted=True).reading.copies
    weights = weights + weights.T
    made = Graph.from_csr(weights, weighted=True)
    assert made.reading.copies == "rows: one copy" and np.array_equal(made.to_scipy().toarray(), weights.toarray())
    weights.data[0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        Graph.from_csr(weights, weighted=True)
    wrong = scipy.sparse.csr_array(matrix)
    wrong.indices[0] = -5
    with pytest.raises(ValueError, match="node -5 does not exist"):
        Graph.from_csr(wrong)


def test_the_complement_has_the_other_edges():
    petersen = generate("petersen")
    assert petersen.complement().n_edges == 45 - 15
