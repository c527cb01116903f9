"""Epochs of R-GCN with PyG's and DGL's layers, one-hot input, bases, SGD: one JSON object a peer.

The argument is a JSON object: graph (.nt or .csv of integers, plain or .gz, or ba-rel:NODES:EDGES_PER_NODE:RELATIONS), hidden, bases, epochs. Literals
are nodes, every relation has an inverse, and each node a self loop by the layer's own root weight. Labels are random: only times are measured.
One thread. Each peer runs in a process of its own, so that its peak memory is its own.
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


def measured(request, model, loss_of):
    """The fastest of the epochs."""
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    best = None
    for _ in range(int(request["epochs"]) + 1):
        begin = time.perf_counter()
        optimiser.zero_grad()
        loss = loss_of(model)
        middle = time.perf_counter()
        loss.backward()
        optimiser.step()
        end = time.perf_counter()
        times = (end - begin, middle - begin, end - middle)
        best = min(best or times, times)
    epoch, forward, backward = (1e3 * seconds for seconds in best)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"forward_ms": forward, "backward_ms": backward, "epoch_ms": epoch, "peak_mib": peak}


def columns(request):
    import torch

    n_nodes, n_relations, triples = triples_of(request["graph"])
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


PEERS = {
    "FastRGCNConv": ("torch_geometric", pyg),
    "RGCNConv": ("torch_geometric", pyg),
    "RelGraphConv on an embedding": ("dgl", dgl),
}


def run(name, request):
    import importlib

    package, peer = PEERS[name]
    try:
        import torch

        module = importlib.import_module(package)
    except Exception as error:  # what a library says that does not fit torch is its own
        return {"peer": f"{package} {name}", "not_run": f"{type(error).__name__}: {error}".split("\n")[0]}
    torch.set_num_threads(1)
    torch.manual_seed(1)
    title = f"{package} {module.__version__}, torch {torch.__version__}: {name}"
    return {"peer": title, **peer(request, name)}


def main():
    request = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        print(json.dumps(run(sys.argv[2], request)))
        return
    for name, (package, _) in PEERS.items():
        ended = subprocess.run([sys.executable, __file__, sys.argv[1], name], capture_output=True, text=True, check=False)
        lines = ended.stdout.strip().splitlines()
        if ended.returncode == 0 and lines:
            print(lines[-1], flush=True)
        else:
            said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
            print(json.dumps({"peer": f"{package} {name}", "not_run": said[0]}), flush=True)


if __name__ == "__main__":
    main()
