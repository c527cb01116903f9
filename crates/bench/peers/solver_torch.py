"""The policy of OpenGraphGym-MG in plain PyTorch on the processor: the peer of `cargo xtask repro opengraphgym-mg fig7` to `solver-fig11`.

structure2vec with L layers of width K and the Q head, on ER(n, p) or a graph file, in three forms:
  coo        algorithms 2 and 3 to the letter on a COO tensor, from which a picked node's entries are selected away
  csr        the same layers on a CSR tensor that nobody edits, under masks, with the term of the edges from degrees
  collapsed  the closed form of two layers: two products with one column
Takes a request in JSON, {"command": "step" | "train" | "solve", "form": ..., "nodes": ..., ...}, and prints a line of JSON with the seconds of
each run. Exit code 3 without PyTorch.
"""

import gzip
import json
import sys
import time
import warnings

# PyTorch says once a run that NumPy is not there, and that sparse tensors are not checked.
warnings.simplefilter("ignore")

try:
    import torch
except ImportError:
    print("solver_torch: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)


def random_graph(nodes, density, seed):
    """A symmetric 0/1 matrix without a diagonal, as rows and columns in the order of CSR."""
    torch.manual_seed(seed)
    upper = torch.zeros(nodes, nodes, dtype=torch.bool)
    for first in range(0, nodes, 1000):
        last = min(first + 1000, nodes)
        drawn = torch.rand(last - first, nodes) < density
        upper[first:last] = drawn & (torch.arange(nodes)[None, :] > torch.arange(first, last)[:, None])
    return (upper | upper.T).nonzero().T.contiguous()


def read_graph(path):
    """A MatrixMarket pattern as the same."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as lines:
        rows = [line.split()[:2] for line in lines if line.strip() and not line.startswith("%")]
    nodes = int(rows[0][0])
    ends = torch.tensor([[int(u) - 1, int(v) - 1] for u, v in rows[1:]]).T
    ends = ends[:, ends[0] != ends[1]]
    keys = torch.cat([ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]]).unique()
    return torch.stack([keys // nodes, keys % nodes]), nodes


def coo(ends, nodes):
    return torch.sparse_coo_tensor(ends, torch.ones(ends.shape[1]), (nodes, nodes), is_coalesced=True)


def csr(ends, nodes):
    starts = torch.zeros(nodes + 1, dtype=torch.int32)
    starts[1:] = torch.bincount(ends[0], minlength=nodes).cumsum(0).to(torch.int32)
    values = torch.ones(ends.shape[1])
    return torch.sparse_csr_tensor(starts, ends[1].to(torch.int32), values, (nodes, nodes))


class Policy(torch.nn.Module):
    """theta1 to theta7 with rows for nodes."""

    def __init__(self, k, layers):
        super().__init__()
        self.k, self.layers = k, layers
        shapes = [(1, k), (1, k), (k, k), (k, k), (k, k), (k, k), (2 * k, 1)]
        self.theta = torch.nn.ParameterList(torch.nn.Parameter(0.1 * torch.randn(s)) for s in shapes)

    def literal(self, product, solution, degree=None):
        """Algorithms 2 and 3: every layer is a product of width K, and so is the term of the edges unless degrees are given."""
        t1, t2, t3, t4, t5, t6, t7 = self.theta
        ones = t2.expand(solution.shape[0], self.k)
        edges = torch.relu(product(ones) if degree is None else degree * t2)
        base = solution @ t1 + edges @ t3
        embed = torch.zeros(solution.shape[0], self.k)
        for _ in range(self.layers):
            embed = torch.relu(base + product(embed) @ t4)
        whole = (embed.sum(0, keepdim=True) @ t5).expand(solution.shape[0], self.k)
        return torch.relu(torch.cat([whole, embed @ t6], 1)) @ t7

    def collapsed(self, degree, degree2, solution):
        """Two layers from two numbers a node; columns of `degree` are states. Scores [nodes, states]."""
        t1, t2, t3, t4, t5, t6, t7 = self.theta
        one = torch.relu(t2) @ t3
        two = torch.relu(one) @ t4
        embed = torch.relu(solution[..., None] * t1 + degree[..., None] * one + degree2[..., None] * two)
        whole = torch.relu(embed.sum(0, keepdim=True) @ t5) @ t7[: self.k]
        return (torch.relu(embed @ t6) @ t7[self.k :] + whole).squeeze(-1)


def timed(run, runs):
    """Seconds of each of `runs` calls after one that is not counted."""
    run()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def removed(ends, node):
    """The paper's edit of a COO tensor: the entries of a node are selected away."""
    return ends[:, (ends[0] != node) & (ends[1] != node)]


def step(request, ends, nodes):
    """One inference step: an evaluation, the best node, and its removal."""
    policy = Policy(request["dim"], request["layers"])
    keep, solution = torch.ones(nodes, 1), torch.zeros(nodes, 1)
    if request["form"] == "coo":
        matrix = coo(ends, nodes)

        def run():
            scores = policy.literal(lambda x: torch.sparse.mm(matrix, x), solution)
            coo(removed(ends, int(scores.argmax())), nodes)

    elif request["form"] == "csr":
        matrix = csr(ends, nodes)

        def run():
            degree = keep * (matrix @ keep)
            scores = policy.literal(lambda x: keep * (matrix @ (keep * x)), solution, degree)
            int(scores.argmax())

    else:
        matrix = csr(ends, nodes)

        def run():
            degree = keep * (matrix @ keep)
            scores = policy.collapsed(degree, keep * (matrix @ degree), solution)
            int(scores.argmax())

    with torch.no_grad():
        return timed(run, request["runs"])


def train(request, ends, nodes):
    """One optimiser step over B states of one graph, each with its own tenth of the nodes picked."""
    batch = request["batch"]
    policy = Policy(request["dim"], request["layers"])
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-3)
    solution = (torch.rand(nodes, batch) < 0.1).float()
    keep, target = 1 - solution, torch.randn(batch)
    picks = keep.argmax(0)
    matrix = None if request["form"] == "coo" else csr(ends, nodes)

    def tuples_to_graphs():
        """B copies of the graph without the picked nodes, as one block-diagonal COO tensor."""
        blocks = []
        for b in range(batch):
            kept = (keep[ends[0], b] > 0) & (keep[ends[1], b] > 0)
            blocks.append(ends[:, kept] + b * nodes)
        return coo(torch.cat(blocks, 1), batch * nodes)

    def scores():
        if request["form"] == "coo":
            blocks = tuples_to_graphs()
            stacked = solution.T.reshape(-1, 1)
            t1, t2, t3, t4, t5, t6, t7 = policy.theta
            edges = torch.relu(torch.sparse.mm(blocks, t2.expand(batch * nodes, policy.k)))
            base, embed = stacked @ t1 + edges @ t3, torch.zeros(batch * nodes, policy.k)
            for _ in range(policy.layers):
                embed = torch.relu(base + torch.sparse.mm(blocks, embed) @ t4)
            sums = embed.view(batch, nodes, policy.k).sum(1) @ t5
            whole = sums.repeat_interleave(nodes, 0)
            flat = torch.relu(torch.cat([whole, embed @ t6], 1)) @ t7
            return flat.view(batch, nodes).T
        if request["form"] == "csr":
            degree = keep * (matrix @ keep)
            columns = []
            for b in range(batch):
                own = keep[:, b : b + 1]
                product = lambda x, own=own: own * (matrix @ (own * x))
                columns.append(policy.literal(product, solution[:, b : b + 1], degree[:, b : b + 1]))
            return torch.cat(columns, 1)
        degree = keep * (matrix @ keep)
        return policy.collapsed(degree, keep * (matrix @ degree), solution)

    def run():
        optimiser.zero_grad()
        picked = scores()[picks, torch.arange(batch)]
        torch.nn.functional.mse_loss(picked, target).backward()
        optimiser.step()

    return timed(run, request["runs"])


def solve(request, ends, nodes):
    """A whole solve, one node a step, with a policy that was never trained: the seconds do not depend on it by much."""
    policy = Policy(request["dim"], request["layers"])

    def run():
        left, solution = ends, torch.zeros(nodes, 1)
        keep, matrix = torch.ones(nodes, 1), csr(ends, nodes)
        while True:
            degree = keep * (matrix @ keep)
            if float(degree.max()) == 0.0:
                return
            if request["form"] == "coo":
                product = coo(left, nodes)
                scores = policy.literal(lambda x: torch.sparse.mm(product, x), solution)
            elif request["form"] == "csr":
                scores = policy.literal(lambda x: keep * (matrix @ (keep * x)), solution, degree)
            else:
                scores = policy.collapsed(degree, keep * (matrix @ degree), solution)
            scores[degree == 0] = -float("inf")
            best = int(scores.argmax())
            keep[best], solution[best] = 0.0, 1.0
            if request["form"] == "coo":
                left = removed(left, best)

    with torch.no_grad():
        start = time.perf_counter()
        run()
        return [time.perf_counter() - start]


def main():
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request["threads"])
    if "graph" in request:
        ends, nodes = read_graph(request["graph"])
    else:
        nodes = request["nodes"]
        ends = random_graph(nodes, request["density"], 7)
    run = {"step": step, "train": train, "solve": solve}[request["command"]]
    seconds = run(request, ends, nodes)
    print(json.dumps({"seconds": seconds, "nodes": nodes, "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
