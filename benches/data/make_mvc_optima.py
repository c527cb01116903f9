# /// script
# requires-python = ">=3.11"
# dependencies = ["highspy==1.15.1", "passagemath-mcqd==10.8.13"]
# ///
"""Makes mvc-optima.csv: the proved minimum vertex cover of each test graph of `cargo xtask repro mvc-quality`.

Each graph comes from `shardgraph generate`. HiGHS proves the Barabasi-Albert graphs (integer program, one row an edge),
MCQD the Erdos-Renyi graphs (largest clique of the complement); graphs of 20 nodes are solved by both, which have to
agree. A row is written as soon as it is proved, and rows that stand in the file are kept: delete the file to start over.
"""

import argparse
import csv
import importlib.metadata
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEEDS = range(1000, 1010)
HERE = Path(__file__).resolve().parent
COLUMNS = ["graph", "seed", "n", "m", "optimum", "solver"]


class Graph:
    """A simple undirected graph; order, vertices, neighbors and iteration are what Sage's interface to MCQD asks for."""

    def __init__(self, n, edges):
        self.n = n
        self.edges = edges
        self.rows = [set() for _ in range(n)]
        for u, v in edges:
            self.rows[u].add(v)
            self.rows[v].add(u)

    def complement(self):
        return Graph(self.n, [(u, v) for u in self for v in range(u + 1, self.n) if v not in self.rows[u]])

    def order(self):
        return self.n

    def vertices(self, sort=False):
        return list(range(self.n))

    def __iter__(self):
        return iter(range(self.n))

    def neighbors(self, v):
        return sorted(self.rows[v])


def read_matrix_market(path):
    """Reads a symmetric pattern; refuses a loop, a repeated edge, and a count of edges that is not the header's."""
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("%")]
    n_rows, n_columns, m = map(int, lines[0])
    edges = {(int(v) - 1, int(u) - 1) for u, v in lines[1:]}
    simple = all(0 <= u < v < n_rows for u, v in edges)
    if not simple or n_rows != n_columns or not m == len(edges) == len(lines) - 1:
        raise SystemExit(f"{path}: no simple graph in symmetric form")
    return Graph(n_rows, sorted(edges))


def generate(program, spec, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.mtx"
        command = [program, "generate", spec, "--seed", str(seed), "--out", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return read_matrix_market(path)


def cover_by_highs(graph):
    """min sum x subject to x_u + x_v >= 1, x binary, to a proved gap below one node."""
    import highspy

    model = highspy.Highs()
    for option, value in [("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0)]:
        model.setOptionValue(option, value)
    x = [model.addBinary(obj=1.0) for _ in graph]
    for u, v in graph.edges:
        model.addConstr(x[u] + x[v] >= 1)
    model.run()
    cover = {v for v in graph if model.val(x[v]) > 0.5}
    bound = math.ceil(model.getInfo().mip_dual_bound - 1e-6)
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal or bound != len(cover):
        raise SystemExit(f"HiGHS proved no more than {bound} for a cover of {len(cover)}")
    return cover


def cover_by_mcqd(graph):
    """All nodes but those of a largest clique of the complement, which is a largest independent set."""
    from sage.graphs.mcqd import mcqd

    return set(graph) - set(mcqd(graph.complement()))


SOLVERS = {
    "HiGHS": ("highspy", cover_by_highs),
    "MCQD": ("passagemath-mcqd", cover_by_mcqd),
}

TEST_GRAPHS = {
    "er:250:0.15": ["MCQD"],
    "ba:250:4": ["HiGHS"],
    "er:20:0.15": ["HiGHS", "MCQD"],
    "ba:20:4": ["HiGHS", "MCQD"],
}


def solver_name(name):
    package, _ = SOLVERS[name]
    return f"{name} ({package} {importlib.metadata.version(package)})"


def optimum(graph, names, label):
    """The size on which all named solvers agree, after a check of every cover; prints CPU seconds."""
    sizes = set()
    for name in names:
        start = time.process_time()
        cover = SOLVERS[name][1](graph)
        seconds = time.process_time() - start
        if any(u not in cover and v not in cover for u, v in graph.edges):
            raise SystemExit(f"{label}: {name} returned no cover")
        sizes.add(len(cover))
        print(f"{label}: n {graph.n} m {len(graph.edges)} cover {len(cover)} {name} {seconds:.2f} s", flush=True)
    if len(sizes) != 1:
        raise SystemExit(f"{label}: the solvers disagree: {sorted(sizes)}")
    return sizes.pop()


def read_rows(path):
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(row["graph"], int(row["seed"])): row for row in csv.DictReader(file)}


def write_rows(path, rows):
    """Rows in the order of TEST_GRAPHS, then by seed; never half a file."""
    order = list(TEST_GRAPHS)
    scratch = path.with_suffix(".tmp")
    with scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for key in sorted(rows, key=lambda key: (order.index(key[0]), key[1])):
            writer.writerow(rows[key])
    os.replace(scratch, path)


def make(program, specs, path):
    rows = read_rows(path)
    for spec in specs:
        names = TEST_GRAPHS[spec]
        for seed in SEEDS:
            if (spec, seed) in rows:
                continue
            graph = generate(program, spec, seed)
            size = optimum(graph, names, f"{spec} seed {seed}")
            solver = " and ".join(map(solver_name, names))
            rows[spec, seed] = dict(zip(COLUMNS, [spec, seed, graph.n, len(graph.edges), size, solver]))
            write_rows(path, rows)


def cross_check(program, specs):
    """Solves other graphs of the same models by both solvers."""
    for spec in specs:
        for seed in SEEDS:
            optimum(generate(program, spec, seed), list(SOLVERS), f"{spec} seed {seed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shardgraph", default="target/release/shardgraph", help="the built program")
    parser.add_argument("--out", type=Path, default=HERE / "mvc-optima.csv")
    parser.add_argument("--only", action="append", choices=TEST_GRAPHS, help="one of the four sets; may repeat")
    parser.add_argument("--cross-check", nargs="+", metavar="SPEC", help="instead, solve such graphs by both solvers")
    options = parser.parse_args()
    if options.cross_check:
        cross_check(options.shardgraph, options.cross_check)
    else:
        make(options.shardgraph, options.only or TEST_GRAPHS, options.out)


if __name__ == "__main__":
    sys.exit(main())
