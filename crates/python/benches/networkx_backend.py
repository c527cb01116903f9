"""The NetworkX backend beside NetworkX itself, a JSON line a graph and function; ``cargo xtask bench python/networkx`` calls it.

The argument is JSON: graphs by name (a file or a generator), functions, runs, time_limit of ours and limit of a call of NetworkX. Each
call is a process of its own, which begins with the NetworkX graph in memory; the time of the backend has the conversion in it.
"""

import json
import subprocess
import sys
import time

BETTER = {
    "min_weighted_vertex_cover": min,
    "maximum_independent_set": max,
    "max_clique": max,
    "min_weighted_dominating_set": min,
    "one_exchange": max,
}


def networkx_graph(source):
    """The graph of a file or a generator, as NetworkX has it."""
    import networkx as nx
    import shardgraph

    ours = shardgraph.read(source) if "/" in source else shardgraph.generate(source)
    src, dst = ours.edge_index()
    graph = nx.Graph()
    graph.add_nodes_from(range(ours.n_nodes))
    graph.add_edges_from(zip(src[src < dst].tolist(), dst[src < dst].tolist()))
    return graph


def call(source, function, time_limit):
    """Prints seconds and objective of one call; NetworkX's own without a time limit."""
    import networkx as nx

    graph = networkx_graph(source)
    options = {} if time_limit is None else {"backend": "shardgraph", "time_limit": time_limit}
    options |= {"seed": 1} if function == "one_exchange" else {}
    if time_limit is not None:
        # The first call of a backend loads it.
        nx.approximation.min_weighted_vertex_cover(nx.path_graph(3), backend="shardgraph")
    begin = time.perf_counter()
    found = getattr(nx.approximation, function)(graph, **options)
    seconds = time.perf_counter() - begin
    print(json.dumps([seconds, float(found[0] if function == "one_exchange" else len(found)), graph.number_of_edges()]))


def measured(source, function, time_limit, limit):
    """The three numbers of a call in a process of its own, or why there are none."""
    command = [sys.executable, __file__, "--call", source, function, json.dumps(time_limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"networkx did not end within {limit:g} s"
    if done.returncode:
        return f"networkx failed: {done.stderr.strip().splitlines()[-1][:100]}"
    return json.loads(done.stdout)


def main(request):
    for name, source in request["graphs"].items():
        for function in request["functions"]:
            # The child also imports and makes the graph.
            ours = [
                measured(source, function, request["time_limit"], 120 + request["limit"])
                for _ in range(request["runs"])
            ]
            failed = [one for one in ours if isinstance(one, str)]
            if failed:
                raise SystemExit(f"{name}, {function}: {failed[0]}")
            seconds, objectives, edges = ([one[i] for one in ours] for i in range(3))
            row = {"graph": name, "function": function, "edges": edges[0], "seconds": seconds, "objective": objectives}
            theirs = measured(source, function, None, request["limit"])
            if isinstance(theirs, str):
                row["note"] = theirs
            else:
                row |= {"networkx_seconds": theirs[0], "networkx_objective": theirs[1]}
                row["times_as_fast"] = [theirs[0] / one for one in seconds]
                if any(BETTER[function](one, theirs[1]) != one for one in objectives):
                    row["note"] = "networkx has the better answer"
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--call":
        call(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        main(json.loads(sys.argv[1]))
