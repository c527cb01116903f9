"""Gymnasium's own checks of every environment."""

import gymnasium
import numpy as np
import pytest
import shardgraph.gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv as TheirCartPole
from gymnasium.utils.env_checker import check_env

IDS = [f"shardgraph/{name}-v0" for name in shardgraph.gym._PROBLEMS] + ["shardgraph/CartPole-v1"]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.filterwarnings("error")
def test_environments_pass_gymnasiums_check(name):
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("name", IDS[:-1])
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

    value = _shardgraph.evaluate(env.graph._native, env.problem, np.array(answer))
    assert value >= found.objective if env.problem in ("mvc", "dominating-set") else value <= found.objective


def test_carts_move_as_gymnasiums():
    ours, theirs = gymnasium.make("shardgraph/CartPole-v1").unwrapped, TheirCartPole()
    theirs.reset(seed=0)
    generator = np.random.default_rng(5)
    for episode in range(200):
        observation, _ = ours.reset(seed=episode)
        theirs.reset(seed=0)
        theirs.state = observation.astype(np.float64)
        for _ in range(20):
            action = int(generator.integers(2))
            mine, yours = ours.step(action), theirs.step(action)
            assert np.allclose(mine[0], yours[0], atol=1e-5) and mine[1] == yours[1]
            if mine[2] or yours[2]:
                break


def test_a_vector_is_its_carts_one_by_one():
    vector = gymnasium.make_vec(
        "shardgraph/CartPole-v1", num_envs=33, vectorization_mode="vector_entry_point"
    )
    observations, _ = vector.reset(seed=7)
    assert observations.shape == (33, 4) and vector.observation_space.contains(observations)
    single = gymnasium.make("shardgraph/CartPole-v1").unwrapped
    first, _ = single.reset(seed=7)
    assert np.array_equal(first, observations[0])
    for step in range(300):
        actions = (observations[:, 2] > 0).astype(np.int64)
        kept = observations.copy()
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        assert not np.shares_memory(kept, observations) and rewards.shape == (33,)
        if first is not None:
            first, reward, ended, _, _ = single.step(int(actions[0]))
            assert np.array_equal(first, observations[0]) and ended == terminated[0]
            first = None if ended else first
    for wrong in ([2] * 33, [-1] * 33, [0] * 32):
        with pytest.raises(ValueError):
            vector.step(np.array(wrong))
