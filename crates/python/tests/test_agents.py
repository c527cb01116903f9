"""Agents: the binary's bits by name, learning in environments of Gymnasium, errors that reach the caller."""

import json
import pathlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from shardgraph import agents, generate

PPO = {"name": "ppo", "gradient_blocks": 2}


class Corridor(gymnasium.Env):
    """Five cells; the last one is the goal, and a step costs."""

    def __init__(self, length=5, masked=False):
        self.length, self.masked = length, masked
        self.observation_space, self.action_space = spaces.Discrete(length), spaces.Discrete(2)

    def shown(self):
        mask = np.array([self.cell > 0 or not self.masked, True], dtype=np.int8)
        return self.cell, {"action_mask": mask} if self.masked else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.shown()

    def step(self, action):
        assert not (self.masked and self.cell == 0 and action == 0), "a masked action"
        self.cell = max(0, self.cell + (1 if action else -1))
        observation, info = self.shown()
        return observation, -1.0, self.cell == self.length - 1, False, info


def test_a_run_by_name_has_the_binarys_weights_for_any_ranks(binary, tmp_path):
    reports = []
    run = agents.train("cartpole-dqn", steps=12_000, seed=3, callback=reports.append, out=tmp_path / "run")
    assert run.n_steps == 12_000 and run.n_updates > 0 and reports[-1]["step"] == 12_000
    environment = {"name": "cartpole", "n_environments": 4}
    settings = {"environment": environment, "algorithm": {"name": "dqn", "gradient_blocks": 2}}
    hashes = {agents.train(settings, steps=3000, ranks=ranks).agent.weights_hash for ranks in (1, 2)}
    assert len(hashes) == 1
    command = [binary, "agent", "train", "cartpole-dqn", "--steps", "12000", "--seed", "3", "--format", "json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert answer["policy_hash"] == run.agent.weights_hash
    loaded = agents.load(tmp_path / "run")
    assert np.array_equal(loaded.weights, run.agent.weights) and loaded.config["seed"] == 3
    assert np.array_equal(loaded.evaluate(4, seed=2), run.agent.evaluate(4, seed=2))
    gone_on = agents.train("cartpole-dqn", out=tmp_path / "run", resume=True)
    assert gone_on.n_steps == 0 and gone_on.agent.weights_hash == run.agent.weights_hash


@pytest.mark.parametrize("name", [name for name in agents.names() if name.startswith("cartpole")])
def test_every_named_agent_acts(name):
    run = agents.train(name, steps=3000)
    actions = run.agent.act(np.zeros((7, 4)))
    assert actions.shape == (7,) and set(actions.tolist()) <= {0, 1}
    assert run.agent.act(np.zeros((7, 4)), sampled=True).shape == (7,)
    assert run.agent.evaluate(3).min() >= 8


@pytest.mark.parametrize("masked", [False, True])
def test_an_agent_learns_in_an_environment_of_python(masked):
    run = agents.train("cartpole-ppo", env=Corridor, env_options={"masked": masked}, steps=8000, seed=1)
    assert run.mean_return == -4 and run.agent.evaluate(5).tolist() == [-4.0] * 5
    masks = {"action_mask": np.ones((5, 2))} if masked else {}
    assert run.agent.act(np.eye(5), **masks)[:4].tolist() == [1] * 4


@pytest.mark.parametrize(
    ("env", "algorithm", "shape"),
    [("CartPole-v1", "dqn", (2,)), ("CliffWalking-v1", "ppo", (2,)), ("Taxi-v4", "ppo", (2,)), ("acrobot", "ppo", (2,))],
)
def test_agents_take_gymnasiums_spaces(env, algorithm, shape):
    settings = {"environment": {"name": "x", "n_environments": 4}, "algorithm": {"name": algorithm}}
    run = agents.train(settings, env=env, steps=1200)
    n_features = {"CartPole-v1": 4, "CliffWalking-v1": 48, "Taxi-v4": 500, "acrobot": 6}[env]
    masks = {"action_mask": np.ones((2, 6))} if env == "Taxi-v4" else {}
    assert run.agent.act(np.zeros((2, n_features)), **masks).shape == shape


@pytest.mark.parametrize(
    ("env", "name"), [("shardgraph/Breakout-v1", "breakout"), ("shardgraph/VertexCover-v0", "vertex-cover"), ("shardgraph/Placement-v0", "placement")]
)
def test_an_id_of_ours_trains_as_its_name_does(env, name, tmp_path):
    settings = {"environment": {"name": "x", "n_environments": 4}, "algorithm": PPO}
    by_id = agents.train(settings, env=env, steps=1200, out=tmp_path / "run")
    assert by_id.agent.weights_hash == agents.train(settings, env=name, steps=1200).agent.weights_hash
    # What no environment of Python can.
    assert agents.train(settings, out=tmp_path / "run", resume=True).n_steps == 0
    assert agents.load(tmp_path / "run").weights_hash == by_id.agent.weights_hash


@pytest.mark.parametrize("algorithm", [PPO, {"name": "dqn"}])
def test_an_agent_trains_on_a_graph_in_memory_by_native_steps(algorithm, monkeypatch):
    graph = generate("ba:12:2", seed=3)
    settings = {"environment": {"name": "x", "n_environments": 4}, "algorithm": algorithm}
    monkeypatch.setattr(gymnasium.vector, "SyncVectorEnv", None)
    run = agents.train(settings, env="shardgraph/VertexCover-v0", env_options={"graphs": graph}, steps=1200)
    assert run.n_episodes >= 50 and min(run.agent.evaluate(3)) >= -12


INTERRUPT = """
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from test_agents import Corridor
from shardgraph import agents
agent = agents.train("cartpole-ppo", env=Corridor, steps=2000).agent
class Endless(Corridor):
    def step(self, action):
        return *self.shown()[:1], 0.0, False, False, {}
endless = lambda: Endless()
signal.signal(signal.SIGINT, signal.default_int_handler)
for job in (lambda: agents.train("cartpole-ppo", env=endless, steps=10**9), lambda: agent.evaluate(1)):
    Corridor.step = Endless.step
    sent = []
    def fire():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(0.7, fire).start()
    try:
        job()
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SKIPPED: no SIGINT")
def test_ctrl_c_ends_a_run_in_an_environment_of_python():
    command = [sys.executable, "-c", INTERRUPT, str(pathlib.Path(__file__).parent)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    assert len(out) == 2 and max(map(float, out)) < 5


def test_what_an_environment_or_a_callback_raises_reaches_the_caller(tmp_path):
    class Broken(Corridor):
        def step(self, action):
            raise LookupError("no floor")

    class Unborn(Corridor):
        def __init__(self):
            raise LookupError("no corridor")

    class Unmoved(Corridor):
        def reset(self, **options):
            raise LookupError("no start")

    def stop(report):
        raise LookupError("enough")

    settings = {"environment": {"name": "x", "n_environments": 2}, "algorithm": PPO}
    for env, words in [(Broken, "no floor"), (Unborn, "no corridor"), (Unmoved, "no start")]:
        for ranks in (1, 2):
            with pytest.raises(LookupError, match=words):
                agents.train(settings, env=env, steps=5000, ranks=ranks)
    with pytest.raises(LookupError, match="enough"):
        agents.train("cartpole-ppo", callback=stop)
    for wrong, words in [
        ({"settings": "cartpole-qdn"}, "cartpole-dqn"),
        ({"settings": settings | {"rate": 1}}, "rate"),
        ({"settings": "cartpole-ppo", "resume": True}, "out"),
        ({"settings": "cartpole-ppo", "ranks": 0}, "ranks"),
        ({"settings": "cartpole-ppo", "env": "breakout", "env_options": {"sticky": 1}}, "sticky_actions"),
    ]:
        with pytest.raises(ValueError, match=words):
            agents.train(**wrong)
    agents.train(settings, env=Corridor, steps=2000, out=tmp_path / "run")
    assert agents.load(tmp_path / "run", env=Corridor).act(np.eye(5)).shape == (5,)
    with pytest.raises(ValueError, match="environment of Python"):
        agents.train(settings, env=Corridor, out=tmp_path / "run", resume=True)
