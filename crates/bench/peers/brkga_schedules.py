"""The BRKGA engines of PyPI on whole scheduling problems: quality and time beside the project's own search.

The decoder is the paper's (A.5, A.4) in plain Python, written from the paper; the caller decodes the best chromosomes again. The
numbers of the engines are those given; pymoo stops at the first generation that reaches the evaluations, brkga-mp-ipr makes whole
generations too.

Usage: python brkga_schedules.py PROBLEMS.jsonl EVALUATIONS POPULATION ELITES MUTANTS RHO
Prints a JSON object for each problem and engine: {graph, engine, value, evaluations, seconds, keys}.
Exit code 3 without the packages (pip install pymoo brkga-mp-ipr).
"""

import heapq
import json
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
    print(f"brkga_schedules: {error}", file=sys.stderr)
    sys.exit(3)

# Keys count in steps of 2^-24, as the project's do.
STEPS = 1 << 24


class Schedules:
    """From keys to the runtime of a schedule over free links."""

    def __init__(self, problem):
        assert problem["objective"] == "runtime" and not problem["asynchronous"]
        assert all("transfer_ns" not in tensor for tensor in problem["tensors"])
        self.problem, self.n_devices = problem, problem["n_devices"]
        self.n_ops, self.n_tensors = len(problem["ops"]), len(problem["tensors"])
        self.outputs = [[] for _ in problem["ops"]]
        self.n_inputs = [0] * self.n_ops
        for t, tensor in enumerate(problem["tensors"]):
            self.outputs[tensor["producer"]].append(t)
            for consumer in tensor["consumers"]:
                self.n_inputs[consumer] += 1
        self.n_keys = (self.n_ops + self.n_tensors) * self.n_devices + self.n_ops
        self.n_decoded = 0

    def runtime(self, keys):
        self.n_decoded += 1
        d, tensors = self.n_devices, self.problem["tensors"]
        keys = [int(key * STEPS) for key in keys]
        placement = []
        for op in range(self.n_ops):
            row = keys[op * d : op * d + d]
            placement.append(row.index(max(row)))
        if self.problem["fixed_op"] is not None:
            placement[self.problem["fixed_op"]] = 0
        priorities, transfers = keys[self.n_ops * d : self.n_ops * (d + 1)], keys[self.n_ops * (d + 1) :]
        waiting, clock, ready_at = list(self.n_inputs), [0] * d, [0] * self.n_ops
        # (key, ops before transfers, number): highest key first, then lowest number.
        ready = [(-priorities[op], 0, op) for op in range(self.n_ops) if waiting[op] == 0]
        heapq.heapify(ready)

        def arrive(consumer):
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heapq.heappush(ready, (-priorities[consumer], 0, consumer))

        while ready:
            _, is_transfer, number = heapq.heappop(ready)
            if is_transfer:
                t, there = divmod(number, d)
                here = placement[tensors[t]["producer"]]
                clock[here] = clock[there] = max(clock[here], clock[there])
                for consumer in tensors[t]["consumers"]:
                    if placement[consumer] == there:
                        arrive(consumer)
                continue
            here = placement[number]
            end = max(clock[here], ready_at[number]) + self.problem["ops"][number]["cost_ns"][here]
            clock[here] = end
            for t in self.outputs[number]:
                consumers = tensors[t]["consumers"]
                if not tensors[t]["transferred"]:
                    for consumer in consumers:
                        ready_at[consumer] = max(ready_at[consumer], end)
                        arrive(consumer)
                    continue
                for there in {placement[consumer] for consumer in consumers} - {here}:
                    heapq.heappush(ready, (-transfers[t * d + there], 1, t * d + there))
                for consumer in consumers:
                    if placement[consumer] == here:
                        arrive(consumer)
        return max(clock)


class Pymoo(Problem):
    def __init__(self, schedules):
        super().__init__(n_var=schedules.n_keys, n_obj=1, xl=0.0, xu=1.0)
        self.schedules = schedules

    def _evaluate(self, x, out, *args, **kwargs):
        # Keys lie below 1.
        out["F"] = np.array([self.schedules.runtime(row) for row in np.minimum(x, 1.0 - 1.0 / STEPS)])


def pymoo(schedules, evaluations, population, elites, mutants, rho):
    engine = BRKGA(n_elites=elites, n_offsprings=population - elites - mutants, n_mutants=mutants, bias=rho)
    result = minimize(Pymoo(schedules), engine, ("n_eval", evaluations), seed=1, verbose=False)
    return int(result.F[0]), np.minimum(result.X, 1.0 - 1.0 / STEPS)


class MpIpr:
    """Keeps the best chromosome itself: the one that the engine returns is not always that of the fitness that it returns."""

    def __init__(self, schedules):
        self.schedules, self.value, self.keys = schedules, None, None

    def decode(self, chromosome, rewrite):
        value = self.schedules.runtime(chromosome)
        if self.value is None or value < self.value:
            self.value, self.keys = value, list(chromosome)
        return value


def mp_ipr(schedules, evaluations, population, elites, mutants, rho):
    params = BrkgaParams()
    params.population_size = population
    params.elite_percentage, params.mutants_percentage = elites / population, mutants / population
    params.total_parents, params.num_elite_parents = 2, 1
    params.bias_type = BiasFunctionType.CONSTANT
    params.num_independent_populations = 1
    params.pr_number_pairs, params.pr_minimum_distance = 0, 0.0
    decoder = MpIpr(schedules)
    engine = BrkgaMpIpr(decoder, Sense.MINIMIZE, 1, schedules.n_keys, params)
    engine.set_bias_custom_function(lambda rank: rho if rank == 1 else 1.0 - rho)
    engine.initialize()
    engine.evolve(-(-(evaluations - population) // (population - elites)))
    return decoder.value, decoder.keys


def main():
    path, *numbers = sys.argv[1:]
    evaluations, population, elites, mutants = (int(text) for text in numbers[:4])
    with open(path, encoding="utf-8") as lines:
        problems = [json.loads(line) for line in lines]
    for problem in problems:
        for name, run in [("pymoo", pymoo), ("brkga-mp-ipr", mp_ipr)]:
            schedules = Schedules(problem)
            start = time.process_time()
            value, keys = run(schedules, evaluations, population, elites, mutants, float(numbers[4]))
            seconds = time.process_time() - start
            answer = {"graph": problem["name"], "engine": name, "value": value, "evaluations": schedules.n_decoded}
            answer |= {"seconds": seconds, "keys": [int(key * STEPS) / STEPS for key in keys]}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
