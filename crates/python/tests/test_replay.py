"""Replay memories: what is drawn, how often, and what priorities do."""

import numpy as np
import pytest
from shardgraph.replay import ReplayBuffer

SPEC = {"observation": (np.float32, (2, 3)), "action": (np.int64, ()), "done": (np.bool_, ())}


def batch(n, first=0):
    numbers = np.arange(first, first + n)
    return {"observation": np.ones((n, 2, 3)) * numbers[:, None, None], "action": numbers, "done": numbers % 2 == 0}


@pytest.mark.parametrize("prioritized", [False, True])
def test_rows_come_back_as_they_went_in(prioritized):
    buffer = ReplayBuffer(50, SPEC, prioritized=prioritized, seed=4)
    ids = buffer.insert(batch(80))
    assert len(buffer) == 50 and ids.tolist() == list(range(80))
    drawn, ids, weights = buffer.sample(40)
    assert drawn["observation"].shape == (40, 2, 3) and drawn["action"].dtype == np.int64
    assert np.array_equal(drawn["action"], ids) and ids.min() >= 30 and np.all(weights == 1)
    assert np.array_equal(drawn["observation"][:, 1, 2], drawn["action"])
    assert np.array_equal(drawn["done"], drawn["action"] % 2 == 0)
    again = ReplayBuffer(50, SPEC, prioritized=prioritized, seed=4)
    again.insert(batch(80))
    assert np.array_equal(again.sample(40)[1], ids)


def test_rows_are_drawn_in_proportion_to_their_priorities():
    buffer = ReplayBuffer(4, SPEC, prioritized=True, alpha=1.0)
    buffer.insert(batch(4), td_errors=[1, 2, 3, 4])
    counts = np.zeros(4)
    for _ in range(4000):
        _, ids, weights = buffer.sample(4, beta=1.0)
        counts += np.bincount(ids.astype(int), minlength=4)
        assert np.allclose(weights, 1 / (ids + 1), rtol=1e-3)
    assert np.allclose(counts / counts.sum(), [0.1, 0.2, 0.3, 0.4], atol=0.01)
    assert buffer.update([0, 1, 2], [0, 0, 0]) == 3
    assert set(buffer.sample(4)[1].tolist()) == {3}
    buffer.insert(batch(1, first=4))
    assert buffer.update([0, 3], [1, 1]) == 1


def test_wrong_rows_are_refused_in_a_sentence():
    buffer = ReplayBuffer(4, SPEC)
    good = batch(2)
    for wrong, error, words in [
        (good | {"action": np.array([0.5, 1])}, TypeError, "whole numbers"),
        (good | {"action": np.array([-1, 1])}, ValueError, "0 to 4294967295"),
        (good | {"observation": np.zeros((2, 3))}, ValueError, "expected \\(2, 2, 3\\)"),
        (good | {"observation": np.full((2, 2, 3), np.nan)}, ValueError, "finite"),
        ({"action": good["action"]}, ValueError, "expected \\['action', 'done', 'observation'\\]"),
    ]:
        with pytest.raises(error, match=words):
            buffer.insert(wrong)
    assert len(buffer) == 0
    with pytest.raises(ValueError):
        buffer.sample(1)
    with pytest.raises(ValueError, match="prioritized=True"):
        buffer.update([0], [1.0])
    with pytest.raises(TypeError, match="complex"):
        ReplayBuffer(4, {"x": (np.complex64, ())})
