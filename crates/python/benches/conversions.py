"""Seconds from the graphs of other libraries to ours and back; ``cargo xtask bench python/conversions`` calls it.

The argument is JSON: graphs (generators) and runs.
"""

import json
import sys
import time

import numpy as np
import shardgraph
from networkx_backend import networkx_graph


def timed(work, runs):
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        made = work()
        seconds.append(time.perf_counter() - begin)
    return seconds, made


def main(request):
    for source in request["graphs"]:
        ours = shardgraph.generate(source)
        matrix = ours.to_scipy()
        matrix.indices = matrix.indices.astype(np.int32)
        src, dst = ours.edge_index()
        half = src < dst
        theirs = networkx_graph(source)
        works = {
            "from_networkx": lambda: shardgraph.from_networkx(theirs),
            "from_csr": lambda: shardgraph.Graph.from_csr(matrix),
            "from_edges": lambda: shardgraph.Graph.from_edges(src[half], dst[half], n_nodes=ours.n_nodes),
            "to_scipy": ours.to_scipy,
            "a copy of the columns by numpy": matrix.indices.copy,
        }
        for name, work in works.items():
            seconds, made = timed(work, request["runs"])
            nanoseconds = [1e9 * one / ours.n_edges for one in seconds]
            row = {"graph": source, "conversion": name, "edges": ours.n_edges}
            row |= {"nanoseconds_per_edge": nanoseconds, "seconds": seconds}
            if isinstance(made, shardgraph.Graph):
                assert made == ours, name
                row["note"] = made.reading.copies
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
