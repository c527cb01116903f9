"""The NetworkX backend ``shardgraph``: its functions, by NetworkX's own names and return types.

>>> import networkx as nx
>>> G = nx.karate_club_graph()
>>> len(nx.approximation.min_weighted_vertex_cover(G, backend="shardgraph"))
14
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from ._graph import Graph
from ._solve import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BackendGraph", "BackendInterface"]

_WHOLE = "node weights have to be whole numbers from 0 to 4294967295"


class BackendGraph:
    """A NetworkX graph as the backend holds it: nodes, an undirected simple graph, and the attributes asked for."""

    __networkx_backend__ = "shardgraph"

    def __init__(
        self, graph: Any, edge_attrs: dict[str, Any] | None = None, node_attrs: dict[str, Any] | None = None
    ) -> None:
        self._directed, self._multi = bool(graph.is_directed()), bool(graph.is_multigraph())
        self.edge_weights = {
            name: _edge_values(graph, name, default) for name, default in (edge_attrs or {}).items()
        }
        self.node_weights = {
            name: [data.get(name, default) for _, data in graph.nodes(data=True)]
            for name, default in (node_attrs or {}).items()
        }
        self.graph, self.nodes = Graph.from_networkx(graph), list(graph)
        self.index = {node: i for i, node in enumerate(self.nodes)}
        self.loops = [self.index[node] for node in nx.nodes_with_selfloops(graph)]

    def is_directed(self) -> bool:
        """Whether the NetworkX graph was."""
        return self._directed

    def is_multigraph(self) -> bool:
        """Whether the NetworkX graph was."""
        return self._multi

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.nodes)

    def set_of(self, ids: Iterable[int]) -> set[Any]:
        """The NetworkX nodes of these ids."""
        return {self.nodes[i] for i in ids}


def _edge_values(
    graph: Any, name: str, default: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Ends and values of all edges: ids, ids, and the attribute as NetworkX would sum it."""
    index = {node: i for i, node in enumerate(graph)}
    edges = list(graph.edges(data=name, default=default))
    src = np.fromiter((index[u] for u, _, _ in edges), dtype=np.int64, count=len(edges))
    dst = np.fromiter((index[v] for _, v, _ in edges), dtype=np.int64, count=len(edges))
    return src, dst, np.asarray([value for _, _, value in edges])


def _whole_weights(values: list[Any]) -> NDArray[np.uint32] | str:
    """Node weights as an array, or why they are none."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return _WHOLE
    sound = array.ndim == 1 and np.all((array >= 0) & (array < 2**32) & (array == np.floor(array)))
    return array.astype(np.uint32) if sound else _WHOLE


def _nodes_or(graph: Any, name: str, default: Any) -> list[Any]:
    """The node attribute; of a NetworkX graph too."""
    if isinstance(graph, BackendGraph):
        values = graph.node_weights.get(name, [None] * len(graph))
    else:
        values = [data.get(name) for _, data in graph.nodes(data=True)]
    return [default if value is None else value for value in values]


def _limits(time_limit: float | None, steps: int | None, threads: int) -> dict[str, Any]:
    return {"time_limit": time_limit, "steps": steps, "threads": threads}


def min_weighted_vertex_cover(
    G: BackendGraph,
    weight: str | None = None,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> set[Any]:
    """A light vertex cover, as networkx.approximation.min_weighted_vertex_cover."""
    graph = G.graph
    weights: NDArray[np.uint32] | str | None = None
    if weight is not None:
        weights = _whole_weights(_nodes_or(G, weight, 1))
        if isinstance(weights, str):
            raise NotImplementedError(weights)
    if G.loops:
        # A node with a self-loop is in every cover: what it covers goes.
        src, dst = graph.edge_index()
        loops = np.zeros(len(G), dtype=bool)
        loops[G.loops] = True
        rest = (src < dst) & ~loops[src] & ~loops[dst]
        graph = Graph.from_edges(src[rest], dst[rest], n_nodes=len(G))
    found = solve(graph, "mvc", weights=weights, seed=seed, **_limits(time_limit, steps, threads))
    return G.set_of(found) | G.set_of(G.loops)


def maximum_independent_set(
    G: BackendGraph,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> set[Any]:
    """A large independent set, as networkx.approximation.maximum_independent_set."""
    return G.set_of(solve(G.graph, "mis", seed=seed, **_limits(time_limit, steps, threads)))


def max_clique(
    G: BackendGraph,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> set[Any]:
    """A large clique, as networkx.approximation.max_clique."""
    return G.set_of(solve(G.graph, "clique", seed=seed, **_limits(time_limit, steps, threads)))


def large_clique_size(
    G: BackendGraph,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> int:
    """The size of a large clique, as networkx.approximation.large_clique_size."""
    return len(solve(G.graph, "clique", seed=seed, **_limits(time_limit, steps, threads)))


def clique_removal(
    G: BackendGraph,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> tuple[set[Any], list[set[Any]]]:
    """A large independent set and cliques that part the nodes, as networkx.approximation.clique_removal."""
    found = maximum_independent_set(G, time_limit=time_limit, steps=steps, threads=threads, seed=seed)
    return found, [G.set_of(clique) for clique in _greedy_cliques(G.graph)]


def _greedy_cliques(graph: Graph) -> list[list[int]]:
    """A partition of the nodes into cliques, each grown from the node of least degree."""
    offsets, columns, _ = graph._native.csr()
    degrees = np.diff(offsets)
    rows = [row.tolist() for row in np.split(columns, offsets[1:-1])]
    is_free = [True] * graph.n_nodes
    cliques = []
    for node in np.argsort(degrees, kind="stable").tolist():
        if not is_free[node]:
            continue
        clique = [node]
        is_free[node] = False
        candidates = {v for v in rows[node] if is_free[v]}
        while candidates:
            node = min(candidates, key=lambda v: (degrees[v], v))
            clique.append(node)
            is_free[node] = False
            candidates.intersection_update(rows[node])
        cliques.append(clique)
    return cliques


def max_weight_clique(
    G: BackendGraph,
    weight: str | None = "weight",
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> tuple[list[Any], int]:
    """A heaviest clique and its weight, as networkx.max_weight_clique."""
    if len(G) == 0:
        return [], 0
    options = _limits(time_limit, steps, threads) | {"seed": seed}
    if weight is None:
        found = solve(G.graph, "clique", method="exact", **options)
        total = len(found)
    else:
        values = _nodes_or(G, weight, None)
        for node, value in zip(G.nodes, values):
            if value is None:
                raise KeyError(f"Node {node!r} does not have the requested weight field.")
            if not isinstance(value, int):
                raise ValueError(f"The {weight!r} field of node {node!r} is not an integer.")
        weights = _whole_weights(values)
        if isinstance(weights, str):
            raise NotImplementedError(weights)
        found = solve(G.graph, "clique", weights=weights, **options)
        total = sum(values[node] for node in found)
    if not found.optimal:
        raise NotImplementedError(f"no proof of the optimum in this time: best {total}, bound {found.bound}")
    return [G.nodes[node] for node in found], total


def min_weighted_dominating_set(
    G: BackendGraph,
    weight: str | None = None,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> set[Any]:
    """A small dominating set, as networkx.approximation.min_weighted_dominating_set without weights."""
    if weight is not None:
        raise NotImplementedError("no solver for dominating sets with node weights")
    return G.set_of(solve(G.graph, "dominating-set", seed=seed, **_limits(time_limit, steps, threads)))


def dominating_set(
    G: BackendGraph,
    start_with: Any = None,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    seed: int = 1,
) -> set[Any]:
    """A small dominating set with the node ``start_with``, as networkx.dominating_set."""
    if start_with is not None and start_with not in G.index:
        raise nx.NetworkXError(f"node {start_with} is not in G")
    found = solve(G.graph, "dominating-set", seed=seed, **_limits(time_limit, steps, threads))
    return G.set_of(found) | ({start_with} if start_with is not None else set())


def maximal_independent_set(
    G: BackendGraph,
    nodes: Any = None,
    seed: Any = None,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
) -> list[Any]:
    """A maximal independent set with ``nodes`` in it, as networkx.maximal_independent_set, but as large as can be found."""
    start = [] if nodes is None or not len(nodes) else list(dict.fromkeys(nodes))
    missing = [node for node in start if node not in G.index]
    if missing:
        raise nx.NetworkXUnfeasible(f"{set(start)} is not a subset of the nodes of G")
    offsets, columns, _ = G.graph._native.csr()
    is_free = np.ones(len(G), dtype=bool)
    ids = [G.index[node] for node in start]
    for i in ids:
        is_free[columns[offsets[i] : offsets[i + 1]]] = False
    if not all(is_free[i] for i in ids):
        raise nx.NetworkXUnfeasible(f"{set(start)} is not an independent set of G")
    is_free[ids] = False
    rest = np.flatnonzero(is_free)
    graph = G.graph
    if ids:
        number = np.cumsum(is_free) - 1
        src, dst = graph.edge_index()
        inside = (src < dst) & is_free[src] & is_free[dst]
        graph = Graph.from_edges(number[src[inside]], number[dst[inside]], n_nodes=len(rest))
    found = solve(graph, "mis", **_limits(time_limit, steps, threads))
    remaining = [G.nodes[i] for i in rest[found.nodes].tolist()]
    # NetworkX draws one of the nodes that are left, again and again.
    drawn = [remaining.pop(seed.choice(range(len(remaining)))) for _ in range(len(remaining))]
    return start + drawn


def _cut_value(G: BackendGraph, inside: NDArray[np.bool_], weight: str | None) -> Any:
    """The weight of the edges that leave a set, as a Python number."""
    if weight is None:
        src, dst = G.graph.edge_index()
        return int(np.count_nonzero(inside[src] & ~inside[dst]))
    src, dst, values = G.edge_weights[weight]
    return sum(values[inside[src] != inside[dst]].tolist())


def _parts(G: BackendGraph, inside: NDArray[np.bool_]) -> tuple[set[Any], set[Any]]:
    ids = np.arange(len(G))
    return G.set_of(ids[inside].tolist()), G.set_of(ids[~inside].tolist())


def randomized_partitioning(
    G: BackendGraph, seed: Any = None, p: float = 0.5, weight: str | None = None
) -> tuple[Any, tuple[set[Any], set[Any]]]:
    """A random partition, as networkx.approximation.randomized_partitioning draws it."""
    inside = np.fromiter((seed.random() < p for _ in G.nodes), dtype=bool, count=len(G))
    return _cut_value(G, inside, weight), _parts(G, inside)


def one_exchange(
    G: BackendGraph,
    initial_cut: Any = None,
    seed: Any = None,
    weight: str | None = None,
    *,
    time_limit: float | None = None,
    steps: int | None = None,
    threads: int = 1,
) -> tuple[Any, tuple[set[Any], set[Any]]]:
    """A heavy cut, as networkx.approximation.one_exchange; never lighter than the initial one."""
    graph = G.graph
    if weight is not None:
        src, dst, values = G.edge_weights[weight]
        graph = Graph.from_edges(src, dst, values, n_nodes=len(G))
    found = solve(graph, "cut", seed=seed.getrandbits(63), **_limits(time_limit, steps, threads))
    inside = found.mask
    value = _cut_value(G, inside, weight)
    if initial_cut:
        initial = np.zeros(len(G), dtype=bool)
        initial[[G.index[node] for node in initial_cut]] = True
        given = _cut_value(G, initial, weight)
        if given > value:
            inside, value = initial, given
    return value, _parts(G, inside)


_FUNCTIONS = (
    clique_removal,
    dominating_set,
    large_clique_size,
    max_clique,
    max_weight_clique,
    maximal_independent_set,
    maximum_independent_set,
    min_weighted_dominating_set,
    min_weighted_vertex_cover,
    one_exchange,
    randomized_partitioning,
)
_CUTS = {"one_exchange", "randomized_partitioning"}


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


class BackendInterface:
    """What NetworkX's dispatcher calls."""

    @staticmethod
    def convert_from_nx(
        graph: Any, *, edge_attrs: Any = None, node_attrs: Any = None, **_: Any
    ) -> BackendGraph:
        """The backend's form of a graph; conversion is one pass over its rows."""
        if isinstance(graph, BackendGraph):
            return graph
        return BackendGraph(graph, edge_attrs, node_attrs)

    @staticmethod
    def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
        """Results are sets, lists and numbers already."""
        return result

    @staticmethod
    def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
        """True, or why not."""
        if name not in _NAMES:
            return f"shardgraph has no {name}"
        graph = _argument(args, kwargs, 0, "G")
        if name in {"dominating_set"} and graph.is_directed():
            return "dominating sets of directed graphs are not solved"
        if len(graph) and name in {"min_weighted_vertex_cover", "min_weighted_dominating_set"}:
            weight = _argument(args, kwargs, 1, "weight")
            if weight is not None and name == "min_weighted_dominating_set":
                return "dominating sets with node weights are not solved"
            if weight is not None:
                weights = _whole_weights(_nodes_or(graph, weight, 1))
                return weights if isinstance(weights, str) else True
        if name in _CUTS and _argument(args, kwargs, 3, "weight") is not None:
            return _finite_weights(graph, _argument(args, kwargs, 3, "weight"))
        return True

    @staticmethod
    def should_run(name: str, args: Any, kwargs: Any) -> bool:
        """Always: each answer is as good as NetworkX's or better."""
        return True


def _finite_weights(graph: Any, name: str) -> bool | str:
    if isinstance(graph, BackendGraph):
        values = graph.edge_weights[name][2]
    else:
        values = np.asarray([value for _, _, value in graph.edges(data=name, default=1)])
    if values.size and (values.dtype.kind not in "iuf" or not np.all(np.isfinite(values.astype(np.float64)))):
        return "edge weights have to be finite numbers"
    return True


_NAMES = {function.__name__ for function in _FUNCTIONS}
for _function in _FUNCTIONS:
    setattr(BackendInterface, _function.__name__, staticmethod(_function))
