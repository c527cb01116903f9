"""Measures the NetworkX backend beside NetworkX itself and writes the record bench-results/python/networkx.

    target/python-package/bin/python crates/python/benches/backend.py [--limit SECONDS] [--rounds N] [GRAPH...]

Each call runs in a process of its own and ends at the limit. NetworkX graphs are made before the time is taken; the time of the
backend has the conversion in it.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data" / "graphs"
GRAPHS = {
    "karate": "karate",
    "ca-GrQc": "ca-GrQc.txt.gz",
    "wiki-Vote": "wiki-Vote.txt.gz",
    "facebook": "facebook_combined.txt.gz",
    "C250.9": "C250.9.clq.gz",
    "frb30-15-1": "frb30-15-1.mis",
    "vc-exact_001": "vc-exact_001.gr.gz",
    "ER(20000, 0.0005)": "er:20000:0.0005",
}
FUNCTIONS = {
    "min_weighted_vertex_cover": (len, min),
    "maximum_independent_set": (len, max),
    "max_clique": (len, max),
    "min_weighted_dominating_set": (len, min),
    "one_exchange": (lambda cut: cut[0], max),
}
OPTIONS = {"backend": "shardgraph", "time_limit": 1.0}


def call(graph, function, backend):
    """Seconds and objective of one call, as a child process prints them."""
    import time

    import networkx as nx
    import shardgraph

    path = DATA / GRAPHS[graph]
    ours = shardgraph.read(path) if path.is_file() else shardgraph.generate(GRAPHS[graph])
    src, dst = ours.edge_index()
    G = nx.Graph()
    G.add_nodes_from(range(ours.n_nodes))
    G.add_edges_from(zip(src[src < dst].tolist(), dst[src < dst].tolist()))
    run = getattr(nx.approximation, function, None)
    options = OPTIONS if backend == "shardgraph" else {}
    options = options | ({"seed": 1} if function == "one_exchange" else {})
    # The first call of a backend loads it.
    nx.approximation.min_weighted_vertex_cover(nx.path_graph(3), backend="shardgraph")
    begin = time.perf_counter()
    if function == "conversion":
        shardgraph.Graph.from_networkx(G)
        objective = G.number_of_edges()
    elif function == "conversion_scipy":
        matrix = ours.to_scipy()
        begin = time.perf_counter()
        shardgraph.Graph.from_csr(matrix)
        objective = G.number_of_edges()
    else:
        objective = FUNCTIONS[function][0](run(G, **options))
    print(json.dumps([time.perf_counter() - begin, float(objective)]))


def measured(graph, function, backend, limit):
    """The child's seconds and objective; nothing past the limit."""
    command = [sys.executable, __file__, "--call", graph, function, backend]
    try:
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(error.stderr.strip().splitlines()[-1])
        return None
    return json.loads(ran.stdout)


def value(name, unit, samples):
    return {"name": name, "unit": unit, "samples": samples}


def row(graph, function, rounds, limit):
    ours = [measured(graph, function, "shardgraph", 60 + limit) for _ in range(rounds)]
    ended = [one for one in ours if one]
    if not ended:
        raise SystemExit(f"{graph}, {function}: no call ended within {60 + limit:g} s")
    seconds, objectives = zip(*ended)
    values = [value("seconds", "s", list(seconds)), value("objective", "", list(objectives))]
    note, peer = "", None
    if function in FUNCTIONS:
        theirs = measured(graph, function, "networkx", limit)
        if theirs is None:
            note = f"networkx did not end within {limit:g} s"
        else:
            peer = theirs[0]
            values += [
                value("networkx_objective", "", [theirs[1]]),
                value("speedup", "", [peer / statistics.median(seconds)]),
            ]
            best = FUNCTIONS[function][1]
            if best(objectives[0], theirs[1]) != objectives[0]:
                note = "networkx has the better answer"
    print(
        graph,
        function,
        *(f"{v['name']}={statistics.median(v['samples']):.6g}" for v in values),
        note,
        flush=True,
    )
    labels = [["graph", graph], ["function", function]]
    return {
        "series": "",
        "labels": labels,
        "x": None,
        "values": values,
        "paper": None,
        "peer": peer,
        "note": note,
    }


def stdout(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def write(rows, arguments):
    """latest.json in the schema of the other records, and latest.md."""
    import datetime

    import networkx
    import numpy

    record = {
        "schema_version": 2,
        "group": "python",
        "figure": "networkx",
        "title": "The NetworkX backend beside NetworkX",
        "command": " ".join(["python crates/python/benches/backend.py", *arguments]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "revision": stdout("git", "rev-parse", "HEAD"),
        "is_dirty": bool(stdout("git", "status", "--porcelain", "--untracked-files=no")),
        "host": {
            "label": platform.node(),
            "cpu": next(
                (s.split(":")[1].strip() for s in open("/proc/cpuinfo") if s.startswith("model name")), ""
            ),
            "n_cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": f"{platform.system().lower()} {platform.release()}",
            "rustc": stdout("rustc", "--version"),
        },
        "device": "host",
        "load": os.getloadavg()[0],
        "rows": rows,
        "skips": [],
        "notes": [
            f"networkx {networkx.__version__}, numpy {numpy.__version__}, Python {platform.python_version()}"
        ],
    }
    folder = ROOT / "bench-results" / "python" / "networkx"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(record, indent=2) + "\n")
    lines = [f"# {record['title']}", "", "```", record["command"], "```", ""]
    lines += [f"- {record['date']}, {record['host']['label']}, revision {record['revision']}"]
    lines += [
        f"- {record['notes'][0]}; load before: {record['load']:.2f} on {record['host']['n_cores']} cores",
        "",
    ]
    lines += [
        "| graph | function | seconds | objective | networkx seconds | networkx objective | times as fast |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in rows:
        cells = {v["name"]: f"{statistics.median(v['samples']):.4g}" for v in one["values"]}
        peer = one["note"] if one["peer"] is None else f"{one['peer']:.4g}"
        (_, graph), (_, function) = one["labels"]
        theirs = [peer, cells.get("networkx_objective", ""), cells.get("speedup", "")]
        lines.append(f"| {' | '.join([graph, function, cells['seconds'], cells['objective'], *theirs])} |")
    (folder / "latest.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a call of networkx")
    parser.add_argument("--rounds", type=int, default=3, help="calls of ours")
    parser.add_argument("--call", nargs=3)
    options = parser.parse_args()
    if options.call:
        return call(*options.call)
    functions = [*FUNCTIONS, "conversion", "conversion_scipy"]
    rows = [row(g, f, options.rounds, options.limit) for g in options.graphs for f in functions]
    return write(rows, sys.argv[1:])


if __name__ == "__main__":
    main()
