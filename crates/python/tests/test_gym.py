"""Gymnasium's own checks of every environment, and vectors beside single environments."""

import json

import gymnasium
import numpy as np
import pytest
import shardgraph.gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv as TheirCartPole
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode

GRAPHS = [f"shardgraph/{name}-v0" for name in shardgraph.gym._PROBLEMS]
NAMED = [f"shardgraph/{name}" for name in shardgraph.gym._NAMED.values()]
IDS = [*GRAPHS, *NAMED, "shardgraph/CartPole-v1"]
# What another package calls the same.
THEIRS = ["Acrobot-v1", "CliffWalking-v1", "FrozenLake-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Taxi-v4"]


def vector_of(name, n, **options):
    return gymnasium.make_vec(name, num_envs=n, vectorization_mode="vector_entry_point", **options)


# Gymnasium's own pendulum has torques from -2 to 2.
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", IDS)
def test_environments_pass_gymnasiums_check(name):
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("name", THEIRS)
def test_spaces_are_gymnasiums(name):
    ours, theirs = gymnasium.make(f"shardgraph/{name}").unwrapped, gymnasium.make(name).unwrapped
    assert ours.action_space == theirs.action_space
    mine, yours = ours.observation_space, theirs.observation_space
    if isinstance(yours, gymnasium.spaces.Box):
        assert mine.shape == yours.shape and np.allclose(mine.low, np.maximum(yours.low, mine.low)) and np.allclose(mine.high, yours.high)
    else:
        assert mine == yours


@pytest.mark.parametrize("name", GRAPHS)
def test_an_episode_of_candidates_ends_with_an_answer(name):
    env = gymnasium.make(name, graphs="er:15:0.3").unwrapped
    observation, info = env.reset(seed=3)
    total, done = 0.0, False
    while not done:
        observation, reward, done, truncated, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
        total += reward
        assert not truncated
    answer = sorted(env.answer)
    assert np.flatnonzero(observation["in_answer"]).tolist() == answer
    found = shardgraph.solve(env.graph, env.problem, method="exact")
    from shardgraph import _shardgraph

    value = _shardgraph.check(env.graph._native, env.problem, np.array(answer))
    assert value >= found.objective if env.problem in ("mvc", "dominating-set") else value <= found.objective


def test_cart_and_pole_is_gymnasiums_step_by_step():
    ours, theirs = gymnasium.make("shardgraph/CartPole-v1").unwrapped, TheirCartPole()
    # Theirs has velocities up to infinity, of which its own check warns.
    theirs.observation_space = ours.observation_space
    check_environments_match(ours, theirs, num_steps=100_000, seed=11)


def test_carts_begin_and_stop_as_gymnasiums():
    ours, theirs = gymnasium.make("shardgraph/CartPole-v1"), gymnasium.make("CartPole-v1")
    for seed in range(100):
        mine, yours = ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0]
        assert np.array_equal(mine, yours)
        n_steps, done = 0, False
        while not done:
            action = int(mine[2] + 0.5 * mine[3] > 0)
            mine, reward, terminated, truncated, _ = ours.step(action)
            done, n_steps = terminated or truncated, n_steps + 1
            if n_steps < 100:  # The system is unstable: what the last bits differ by grows.
                yours, *expected, _ = theirs.step(action)
                assert [reward, terminated, truncated] == expected and np.allclose(mine, yours, atol=1e-4)
        assert n_steps == 500 and truncated and not terminated


@pytest.mark.parametrize("name", [*NAMED, *GRAPHS, "shardgraph/CartPole-v1"])
def test_a_vector_is_its_environments_one_by_one(name):
    vector = vector_of(name, 5)
    observations, _ = vector.reset(seed=7)
    assert vector.observation_space.contains(observations)
    # Environment 0 of the vector has the key of a single one, but for the cart, whose starts are Gymnasium's.
    single = vector_of(name, 1, threads=2)
    alone, _ = single.reset(seed=7)
    vector.action_space.seed(3)
    for step in range(300):
        actions = vector.action_space.sample()
        kept = {k: v.copy() for k, v in observations.items()} if isinstance(observations, dict) else observations.copy()
        last = observations
        observations, rewards, terminated, truncated, info = vector.step(actions)
        alone, reward, ended, cut, _ = single.step(actions[:1])
        for mine, yours, before, old in zip(*(arrays(x) for x in (alone, observations, last, kept))):
            assert np.array_equal(mine[0], yours[0]) and np.array_equal(before, old)
        assert (reward[0], ended[0], cut[0]) == (rewards[0], terminated[0], truncated[0])
        assert rewards.shape == terminated.shape == (5,) and vector.observation_space.contains(observations)


def arrays(observation):
    return list(observation.values()) if isinstance(observation, dict) else [observation]


@pytest.mark.parametrize("name", ["shardgraph/CartPole-v1", "shardgraph/VertexCover-v0", "shardgraph/MountainCar-v0"])
def test_autoreset_modes_begin_episodes_when_they_say(name):
    modes = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
    next_step, same_step, disabled = (vector_of(name, 6, autoreset_mode=mode) for mode in modes)
    firsts = [vector.reset(seed=5)[0] for vector in (next_step, same_step, disabled)]
    assert all(np.array_equal(a, b) for a, b in zip(arrays(firsts[0]), arrays(firsts[1])))
    n_ended, done = 0, np.zeros(6, dtype=bool)
    same_step.action_space.seed(1)
    for _ in range(250):
        actions = same_step.action_space.sample()
        _, _, terminated, truncated, info = same_step.step(actions)
        observations, _, ended, cut, _ = disabled.step(actions)
        done = terminated | truncated
        assert np.array_equal(done, ended | cut)
        if done.any():
            assert np.array_equal(info["_final_obs"], done)
            i = int(np.flatnonzero(done)[0])
            if name in GRAPHS:
                assert np.array_equal(info["final_info"]["action_mask"][i], observations["action_mask"][i])
                assert np.array_equal(info["_final_info"], done)
            for mine, yours in zip(arrays(info["final_obs"][i]), arrays(observations)):
                assert np.array_equal(mine, yours[i])
            with pytest.raises(ValueError, match="ended|over"):
                disabled.step(actions)
            disabled.reset(options={"reset_mask": done})
            n_ended += int(done.sum())
    assert n_ended > 0
    done = np.zeros(6, dtype=bool)
    for _ in range(250):
        _, rewards, terminated, truncated, _ = next_step.step(next_step.action_space.sample())
        assert not rewards[done].any() and not terminated[done].any()
        done = terminated | truncated


def test_wrong_actions_and_options_are_refused_in_a_sentence():
    carts = vector_of("shardgraph/CartPole-v1", 33)
    carts.reset(seed=1)
    for wrong in ([2] * 33, [-1] * 33, [0] * 32):
        with pytest.raises(ValueError, match="expected|neither"):
            carts.step(np.array(wrong))
    for name, options, words in [
        ("shardgraph/Breakout-v1", {"sticky": 0.5}, "sticky_actions"),
        ("shardgraph/FrozenLake-v1", {"side": 5}, "side"),
        ("shardgraph/VertexCover-v0", {"graphs": "er:10:2"}, "er:10:2|expected"),
        ("shardgraph/VertexCover-v0", {"problem": "tsp"}, "mvc"),
    ]:
        with pytest.raises(ValueError, match=words):
            vector_of(name, 2, **options)
    assert vector_of("shardgraph/FrozenLake-v1", 2, side=8).single_observation_space.n == 64


@pytest.mark.parametrize("name", ["CartPole-v1", "VertexCover-v0", "Breakout-v1", "Pendulum-v1"])
def test_threads_change_no_bit(name):
    vectors = [vector_of(f"shardgraph/{name}", 700, threads=threads, autoreset_mode="SameStep") for threads in (1, 2)]
    seen = [vector.reset(seed=5)[0] for vector in vectors]
    vectors[0].action_space.seed(3)
    for _ in range(60):
        assert all(np.array_equal(a, b) for a, b in zip(arrays(seen[0]), arrays(seen[1]), strict=True))
        actions = vectors[0].action_space.sample()
        (first, *one, _), (second, *two, _) = (vector.step(actions) for vector in vectors)
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
        seen = [first, second]
    with pytest.raises(ValueError, match="at least 1"):
        vector_of(f"shardgraph/{name}", 2, threads=0)


def test_a_graph_of_ones_own_is_the_one_that_is_played():
    graph = shardgraph.Graph.from_edges([0, 1, 2], [1, 2, 3])
    env = gymnasium.make("shardgraph/VertexCover-v0", graphs=graph).unwrapped
    observation, info = env.reset(seed=1)
    assert env.graph is graph and info["action_mask"].tolist() == [1, 1, 1, 1]
    observation, reward, done, _, info = env.step(1)
    assert reward == -1 and not done and info["action_mask"].tolist() == [0, 0, 1, 1]
    assert observation["adjacency"].sum() == 2 and observation["in_answer"].tolist() == [0, 1, 0, 0]
    again, reward, _, _, _ = env.step(1)
    assert reward == 0 and np.array_equal(again["adjacency"], observation["adjacency"])
    assert env.step(2)[2] and env.answer == [1, 2]
    cut = gymnasium.make("shardgraph/Cut-v0", graphs=shardgraph.Graph.from_edges([0, 1], [1, 2], weight=[1.0, -2.0])).unwrapped
    assert cut.reset(seed=1)[0]["adjacency"].min() < 0 and cut.observation_space.contains(cut.reset()[0])
    with pytest.raises(ValueError, match="weights"):
        gymnasium.make("shardgraph/VertexCover-v0", graphs=cut.graph)


def test_the_taxi_masks_what_has_no_effect_where_it_is_asked_to():
    free, masked = (gymnasium.make("shardgraph/Taxi-v4", **options).unwrapped for options in ({}, {"masked": True}))
    (state, info), (same, shown) = free.reset(seed=4), masked.reset(seed=4)
    assert state == same and info == {} and shown["action_mask"].shape == (6,) and shown["action_mask"].dtype == np.int8
    for action in range(6):
        env = gymnasium.make("shardgraph/Taxi-v4", masked=True).unwrapped
        env.reset(seed=4)
        if shown["action_mask"][action]:
            env.step(action)
            continue
        with pytest.raises(ValueError, match="allowed actions"):
            env.step(action)
        assert free.step(action)[:2] in ((state, -1.0), (state, -10.0))


def test_a_placement_earns_the_share_of_the_time_that_it_saves(tmp_path):
    ops = [[0, "Op", 100_000, 0, 0]] * 8
    graph = {"name": "fan", "ops": ops, "tensors": [[i, 1, -1, [7]] for i in range(7)], "names": list("abcdefgh")}
    path = tmp_path / "fan.jsonl"
    path.write_text(json.dumps(graph) + "\n")
    env = gymnasium.make("shardgraph/Placement-v0", graphs=str(path), n_devices=3, bandwidth_gbs=1e6).unwrapped
    assert env.action_space.n == 3 and env.observation_space.shape == (4 + 3 * 3,)
    for devices, saved in [([0] * 8, 0.0), ([1] * 8, 0.0), ([0, 1, 2] * 2 + [0, 0], 1 - 4 / 8)]:
        env.reset(seed=1)
        steps = [env.step(device) for device in devices]
        assert [step[2] for step in steps] == [False] * 7 + [True]
        assert np.isclose(sum(step[1] for step in steps), saved, atol=1e-3)
    for options, words in [({"n_devices": 1}, "at least 2"), ({"graphs": "absent.jsonl"}, "absent"), ({"speed": 1}, "bandwidth_gbs")]:
        with pytest.raises(ValueError, match=words):
            gymnasium.make("shardgraph/Placement-v0", **options)


def test_the_program_makes_the_environments_of_ids():
    known = shardgraph.gym.program_environment
    assert known("shardgraph/Breakout-v1", {"ramping": False}) == ("breakout", {"ramping": False})
    assert known("shardgraph/CartPole-v1", {}) == ("cartpole", {})
    assert known("shardgraph/Cut-v0", {"problem": "mis", "graphs": "er:9:0.5"}) == ("independent-set", {"graphs": "er:9:0.5"})
    for name, options in [
        ("CartPole-v1", {}),
        ("shardgraph/Cut-v0", {"graphs": shardgraph.generate("karate")}),
        ("shardgraph/Pendulum-v1", {"max_episode_steps": 9}),
    ]:
        assert known(name, options) is None
