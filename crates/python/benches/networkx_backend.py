"""The NetworkX backend beside NetworkX itself, a JSON line a graph and function; ``cargo xtask bench python/networkx`` calls it.

The argument is JSON: graphs by name (a file or a generator), functions, runs, time_limit of ours, and limit (seconds) and memory_limit
(bytes) of a call of NetworkX. Each call is a process of its own, which begins with the NetworkX graph in memory; the time of the backend
has the conversion in it. A call of NetworkX that is cut off at the limit gives a bound, ``at_least_times_as_fast``.
"""

import json
import resource
import signal
import subprocess
import sys
import time

SETUP_SECONDS = 120
# NetworkX's Ramsey recursion is as deep as the graph has nodes.
STACK_BYTES = 1 << 30

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


class Cut(BaseException):
    """The limit of a call is over."""


def cut_off(signum, frame):
    raise Cut


def call(source, function, options, limit):
    """Prints what one call gave: seconds and objective, or that it was cut off after ``limit`` seconds."""
    import networkx as nx

    graph = networkx_graph(source)
    if options:
        # The first call of a backend loads it.
        nx.approximation.min_weighted_vertex_cover(nx.path_graph(3), backend="shardgraph")
    if function == "one_exchange":
        options["seed"] = 1
    signal.signal(signal.SIGALRM, cut_off)
    signal.setitimer(signal.ITIMER_REAL, limit)
    begin = time.perf_counter()
    try:
        found = getattr(nx.approximation, function)(graph, **options)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Cut:
        print(json.dumps({"cut_off_after": time.perf_counter() - begin}))
        return
    seconds = time.perf_counter() - begin
    objective = float(found[0] if function == "one_exchange" else len(found))
    print(json.dumps({"seconds": seconds, "objective": objective, "edges": graph.number_of_edges()}))


def measured(request, source, function, backend):
    """What a call in a process of its own gave, or ``failed`` with the reason."""
    options = {"backend": "shardgraph", "time_limit": request["time_limit"]} if backend else {}
    one = {"source": source, "function": function, "options": options, "limit": request["limit"]}
    if not backend:
        one["memory_limit"] = request["memory_limit"]
    command = [sys.executable, __file__, "--call", json.dumps(one)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SETUP_SECONDS + request["limit"])
    except subprocess.TimeoutExpired:
        return {"failed": f"no end {SETUP_SECONDS} s after the limit"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"signal {-done.returncode}"]
        return {"failed": lines[-1][:100]}
    return json.loads(done.stdout)


def row_of(request, name, source, function):
    """The row of a graph and a function: ours ``runs`` times, NetworkX once."""
    ours = [measured(request, source, function, True) for _ in range(request["runs"])]
    unfinished = [one for one in ours if "seconds" not in one]
    if unfinished:
        raise SystemExit(f"{name}, {function}: {unfinished[0]}")
    seconds, objectives = ([one[key] for one in ours] for key in ("seconds", "objective"))
    row = {"graph": name, "function": function, "edges": ours[0]["edges"], "seconds": seconds, "objective": objectives}
    theirs = measured(request, source, function, False)
    if "failed" in theirs:
        row["note"] = f"networkx failed: {theirs['failed']}"
    elif "cut_off_after" in theirs:
        row["at_least_times_as_fast"] = [theirs["cut_off_after"] / one for one in seconds]
        row["note"] = f"networkx did not end within {request['limit']:g} s"
    else:
        row |= {"networkx_seconds": theirs["seconds"], "networkx_objective": theirs["objective"]}
        row["times_as_fast"] = [theirs["seconds"] / one for one in seconds]
        if any(BETTER[function](one, theirs["objective"]) != one for one in objectives):
            row["note"] = "networkx has the better answer"
    return row


def main(request):
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))
    for name, source in request["graphs"].items():
        for function in request["functions"]:
            print(json.dumps(row_of(request, name, source, function)), flush=True)


def called(one):
    """Runs a call with the memory that it may take, in a stack that the parent made large."""
    if limit := one.pop("memory_limit", None):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.setrecursionlimit(1_000_000)
    call(**one)


if __name__ == "__main__":
    if sys.argv[1] == "--call":
        called(json.loads(sys.argv[2]))
    else:
        main(json.loads(sys.argv[1]))
