"""brkga.minimize beside pymoo's BRKGA with the same vectorised decoder; ``cargo xtask bench python/minimize`` calls it.

The argument is JSON: n_keys (lengths of chromosomes), population, elites, mutants, bias, generations and runs. The decoder is a
permutation by ``numpy.argsort`` and the length of a tour by it, so that both engines pay for a decoder of the usual kind; the row
"engine" has one that sums keys, which is what an engine alone takes.
"""

import json
import sys
import time

import numpy as np
from pymoo.algorithms.soo.nonconvex.brkga import BRKGA
from pymoo.core.problem import Problem
from pymoo.optimize import minimize as pymoo_minimize
from shardgraph import brkga


def decoders(n_keys):
    points = np.random.default_rng(7).random((n_keys, 2))

    def tour(keys):
        order = np.argsort(keys, axis=1)
        return np.linalg.norm(points[order] - points[np.roll(order, 1, axis=1)], axis=2).sum(axis=1)

    return {"tour": tour, "engine": lambda keys: keys.sum(axis=1)}


class Theirs(Problem):
    def __init__(self, decode, n_keys):
        super().__init__(n_var=n_keys, n_obj=1, xl=0.0, xu=1.0)
        self.decode = decode

    def _evaluate(self, x, out, *_, **__):
        out["F"] = self.decode(x)


def main(request):
    population, elites, mutants = (request[name] for name in ("population", "elites", "mutants"))
    for n_keys in request["n_keys"]:
        for name, decode in decoders(n_keys).items():
            row = {"decoder": name, "n_keys": n_keys, "seconds": [], "value": []}
            row |= {"pymoo_seconds": [], "pymoo_value": [], "times_as_fast": []}
            for seed in range(1, 1 + request["runs"]):
                begin = time.perf_counter()
                ours = brkga.minimize(
                    decode,
                    n_keys,
                    population=population,
                    elites=elites,
                    mutants=mutants,
                    bias=request["bias"],
                    maxiter=request["generations"],
                    seed=seed,
                )
                mine = time.perf_counter() - begin
                algorithm = BRKGA(
                    n_elites=elites,
                    n_offsprings=population - elites - mutants,
                    n_mutants=mutants,
                    bias=request["bias"],
                )
                begin = time.perf_counter()
                theirs = pymoo_minimize(
                    Theirs(decode, n_keys), algorithm, ("n_gen", request["generations"]), seed=seed
                )
                yours = time.perf_counter() - begin
                row["seconds"].append(mine)
                row["value"].append(ours.fun)
                row["pymoo_seconds"].append(yours)
                row["pymoo_value"].append(float(theirs.F[0]))
                row["times_as_fast"].append(yours / mine)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
