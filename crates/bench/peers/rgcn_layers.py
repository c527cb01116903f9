"""Epochs of R-GCN with PyG's, DGL's and plain PyTorch layers, one-hot input, bases, SGD: one JSON object a peer.

The argument is a JSON object: graph (.nt or .csv of integers, plain or .gz, or ba-rel:NODES:EDGES_PER_NODE:RELATIONS), hidden, bases, epochs, seconds.
Literals are nodes, every relation has an inverse, and each node a self loop: by the layer's own root weight, in the plain layers as one more
relation. Labels are random: only times are measured. One thread. Each peer runs in a process of its own, so that its peak memory is its own; it
gets so many seconds, and no more memory than is free. It says on standard error what it is at, and has a line for each epoch that is the fastest
so far: one that runs out of time still has its epochs, and one without an epoch says where the time went.
"""

import gzip
import json
import random
import re
import resource
import subprocess
import sys
import time

TRIPLE = re.compile(r"^\s*(<[^>]*>|_:\S+)\s+(<[^>]*>)\s+(.+?)\s*\.\s*$")


def opened(path):
    return gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")


def generated(spec):
    """A Barabasi-Albert graph of the same sizes, not the same edges."""
    _, n_nodes, per_node, n_relations = spec.split(":")[:4]
    n_nodes, per_node, n_relations = int(n_nodes), float(per_node), int(n_relations)
    rng = random.Random(1)
    ends, triples, owed = [0], [], 0.0
    for node in range(1, n_nodes):
        owed += per_node
        for _ in range(min(node, int(owed))):
            other = ends[rng.randrange(len(ends))]
            triples.append((node, rng.randrange(n_relations), other))
            ends += [node, other]
        owed -= int(owed)
    return n_nodes, n_relations, triples


def triples_of(path):
    """Nodes, relations and different triples."""
    if path.startswith("ba-rel:"):
        return generated(path)
    nodes, relations, triples = {}, {}, set()
    with opened(path) as lines:
        for line in lines:
            if ".csv" in path:
                s, p, o = (int(field) for field in line.split(","))
            else:
                match = TRIPLE.match(line)
                if match is None:
                    continue
                s, p, o = match.groups()
            s, o = (nodes.setdefault(end, len(nodes)) for end in (s, o))
            triples.add((s, relations.setdefault(p, len(relations)), o))
    return len(nodes), len(relations), sorted(triples)


def stage(what):
    """Says what comes next."""
    print(f"at {time.perf_counter() - BEGIN:.1f} s: {what}", file=sys.stderr, flush=True)


def measured(request, model, loss_of):
    """The fastest of the epochs, again after each."""
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    best = None
    for epoch in range(int(request["epochs"]) + 1):
        stage(f"epoch {epoch + 1}")
        begin = time.perf_counter()
        optimiser.zero_grad()
        loss = loss_of(model)
        middle = time.perf_counter()
        loss.backward()
        optimiser.step()
        end = time.perf_counter()
        times = (end - begin, middle - begin, end - middle)
        best = min(best or times, times)
        names = ("epoch_ms", "forward_ms", "backward_ms")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield {**{name: 1e3 * seconds for name, seconds in zip(names, best)}, "peak_mib": peak, "epochs": epoch + 1, "loss": loss.item()}


def columns(request):
    import torch

    stage("reading the graph")
    n_nodes, n_relations, triples = triples_of(request["graph"])
    stage("building the model")
    s, r, o = torch.tensor(triples).t()
    edges = torch.stack([torch.cat([s, o]), torch.cat([o, s])])
    kinds = torch.cat([r, r + n_relations])
    labels = torch.arange(min(1000, n_nodes)) % 10
    nodes = torch.randperm(n_nodes)[: len(labels)]
    return n_nodes, 2 * n_relations, edges, kinds, nodes, labels


def pyg(request, layer_name):
    import torch
    import torch_geometric.nn as nn

    n_nodes, n_relations, edges, kinds, nodes, labels = columns(request)
    layer, hidden = getattr(nn, layer_name), int(request["hidden"])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = layer(n_nodes, hidden, n_relations, num_bases=int(request["bases"]))
            self.second = layer(hidden, 10, n_relations, num_bases=int(request["bases"]))

        def forward(self):
            return self.second(self.first(None, edges, kinds).relu(), edges, kinds)

    loss = lambda model: torch.nn.functional.cross_entropy(model()[nodes], labels)
    return measured(request, Model(), loss)


def dgl(request, _):
    import dgl as library
    import torch
    from dgl.nn import RelGraphConv

    n_nodes, n_relations, edges, kinds, nodes, labels = columns(request)
    graph, hidden = library.graph((edges[0], edges[1]), num_nodes=n_nodes), int(request["hidden"])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Embedding(n_nodes, hidden)  # DGL has no one-hot layer any more: a smaller model
            self.first = RelGraphConv(hidden, hidden, n_relations, "basis", int(request["bases"]))
            self.second = RelGraphConv(hidden, 10, n_relations, "basis", int(request["bases"]))

        def forward(self):
            return self.second(graph, self.first(graph, self.rows.weight, kinds).relu(), kinds)

    loss = lambda model: torch.nn.functional.cross_entropy(model()[nodes], labels)
    return measured(request, Model(), loss)


def plain(request, layer_name):
    """The same model as the program's without a library of layers: W_r from the bases, or a basis at a time, and index_add."""
    import torch

    n_nodes, n_relations, edges, kinds, nodes, labels = columns(request)
    hidden, n_bases = int(request["hidden"]), int(request["bases"])
    loops = torch.arange(n_nodes)
    source, target = (torch.cat([ends, loops]) for ends in edges)
    kinds = torch.cat([kinds, torch.full((n_nodes,), n_relations)])
    n_relations += 1
    order = torch.argsort(kinds, stable=True)
    source, target, kinds = source[order], target[order], kinds[order]
    heard = torch.zeros(n_relations * n_nodes).index_add(0, kinds * n_nodes + target, torch.ones(len(kinds)))
    weights = (1 / heard[kinds * n_nodes + target])[:, None]
    del heard
    runs = torch.bincount(kinds, minlength=n_relations).tolist()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            made = lambda *sizes: torch.nn.Parameter(torch.nn.init.xavier_uniform_(torch.empty(*sizes)))
            self.a, self.rows = made(n_relations, n_bases), made(n_bases, n_nodes * hidden)
            self.b, self.bases = made(n_relations, n_bases), made(n_bases, hidden * 10)

        def composed(self):
            rows = (self.a @ self.rows).view(-1, hidden).index_select(0, kinds * n_nodes + source)
            return torch.zeros(n_nodes, hidden).index_add(0, target, weights * rows)

        def by_basis(self):
            units = torch.zeros(n_nodes, hidden)
            for basis, rows in enumerate(self.rows.view(n_bases, n_nodes, hidden)):
                shares = weights * self.a[:, basis].index_select(0, kinds)[:, None]
                units = units.index_add(0, target, shares * rows.index_select(0, source))
            return units

        def second(self, units):
            relations = (self.b @ self.bases).view(n_relations, hidden, 10)
            rows = units.index_select(0, source).split(runs)
            messages = torch.cat([run @ matrix for run, matrix in zip(rows, relations)])
            return torch.zeros(n_nodes, 10).index_add(0, target, weights * messages)

        def forward(self):
            return self.second(getattr(self, layer_name)().relu())

    loss = lambda model: torch.nn.functional.cross_entropy(model()[nodes], labels)
    return measured(request, Model(), loss)


PEERS = {
    "composed": ("torch", plain),
    "by_basis": ("torch", plain),
    "FastRGCNConv": ("torch_geometric", pyg),
    "RGCNConv": ("torch_geometric", pyg),
    "RelGraphConv on an embedding": ("dgl", dgl),
}


TITLES = {"composed": "W_r built from the bases, index_add", "by_basis": "a basis at a time, index_add"}


def run(name, request):
    """Prints a line for each epoch, or why there is none. An error after some epochs takes nothing from them: the last line counts."""
    import importlib

    package, peer = PEERS[name]
    stage(f"importing {package}")
    try:
        import torch

        module = importlib.import_module(package)
    except Exception as error:  # what a library says that does not fit torch is its own
        print(json.dumps({"peer": f"{package} {name}", "not_run": reason(error)}))
        return
    torch.set_num_threads(1)
    torch.manual_seed(1)
    with_torch = "" if module is torch else f", torch {torch.__version__}"
    title = f"{package} {module.__version__}{with_torch}: {TITLES.get(name, name)}"
    has_row = False
    try:
        for row in peer(request, name):
            print(json.dumps({"peer": title, **row}), flush=True)
            has_row = True
    except (RuntimeError, MemoryError) as error:  # torch's word for too little memory is the former
        if has_row:
            stage(f"ended by {reason(error)}")
        else:
            print(json.dumps({"peer": title, "not_run": reason(error)}))


def reason(error):
    return f"{type(error).__name__}: {error}".split("\n")[0]


def limit_memory():
    """No more than is free now: a peer that needs more is told so, and the machine goes on."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        sizes = dict(line.split(":") for line in lines)
    free = 1024 * int(sizes["MemAvailable"].split()[0])
    resource.setrlimit(resource.RLIMIT_DATA, (free, free))


def last(text):
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else ""


def row_of(name, request):
    """The last line of a peer, whatever became of it."""
    words = [sys.executable, __file__, json.dumps(request), name]
    seconds = float(request["seconds"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            out, said = child.communicate(timeout=seconds)
            ended = f"exit code {child.returncode}"
        except subprocess.TimeoutExpired:
            child.kill()
            out, said = child.communicate()
            ended = f"no epoch within {seconds:.0f} s"
    if last(out):
        return last(out)
    return json.dumps({"peer": f"{PEERS[name][0]} {name}", "not_run": f"{ended}; {last(said)}"})


def main():
    request = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        limit_memory()
        run(sys.argv[2], request)
        return
    for name in PEERS:
        print(row_of(name, request), flush=True)


BEGIN = time.perf_counter()
if __name__ == "__main__":
    main()
