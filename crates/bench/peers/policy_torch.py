"""The policy of OpenGraphGym-MG in PyTorch (sparse CSR): the peer of crates/solver/benches/gpu_policy.rs.

The same model (structure2vec with L = 2, K = 32 and the Q head), the same graph size and density, the same batch: one
evaluation of all node scores, and one training step over 8 states of one graph (forward, Huber loss, backward, Adam).
The adjacency stays one matrix; a state's residual graph is that matrix under a mask, eight states side by side are 256
columns. That is the fastest form of the model that plain PyTorch has.

Prints METRIC:<series>/<metric>:<value>:<unit> lines. Exit code 3 without PyTorch or without a GPU.
"""

import sys

try:
    import torch
except ImportError:
    print("policy_torch: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)

N, DENSITY, K, LAYERS, BATCH, SAMPLES = 21000, 0.15, 32, 2, 8, 7


def adjacency(device):
    """A symmetric 0/1 matrix with the given density, as CSR."""
    torch.manual_seed(7)
    upper = torch.triu(torch.rand(N, N, device=device) < DENSITY, diagonal=1)
    return (upper | upper.T).float().to_sparse_csr()


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        make = lambda *shape: torch.nn.Parameter(0.1 * torch.randn(*shape))
        self.theta1, self.theta2 = make(1, K), make(1, K)
        self.theta3, self.theta4 = make(K, K), make(K, K)
        self.theta5, self.theta6, self.theta7 = make(K, K), make(K, K), make(2 * K, 1)

    def forward(self, matrix, keep, degree):
        """keep and degree: [N, B]; returns the scores [N, B]."""
        n, b = keep.shape
        base = (1.0 - keep)[:, :, None] * self.theta1 + degree[:, :, None] * (torch.relu(self.theta2) @ self.theta3)
        embed = torch.relu(base)
        for _ in range(LAYERS - 1):
            masked = (keep[:, :, None] * embed).reshape(n, b * K)
            sums = keep[:, :, None] * (matrix @ masked).reshape(n, b, K)
            embed = torch.relu(base + sums @ self.theta4)
        nodes = torch.relu(embed @ self.theta6) @ self.theta7[K:]
        states = torch.relu(embed.sum(0) @ self.theta5) @ self.theta7[:K]
        return (nodes + states[None]).squeeze(-1)


def measured(series, work, count):
    """Prints the time of one repetition of `work`, by events, SAMPLES times."""
    for _ in range(3):
        work()
    for _ in range(SAMPLES):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            work()
        end.record()
        torch.cuda.synchronize()
        print(f"METRIC:{series}/time:{1e3 * start.elapsed_time(end) / count}:us", flush=True)


def main():
    if not torch.cuda.is_available():
        print("policy_torch: PyTorch finds no GPU", file=sys.stderr)
        sys.exit(3)
    device = torch.device("cuda")
    print(f"INFO:torch:{torch.__version__}, CUDA {torch.version.cuda}")
    matrix, policy = adjacency(device), Policy().to(device)
    keep = torch.ones(N, 1, device=device)
    degree = matrix @ keep / N
    with torch.no_grad():
        measured("torch policy evaluation er-21000-0.15 L=2 K=32", lambda: policy(matrix, keep, degree), 20)
    keep = (torch.rand(N, BATCH, device=device) < 0.5).float()
    degree = keep * (matrix @ keep) / N
    picks, wanted = torch.randint(N, (BATCH,), device=device), torch.randn(BATCH, device=device)
    optimiser, huber = torch.optim.Adam(policy.parameters(), lr=1e-4), torch.nn.HuberLoss()

    def step():
        optimiser.zero_grad(set_to_none=True)
        scores = policy(matrix, keep, degree)
        huber(scores[picks, torch.arange(BATCH, device=device)], wanted).backward()
        optimiser.step()

    measured("torch training step er-21000-0.15 L=2 K=32 states=8", step, 10)


if __name__ == "__main__":
    main()
