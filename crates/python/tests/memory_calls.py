"""Calls every function of the package again and again, and prints how much the process grew; test_memory.py runs it.

The argument is JSON: names, n_calls of each at most, seconds for each at most (0: no limit). Without names, the list of them.
"""

import gc
import itertools
import json
import pathlib
import resource
import sys
import tempfile
import time
import types

import gymnasium
import networkx as nx
import numpy as np
import shardgraph
import shardgraph.gym
from shardgraph import Graph, agents, brkga, components, generate, place, replay
from shardgraph.embed import Line
from shardgraph.relational import RelationalClassifier, RelationalLinks, Triples

# Each call converts its graph anew.
nx.config.cache_converted_graphs = False
FOLDER = pathlib.Path(tempfile.mkdtemp())
KARATE, MATRIX = generate("karate"), generate("karate").to_scipy()
SRC, DST = np.arange(50), np.arange(50) + 1
PATH, CYCLE = nx.path_graph(8), nx.cycle_graph(20)
CHEAP, DEAR = {}, {}


def cheap(name):
    """A call of less than some 0.1 ms."""
    return lambda call: CHEAP.setdefault(name, call)


def dear(name):
    """A run of a search or of a training."""
    return lambda call: DEAR.setdefault(name, call)


@cheap("Graph")
def arrays():
    graph = Graph.from_edges(SRC, DST)
    return graph.reading, graph.degrees(), graph.edge_index(), graph.labels([1])


@cheap("Graph.complement")
def complement():
    return KARATE.complement()


@cheap("Graph.from_csr")
def matrices():
    return Graph.from_csr(MATRIX).to_scipy()


@cheap("errors")
def refused():
    try:
        Graph.from_edges([-1], [-1])
    except ValueError:
        pass


@cheap("Solution")
def solution(found=shardgraph.max_clique(KARATE)):
    found.verify()
    return found.mask, found.labels, found._repr_html_()


CHEAP["from_networkx"] = lambda: shardgraph.from_networkx(CYCLE)
CHEAP["from_pyg"] = lambda: shardgraph.from_pyg(types.SimpleNamespace(edge_index=np.array([SRC, DST])))
CHEAP["generate"] = lambda: generate("er:20:0.2", seed=3)
GRAPH_FILE = FOLDER / "graph.edges"
DEAR["write"] = lambda: shardgraph.write(KARATE, GRAPH_FILE)
DEAR["write"]()
CHEAP["read"] = lambda: shardgraph.read(GRAPH_FILE)
for name in ("min_vertex_cover", "max_independent_set", "max_clique", "max_cut"):
    CHEAP[name] = lambda call=getattr(shardgraph, name): call(KARATE, steps=1)
DEAR["min_dominating_set"] = lambda: shardgraph.min_dominating_set(KARATE, steps=1)
DEAR["solve"] = lambda: shardgraph.solve(KARATE, "mvc", method="exact")
DEAR["evaluate"] = lambda: shardgraph.evaluate(KARATE, steps=1)
DEAR["train"] = lambda: shardgraph.train(out=FOLDER / "policy", steps=1, batch_size=1, graphs="er:6:0.5")

CHEAP["networkx.randomized_partitioning"] = lambda: nx.approximation.randomized_partitioning(
    CYCLE, seed=1, backend="shardgraph"
)
for name in (
    "clique_removal",
    "large_clique_size",
    "max_clique",
    "maximum_independent_set",
    "min_weighted_dominating_set",
    "min_weighted_vertex_cover",
    "one_exchange",
):
    DEAR[f"networkx.{name}"] = lambda call=getattr(nx.approximation, name): call(PATH, backend="shardgraph", steps=1)
for name in ("dominating_set", "max_weight_clique", "maximal_independent_set"):
    options = {"weight": None} if name == "max_weight_clique" else {}
    DEAR[f"networkx.{name}"] = lambda call=getattr(nx, name), options=options: call(
        PATH, backend="shardgraph", steps=1, **options
    )

ACTIONS = np.tile([0, 1], 300)
VECTORS = {
    "GraphVectorEnv": gymnasium.make_vec("shardgraph/VertexCover-v0", num_envs=4, autoreset_mode="SameStep"),
    "NamedVectorEnv": gymnasium.make_vec("shardgraph/Breakout-v1", num_envs=4, autoreset_mode="SameStep"),
    "CartPoleVectorEnv": gymnasium.make_vec("shardgraph/CartPole-v1", num_envs=600, threads=2),
}
for name, vector in VECTORS.items():
    vector.reset(seed=1)
    sampled = itertools.cycle([vector.action_space.sample() for _ in range(50)])
    CHEAP[f"gym.{name}"] = lambda step=vector.step, sampled=sampled: step(next(sampled))
for name in ("GraphEnv", "NamedEnv", "CartPoleEnv"):
    options = {"name": "placement", "n_graphs": 2} if name == "NamedEnv" else {}
    DEAR[f"gym.{name}"] = lambda make=getattr(shardgraph.gym, name), options=options: make(**options).reset(seed=1)
CART = shardgraph.gym.CartPoleEnv()


@cheap("gym.CartPoleEnv.step")
def cart():
    CART.reset(seed=1)
    return CART.step(1)


BUFFER = replay.ReplayBuffer(100, {"x": (np.float32, (3,))}, prioritized=True)


@cheap("replay.ReplayBuffer")
def buffer():
    BUFFER.insert({"x": np.ones((2, 3))})
    _, ids, _ = BUFFER.sample(2)
    BUFFER.update(ids, [1, 2])


@cheap("components.QNetwork")
def q_network(network=components.QNetwork(3, 2, hidden=(8,)), rows=np.ones((4, 3))):
    network.update(network.gradient(rows, network(rows)))


@cheap("components.ActorCritic")
def actor_critic():
    network = components.ActorCritic(3, 2, hidden=(8,))
    network.load(network.parameters())


AGENT = {
    "environment": {"name": "cartpole", "n_environments": 2},
    "algorithm": {"name": "ppo", "gradient_blocks": 1},
}
RUN = agents.train(AGENT, steps=256, out=FOLDER / "run")


@cheap("agents.Agent")
def acting():
    RUN.agent.begin_episodes(2)
    return RUN.agent.act(np.zeros((2, 4))), RUN.agent.weights, RUN.agent.weights_hash, RUN.agent.config


class Bare(gymnasium.Env):
    observation_space, action_space = CART.observation_space, CART.action_space

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, dtype=np.float32), {}

    def step(self, action):
        return np.zeros(4, dtype=np.float32), 0.0, True, False, {}


CHEAP["agents.names"], CHEAP["agents.environments"] = agents.names, agents.environments
DEAR["agents.train"] = lambda: agents.train(AGENT, steps=256)
DEAR["agents.train of Python"] = lambda: agents.train(AGENT, env=Bare, steps=256)
DEAR["agents.load"] = lambda: agents.load(FOLDER / "run")
DEAR["agents.Agent.evaluate"] = lambda: RUN.agent.evaluate(1)
DEAR["agents.Agent.save"] = lambda: RUN.agent.save(FOLDER / "agent.safetensors")

CHEAP["brkga.minimize"] = lambda: brkga.minimize(lambda keys: keys[:, 0], 3, population=8, maxiter=2)
PLACED = FOLDER / "g.jsonl"
OPS = {"ops": [[0, "Op", 9, 0, 0]] * 4, "tensors": [[0, 8, -1, [3]]], "names": [f"m{i}/op" for i in range(4)]}
PLACED.write_text(json.dumps({"name": "g"} | OPS))
COSTS = place.read(PLACED)
CHEAP["place.read"] = lambda: place.read(PLACED)


@dear("place.plan")
def plan():
    made = place.plan(COSTS, 2, evaluations=1)
    return made.device_map(), made._repr_html_()


DEAR["place.device_map"] = lambda: place.device_map(PLACED, evaluations=1)
RING = Triples(np.arange(6), np.zeros(6, dtype=int), (np.arange(6) + 1) % 6)


@dear("embed.Line")
def line():
    model = Line(4, epochs=1).fit(KARATE)
    model.save(FOLDER / "e.npy")
    return Line().load(FOLDER / "e.npy").nearest(0), model.score_links([0], [1])


CHEAP["relational.Triples"] = lambda: Triples([0, 1, 2], [0, 0, 0], [3, 3, 4])._native()


@dear("relational.RelationalClassifier")
def classifier():
    return RelationalClassifier(RING, epochs=1).fit([0, 2], [0, 1]).predict([1])


@dear("relational.RelationalLinks")
def links():
    model = RelationalLinks(width=4, epochs=1).fit(RING)
    return model.evaluate(RING), model.complete(head=0, relation=0, k=2)


def resident():
    """The bytes of the process that are in memory."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def repeated(call, n_calls, seconds):
    """How often it was called: ``n_calls`` times, or as often as fits into some seconds."""
    end = time.perf_counter() + seconds
    for n in range(1, n_calls + 1):
        call()
        if seconds and time.perf_counter() > end:
            return n
    return n_calls


def main(names, n_calls, seconds):
    for name in names:
        call = (CHEAP | DEAR)[name]
        repeated(call, n_calls // 10, seconds / 2)
        before = resident()
        begin = time.perf_counter()
        n = repeated(call, n_calls, seconds)
        print(f"{name}\t{n}\t{resident() - before}\t{time.perf_counter() - begin:.3f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({"cheap": list(CHEAP), "dear": list(DEAR)}))
    else:
        main(**json.loads(sys.argv[1]))
