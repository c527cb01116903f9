"""LINE's second and first order in plain PyTorch on the processor: the peer of `cargo xtask repro line fig3 --peer-python PYTHON`.

Batches of edges in random order with 5 negatives each from degree^0.75, gradients by hand, updates with index_add_: the fastest form that plain
PyTorch has (autograd with sparse gradients takes longer). Takes a request in JSON and prints a line of JSON for each graph.
Exit code 3 without PyTorch.
"""

import gzip
import json
import sys
import time

try:
    import torch
except ImportError:
    print("line_torch: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)

NEGATIVES, RATE = 5, 0.15


def edges_of(path):
    """Different undirected edges between dense ids, as a tensor of two columns, and the number of nodes."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    ids, edges = {}, set()
    with opened as lines:
        for line in lines:
            if line.startswith(("#", "%")) or not line.strip():
                continue
            u, v = (ids.setdefault(field, len(ids)) for field in line.split()[:2])
            if u != v:
                edges.add((min(u, v), max(u, v)))
    return torch.tensor(sorted(edges)), len(ids)


def step(vertex, context, source, target, negative, rate):
    """One batch: the gradient of log sigma(u.v) + sum log sigma(-u.n)."""
    rows = vertex[source]
    others = torch.cat([target[:, None], negative], 1)
    columns = context[others]
    labels = torch.zeros(others.shape)
    labels[:, 0] = 1.0
    pull = rate * (labels - torch.sigmoid((columns * rows[:, None, :]).sum(2)))
    of_rows = (pull[:, :, None] * columns).sum(1)
    of_columns = pull[:, :, None] * rows[:, None, :]
    vertex.index_add_(0, source, of_rows)
    context.index_add_(0, others.reshape(-1), of_columns.reshape(-1, rows.shape[1]))


def train(edges, n_nodes, order, request):
    """Seconds of training one order."""
    torch.manual_seed(1)
    dim, batch = request["dim"], request["batch"]
    vertex = (torch.rand(n_nodes, dim) - 0.5) / dim
    context = vertex if order == 1 else torch.zeros(n_nodes, dim)
    noise = torch.bincount(edges.reshape(-1), minlength=n_nodes).double() ** 0.75
    start = time.perf_counter()
    n_samples = request["epochs"] * len(edges)
    done = 0
    for _ in range(request["epochs"]):
        shuffled = edges[torch.randperm(len(edges))]
        flip = torch.rand(len(edges)) < 0.5
        shuffled = torch.where(flip[:, None], shuffled.flip(1), shuffled)
        for part in shuffled.split(batch):
            rate = RATE * max(1e-4, 1.0 - done / n_samples)
            negative = torch.multinomial(noise, NEGATIVES * len(part), replacement=True)
            step(vertex, context, part[:, 0], part[:, 1], negative.view(-1, NEGATIVES), rate)
            done += len(part)
    seconds = time.perf_counter() - start
    if not torch.isfinite(vertex).all():
        sys.exit("line_torch: rows that are not finite")
    return seconds


def main():
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request["threads"])
    for graph in request["graphs"]:
        try:
            edges, n_nodes = edges_of(graph)
        except FileNotFoundError:
            print(f"SKIPPED: no file {graph}", flush=True)
            continue
        seconds = sum(train(edges, n_nodes, order, request) for order in (1, 2))
        row = {
            "graph": graph.split("/")[-1],
            "method": f"PyTorch {torch.__version__}, batches of {request['batch']}",
            "dim": request["dim"],
            "threads": request["threads"],
            "epochs": request["epochs"],
            "seconds": [seconds],
            "samples_per_s": [2 * request["epochs"] * len(edges) / seconds],
        }
        print(json.dumps(row), flush=True)


main()
