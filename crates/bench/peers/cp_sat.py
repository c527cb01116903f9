"""Optimal schedules by CP-SAT: a model of A.4 that shares no line with the project's own.

Reads scheduling problems as JSON lines (crates/costgraph/src/export/problem.rs writes them) and prints an answer for each:
{solver, status, bound, seconds, placement, steps}; a step is [op] or [tensor, device]. Status OPTIMAL means proven.

Runtime: optional intervals on each device without overlap; a transfer is an interval on both devices at once, of length zero over
free links: it cannot lie inside anything, so both devices meet. Memory: every copy of a tensor is an interval over the order of
steps; the largest sum of what is alive on a device is minimised. Not modelled, and answered with UNSUPPORTED: asynchronous
transfers, views, and limits on memory.

Usage: python cp_sat.py PROBLEMS.jsonl [--seconds S] [--workers N]
Exit code 3 without ortools (pip install ortools).
"""

import argparse
import json
import sys

try:
    import ortools
    from ortools.sat.python import cp_model
except ImportError as error:
    print(f"cp_sat: {error}", file=sys.stderr)
    sys.exit(3)


def unsupported(problem):
    if problem["version"] != 1:
        return f"version {problem['version']} of the format"
    if problem["asynchronous"]:
        return "asynchronous transfers"
    if any(limit is not None for limit in problem["memory_bytes"]):
        return "a limit on memory"
    if any(tensor["alias_of"] is not None for tensor in problem["tensors"]):
        return "views"
    return None


class Model:
    """Devices of ops and which transfers there are; what both objectives have in common."""

    def __init__(self, problem):
        self.problem = problem
        self.cp = cp_model.CpModel()
        self.devices = range(problem["n_devices"])
        self.on = [[self.cp.new_bool_var("") for _ in self.devices] for _ in problem["ops"]]
        for row in self.on:
            self.cp.add_exactly_one(row)
        if problem["fixed_op"] is not None:
            self.cp.add(self.on[problem["fixed_op"]][0] == 1)
        # By (tensor, sender, receiver): the tensor is sent.
        self.sent = {}
        for t, tensor in enumerate(problem["tensors"]):
            if tensor["transferred"] and tensor["consumers"]:
                self.add_transfers(t, tensor)

    def add_transfers(self, t, tensor):
        producer = tensor["producer"]
        for here in self.devices:
            for there in self.devices:
                if here == there:
                    continue
                sent = self.sent[t, here, there] = self.cp.new_bool_var("")
                self.cp.add_implication(sent, self.on[producer][here])
                self.cp.add_bool_or([self.on[c][there] for c in tensor["consumers"]]).only_enforce_if(sent)
                for consumer in tensor["consumers"]:
                    self.cp.add_bool_or([~self.on[producer][here], ~self.on[consumer][there], sent])

    def transfer_ns(self, t, here, there):
        times = self.problem["tensors"][t].get("transfer_ns")
        return times[here][there] if times else 0


def runtime(model):
    """The objective is the end of the last op; returns the objective, the starts of ops, and those of transfers."""
    cp, problem = model.cp, model.problem
    transfers = sum(max((max(row) for row in tensor.get("transfer_ns") or [[0]])) for tensor in problem["tensors"])
    horizon = sum(max(op["cost_ns"]) for op in problem["ops"]) + transfers * (problem["n_devices"] - 1)
    lanes = [[] for _ in model.devices]
    starts, ends = [], []
    for op, on in zip(problem["ops"], model.on):
        start, end = cp.new_int_var(0, horizon, ""), cp.new_int_var(0, horizon, "")
        for device in model.devices:
            lanes[device].append(cp.new_optional_interval_var(start, op["cost_ns"][device], end, on[device], ""))
        starts.append(start)
        ends.append(end)
    sent_at = {}
    for (t, here, there), sent in model.sent.items():
        start, ns = cp.new_int_var(0, horizon, ""), model.transfer_ns(t, here, there)
        for device in (here, there):
            lanes[device].append(cp.new_optional_interval_var(start, ns, start + ns, sent, ""))
        tensor = problem["tensors"][t]
        cp.add(start >= ends[tensor["producer"]]).only_enforce_if(sent)
        for consumer in tensor["consumers"]:
            cp.add(starts[consumer] >= start + ns).only_enforce_if([sent, model.on[consumer][there]])
        sent_at[t, here, there] = start
    for tensor in problem["tensors"]:
        for consumer in tensor["consumers"]:
            cp.add(starts[consumer] >= ends[tensor["producer"]])
    for lane in lanes:
        cp.add_no_overlap(lane)
    last = cp.new_int_var(problem["lower_bound"], horizon, "")
    cp.add_max_equality(last, ends)
    cp.minimize(last)
    return last, starts, sent_at


def memory(model):
    """The objective is the largest memory; starts are places in the order of steps. Steps that share a place can follow each
    other in any order without more memory."""
    cp, problem = model.cp, model.problem
    n_sent = len({(t, there) for t, _, there in model.sent})
    horizon = len(problem["ops"]) + n_sent
    alive = [[] for _ in model.devices]
    place = [cp.new_int_var(0, horizon - 1, "") for _ in problem["ops"]]
    sent_at = {key: cp.new_int_var(0, horizon - 1, "") for key in model.sent}

    def copy(device, present, start, end, amount):
        if amount > 0:
            size = cp.new_int_var(0, horizon, "")
            alive[device].append((cp.new_optional_interval_var(start, size, end, present, ""), amount))

    for op, on, at in zip(problem["ops"], model.on, place):
        for device in model.devices:
            copy(device, on[device], at, at + 1, op["internal_bytes"])
            copy(device, on[device], 0, horizon, op["persistent_bytes"])
    for t, tensor in enumerate(problem["tensors"]):
        producer = tensor["producer"]
        for consumer in tensor["consumers"]:
            cp.add(place[consumer] >= place[producer] + 1)
        for here in model.devices:
            end = cp.new_int_var(1, horizon, "")
            on = model.on[producer][here]
            cp.add(end >= place[producer] + 1)
            if tensor["kept"]:
                cp.add(end == horizon).only_enforce_if(on)
            for consumer in tensor["consumers"]:
                cp.add(end >= place[consumer] + 1).only_enforce_if([on, model.on[consumer][here]])
            copy(here, on, place[producer], end, tensor["bytes"])
            for there in model.devices:
                sent = model.sent.get((t, here, there))
                if sent is None:
                    continue
                at, gone = sent_at[t, here, there], cp.new_int_var(1, horizon, "")
                cp.add(at >= place[producer] + 1).only_enforce_if(sent)
                cp.add(end >= at + 1).only_enforce_if(sent)
                cp.add(gone >= at + 1)
                for consumer in tensor["consumers"]:
                    both = [sent, model.on[consumer][there]]
                    cp.add(place[consumer] >= at + 1).only_enforce_if(both)
                    cp.add(gone >= place[consumer] + 1).only_enforce_if(both)
                copy(there, sent, at, gone, tensor["bytes"])
    most = sum(op["internal_bytes"] + op["persistent_bytes"] for op in problem["ops"])
    most += sum(tensor["bytes"] for tensor in problem["tensors"]) * 2
    peak = cp.new_int_var(problem["lower_bound"], max(most, problem["lower_bound"]), "")
    for intervals in alive:
        cp.add_cumulative([i for i, _ in intervals], [amount for _, amount in intervals], peak)
    cp.minimize(peak)
    return peak, place, sent_at


def order(problem, values, placement, starts, sent_at):
    """All steps by start, at equal times those without length first, then producers before what they enable."""
    level = [0] * len(problem["ops"])
    for _ in problem["ops"]:
        changed = False
        for tensor in problem["tensors"]:
            for consumer in tensor["consumers"]:
                if level[consumer] <= level[tensor["producer"]]:
                    level[consumer], changed = level[tensor["producer"]] + 1, True
        if not changed:
            break
    steps = []
    is_timed = problem["objective"] == "runtime"
    for op, device in enumerate(placement):
        length = problem["ops"][op]["cost_ns"][device] if is_timed else 0
        steps.append((values(starts[op]), length > 0, 2 * level[op], [op]))
    for (t, here, there), at in sent_at.items():
        tensor = problem["tensors"][t]
        is_needed = placement[tensor["producer"]] == here and any(placement[c] == there for c in tensor["consumers"])
        if is_needed:
            times = tensor.get("transfer_ns")
            length = times[here][there] if times and is_timed else 0
            steps.append((values(at), length > 0, 2 * level[tensor["producer"]] + 1, [t, there]))
    return [step for _, _, _, step in sorted(steps)]


def solve(problem, seconds, workers):
    answer = {"solver": f"CP-SAT {ortools.__version__}", "bound": 0.0, "seconds": 0.0, "placement": [], "steps": []}
    why = unsupported(problem)
    if why:
        return answer | {"status": f"UNSUPPORTED: {why}"}
    model = Model(problem)
    _, starts, sent_at = (runtime if problem["objective"] == "runtime" else memory)(model)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = 1
    status = solver.solve(model.cp)
    answer |= {"status": solver.status_name(status), "bound": solver.best_objective_bound, "seconds": solver.wall_time}
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        placement = [next(d for d in model.devices if solver.value(row[d])) for row in model.on]
        answer |= {"placement": placement, "steps": order(problem, solver.value, placement, starts, sent_at)}
    return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("problems")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    with open(arguments.problems, encoding="utf-8") as lines:
        for line in lines:
            print(json.dumps(solve(json.loads(line), arguments.seconds, arguments.workers)), flush=True)


if __name__ == "__main__":
    main()
