"""BRKGA engines from PyPI with a decoder that decodes nothing: the peers of crates/brkga/benches/engine.rs.

The same sizes (100 chromosomes, 20 elites, 20 mutants, rho 0.7) and lengths as there. pymoo decodes a generation at once, on
numpy arrays; brkga-mp-ipr is plain Python and makes 5060 evaluations, whole generations, where the others make 5000.

Usage: python brkga_engines.py [n_keys ...]
Prints METRIC:<series>/<metric>:<value>:<unit> lines: processor time of this process for one evaluation, SAMPLES times.
Exit code 3 without the packages (pip install pymoo brkga-mp-ipr).
"""

import sys
import time

try:
    import numpy as np
    from brkga_mp_ipr.algorithm import BrkgaMpIpr
    from brkga_mp_ipr.enums import BiasFunctionType, Sense
    from brkga_mp_ipr.types import BrkgaParams
    from pymoo.algorithms.soo.nonconvex.brkga import BRKGA
    from pymoo.core.problem import Problem
    from pymoo.optimize import minimize
except ImportError as error:
    print(f"brkga_engines: {error}", file=sys.stderr)
    sys.exit(3)

P, ELITES, MUTANTS, RHO, EVALUATIONS, SAMPLES = 100, 20, 20, 0.7, 5000, 3


class FirstKey(Problem):
    """Fitness: the first key."""

    def __init__(self, n_keys):
        super().__init__(n_var=n_keys, n_obj=1, xl=0.0, xu=1.0)
        self.n_decoded = 0

    def _evaluate(self, x, out, *args, **kwargs):
        self.n_decoded += len(x)
        out["F"] = x[:, 0]


class FirstKeyDecoder:
    def __init__(self):
        self.n_decoded = 0

    def decode(self, chromosome, rewrite):
        self.n_decoded += 1
        return chromosome[0]


def pymoo(n_keys, seed):
    problem = FirstKey(n_keys)
    engine = BRKGA(n_elites=ELITES, n_offsprings=P - ELITES - MUTANTS, n_mutants=MUTANTS, bias=RHO)
    minimize(problem, engine, ("n_eval", EVALUATIONS), seed=seed, verbose=False)
    return problem.n_decoded


def mp_ipr(n_keys, seed):
    params = BrkgaParams()
    params.population_size = P
    params.elite_percentage, params.mutants_percentage = ELITES / P, MUTANTS / P
    params.total_parents, params.num_elite_parents = 2, 1
    params.bias_type = BiasFunctionType.CONSTANT
    params.num_independent_populations = 1
    params.pr_number_pairs, params.pr_minimum_distance = 0, 0.0
    decoder = FirstKeyDecoder()
    engine = BrkgaMpIpr(decoder, Sense.MINIMIZE, seed, n_keys, params)
    engine.set_bias_custom_function(lambda rank: RHO if rank == 1 else 1.0 - RHO)
    engine.initialize()
    engine.evolve(-(-(EVALUATIONS - P) // (P - ELITES)))
    return decoder.n_decoded


def main():
    lengths = [int(text) for text in sys.argv[1:]] or [118, 773, 6172]
    print(f"INFO:numpy:{np.__version__}")
    for n_keys in lengths:
        for name, run in [("pymoo", pymoo), ("brkga-mp-ipr", mp_ipr)]:
            for sample in range(SAMPLES):
                start = time.process_time()
                n_decoded = run(n_keys, sample + 1)
                spent = time.process_time() - start
                print(f"METRIC:{name} keys={n_keys}/evaluation:{1e6 * spent / n_decoded:.3f}:us", flush=True)
                if sample == 0:
                    print(f"INFO:{name} keys={n_keys} evaluations:{n_decoded}", flush=True)


if __name__ == "__main__":
    main()
