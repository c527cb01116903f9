"""Graph problems by the solvers of others: CP-SAT of OR-tools, and KaMIS through CHSZLabLib.

Usage: python graph_problems.py '{"solver": "cp-sat", "problem": "mvc", "edges": FILE, "n_nodes": N, "seconds": S, "seed": 1}'
FILE has one edge a line: two ids from 0. Prints one JSON object: {objective, seconds, solver, proved}, the objective counted
here from the nodes of the answer. Exit code 3 where the solver's package is absent.
"""

import json
import sys
import time


def absent(error):
    print(f"graph_problems: {error}", file=sys.stderr)
    sys.exit(3)


def read_edges(path):
    with open(path, encoding="ascii") as lines:
        return [tuple(map(int, line.split()[:2])) for line in lines]


def cp_sat(request, edges):
    try:
        import ortools
        from ortools.sat.python import cp_model
    except ImportError as error:
        absent(error)
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(request["n_nodes"])]
    if request["problem"] == "dominating-set":
        closed = [[node] for node in chosen]
        for u, v in edges:
            closed[u].append(chosen[v])
            closed[v].append(chosen[u])
        for near in closed:
            model.add_bool_or(near)
    else:
        for u, v in edges:
            pair = [chosen[u], chosen[v]]
            model.add_bool_or(pair) if request["problem"] == "mvc" else model.add_at_most_one(pair)
    if request["problem"] == "mis":
        model.maximize(sum(chosen))
    else:
        model.minimize(sum(chosen))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = request["seconds"]
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = request["seed"]
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False, f"CP-SAT {ortools.__version__}"
    nodes = [node for node, var in enumerate(chosen) if solver.boolean_value(var)]
    return nodes, status == cp_model.OPTIMAL, f"CP-SAT {ortools.__version__}"


def chszlab(request, edges):
    try:
        from importlib.metadata import version

        import chszlablib
        import numpy
        import scipy.sparse
    except ImportError as error:
        absent(error)
    n, pairs = request["n_nodes"], numpy.array(edges)
    ones = numpy.ones(2 * len(pairs), dtype=numpy.int64)
    rows = numpy.concatenate([pairs[:, 0], pairs[:, 1]])
    columns = numpy.concatenate([pairs[:, 1], pairs[:, 0]])
    graph = chszlablib.Graph.from_scipy_sparse(scipy.sparse.csr_matrix((ones, (rows, columns)), shape=(n, n)))
    name = f"chszlablib {version('chszlablib')}"
    solve = getattr(chszlablib.IndependenceProblems, request["solver"])
    result = solve(graph, seed=request["seed"], time_limit=request["seconds"])
    inside = numpy.zeros(n, dtype=bool)
    inside[numpy.asarray(result.vertices, dtype=numpy.int64)] = True
    nodes = inside if request["problem"] == "mis" else ~inside
    return numpy.flatnonzero(nodes).tolist(), False, f"{request['solver']}, {name}"


def objective(problem, n_nodes, edges, nodes):
    """Counts, and refuses what is no solution."""
    inside = [False] * n_nodes
    for node in nodes:
        inside[node] = True
    if problem == "mvc":
        assert all(inside[u] or inside[v] for u, v in edges), "an edge is not covered"
    elif problem == "mis":
        assert not any(inside[u] and inside[v] for u, v in edges), "two of the set are adjacent"
    else:
        near = list(inside)
        for u, v in edges:
            near[u] |= inside[v]
            near[v] |= inside[u]
        assert all(near), "a node is not dominated"
    return sum(inside)


def main():
    request = json.loads(sys.argv[1])
    edges = read_edges(request["edges"])
    start = time.perf_counter()
    solve = cp_sat if request["solver"] == "cp-sat" else chszlab
    nodes, proved, name = solve(request, edges)
    seconds = time.perf_counter() - start
    found = None if nodes is None else objective(request["problem"], request["n_nodes"], edges, nodes)
    print(json.dumps({"objective": found, "seconds": seconds, "solver": name, "proved": proved}))


if __name__ == "__main__":
    main()
