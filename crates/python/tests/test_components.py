"""Networks alone: against numpy, and their gradients against finite differences."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from shardgraph.components import ActorCritic, QNetwork


def by_numpy(parameters, kind, rows):
    """The same layers in float64."""
    w = {name.removeprefix(f"{kind}/"): values.astype(np.float64) for name, values in parameters.items()}
    x, i = rows, 0
    while f"torso/{i}/w" in w:
        x, i = np.maximum(x @ w[f"torso/{i}/w"] + w[f"torso/{i}/b"], 0), i + 1
    heads = ["head"] if kind == "q-network" else ["policy", "value"]
    return [x @ w[f"{head}/w"] + w[f"{head}/b"] for head in heads]


@pytest.mark.parametrize(("network", "kind"), [(QNetwork(5, 3, hidden=(7, 6)), "q-network"), (ActorCritic(5, 3, hidden=(8,)), "actor-critic")])
def test_networks_are_numpys_and_gradients_are_finite_differences(network, kind):
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(9, 5))
    outputs = network(rows)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    for mine, yours in zip(outputs, by_numpy(network.parameters(), kind, rows), strict=True):
        assert mine.dtype == np.float32 and np.allclose(mine, yours, atol=1e-5)
    upstream = [generator.normal(size=output.shape) for output in outputs]
    gradient = network.gradient(rows, *upstream)

    def loss(parameters):
        return sum((out * up).sum() for out, up in zip(by_numpy(parameters, kind, rows), upstream, strict=True))

    parameters = {name: values.astype(np.float64) for name, values in network.parameters().items()}
    assert set(gradient) == set(parameters)
    for name, values in parameters.items():
        at = tuple(generator.integers(n) for n in values.shape)
        shifted = [values.copy(), values.copy()]
        for moved, side in zip(shifted, (1e-5, -1e-5), strict=True):
            moved[at] += side
        slope = (loss(parameters | {name: shifted[0]}) - loss(parameters | {name: shifted[1]})) / 2e-5
        assert np.isclose(gradient[name][at], slope, atol=1e-3), name


def test_a_network_learns_in_numpy_and_begins_by_its_seed():
    rows = np.random.default_rng(1).normal(size=(64, 3))
    target = np.sin(rows[:, :2])
    network = QNetwork(3, 2, hidden=(32,), dueling=(16,), seed=5)
    same, other = QNetwork(3, 2, hidden=(32,), dueling=(16,), seed=5), QNetwork(3, 2, hidden=(32,), dueling=(16,), seed=6)
    assert np.array_equal(network(rows), same(rows)) and not np.array_equal(network(rows), other(rows))
    before = ((network(rows) - target) ** 2).mean()
    for _ in range(300):
        upstream = 2 * (network(rows) - target) / target.size
        network.update({name: -0.3 * values for name, values in network.gradient(rows, upstream).items()})
    assert ((network(rows) - target) ** 2).mean() < before / 5
    other.load(network.parameters())
    assert np.array_equal(other(rows), network(rows))


def test_networks_take_gymnasiums_spaces_and_refuse_others():
    env = gymnasium.make("CartPole-v1")
    assert QNetwork(env.observation_space, env.action_space)(np.zeros((2, 4))).shape == (2, 2)
    logits, values = ActorCritic(spaces.Discrete(5), spaces.Box(-1, 1, (2,)))(np.eye(5))
    assert logits.shape == (5, 4) and values.shape == (5, 1)
    assert ActorCritic(3, spaces.MultiDiscrete([2, 3]))(np.zeros((1, 3)))[0].shape == (1, 5)
    network = QNetwork(3, 2)
    for call, error, words in [
        (lambda: QNetwork(3, spaces.Box(-1, 1, (2,))), ValueError, "discrete|Discrete"),
        (lambda: QNetwork(3, 2, hidden=(0,)), ValueError, "at least 1"),
        (lambda: network(np.zeros((6, 4))), ValueError, r"\(6, 4\): expected \[n, \.\.\.\] with 3"),
        (lambda: network.gradient(np.zeros((2, 3)), np.zeros((2, 3))), (ValueError, RuntimeError), "4|6"),
        (lambda: network.load({"head/w": [[1.0]]}), ValueError, "q-network/head/w"),
        (lambda: network.load({"q-network/head/b": [1.0]}), ValueError, r"expected \(1, 2\)"),
        (lambda: QNetwork(3, spaces.Tuple([spaces.Discrete(2)])), TypeError, "MultiDiscrete"),
    ]:
        with pytest.raises(error, match=words):
            call()
