"""Networks of the agents, usable alone: built from spaces, called with arrays, with parameters and gradients as arrays.

>>> import numpy as np
>>> from shardgraph.components import ActorCritic, QNetwork
>>> network = QNetwork(4, 2, hidden=(16,), seed=1)
>>> observations = np.ones((8, 4))
>>> network(observations).shape, sorted(network.parameters())[:2]
((8, 2), ['q-network/head/b', 'q-network/head/w'])
>>> upstream = 2 * network(observations)  # of the sum of squares
>>> network.update({name: -0.01 * g for name, g in network.gradient(observations, upstream).items()})
>>> logits, values = ActorCritic(4, 2)(observations)
>>> logits.shape, values.shape
((8, 2), (8, 1))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._spaces import action_json, observation_json

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ActorCritic", "QNetwork"]


class _Network:
    """What both networks share."""

    _kind: str

    def __init__(self, observation: Any, action: Any, shape: dict[str, Any], seed: int) -> None:
        unbounded = {"type": "Box", "shape": [observation], "low": "-inf", "high": "inf"}
        spaces = (
            json.dumps(unbounded) if isinstance(observation, int) else observation_json(observation),
            json.dumps({"type": "Discrete", "n": action}) if isinstance(action, int) else action_json(action),
        )
        self._native = _shardgraph.NativeNetwork(self._kind, spaces, json.dumps(shape), seed)

    def _outputs(self, observations: ArrayLike) -> list[NDArray[np.float32]]:
        return [values.reshape(-1, n_columns) for values, n_columns in self._native.apply(self._rows(observations))]

    def _gradient(self, observations: ArrayLike, *upstream: ArrayLike) -> dict[str, NDArray[np.float32]]:
        rows = self._rows(observations)
        return self._by_name(self._native.gradient(rows, [_flat(factors) for factors in upstream]))

    def _rows(self, observations: ArrayLike) -> NDArray[np.float32]:
        array = np.ascontiguousarray(observations, dtype=np.float32)
        width = self._native.n_inputs
        if array.size != len(array) * width:
            raise ValueError(f"observations have shape {array.shape}: expected [n, ...] with {width} numbers in a row")
        return array.ravel()

    def _by_name(self, values: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        described = self._native.parameters()
        ends = np.cumsum([n_rows * n_columns for _, n_rows, n_columns in described])
        parts = np.split(values, ends[:-1])
        return {name: part.reshape(shape) for (name, *shape), part in zip(described, parts, strict=True)}

    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the parameters by name: weights of shape [inputs, outputs], biases of shape [1, outputs]."""
        return self._by_name(self._native.values())

    def load(self, parameters: Mapping[str, ArrayLike]) -> None:
        """Replaces the named parameters."""
        self._assign({name: (np.float32(0), values) for name, values in parameters.items()})

    def update(self, differences: Mapping[str, ArrayLike]) -> None:
        """Adds to the named parameters: a step of gradient descent."""
        self._assign({name: (np.float32(1), values) for name, values in differences.items()})

    def _assign(self, changes: dict[str, tuple[np.float32, ArrayLike]]) -> None:
        parameters = self.parameters()
        for name, (factor, values) in changes.items():
            if name not in parameters:
                raise ValueError(f"no parameter `{name}`: expected some of {', '.join(parameters)}")
            array = np.asarray(values, dtype=np.float32)
            if array.shape != parameters[name].shape:
                raise ValueError(f"{name} has shape {array.shape}: expected {parameters[name].shape}")
            parameters[name] = factor * parameters[name] + array
        self._native.set_values(np.concatenate([values.ravel() for values in parameters.values()]))


class QNetwork(_Network):
    """Action values of observations: hidden layers with relu, then a linear or a dueling head.

    :param observation: a space of Gymnasium, flattened here, or a number of features.
    :param action: a discrete space, or a number of actions.
    :param dueling: widths of the hidden layers of both dueling streams.
    """

    _kind = "q-network"

    def __init__(
        self,
        observation: Any,
        action: Any,
        *,
        hidden: Sequence[int] = (120, 84),
        dueling: Sequence[int] | None = None,
        seed: int = 1,
    ) -> None:
        streams = None if dueling is None else list(dueling)
        super().__init__(observation, action, {"hidden": list(hidden), "dueling": streams}, seed)

    def __call__(self, observations: ArrayLike) -> NDArray[np.float32]:
        """The values of all actions: [n, ...] to [n, n_actions]."""
        return self._outputs(observations)[0]

    def gradient(self, observations: ArrayLike, upstream: ArrayLike) -> dict[str, NDArray[np.float32]]:
        """The derivatives of ``(self(observations) * upstream).sum()`` by all parameters."""
        return self._gradient(observations, upstream)


class ActorCritic(_Network):
    """A policy's logits and values of states over shared hidden layers with relu.

    :param observation: a space of Gymnasium, flattened here, or a number of features.
    :param action: a space, or a number of actions. For a box the logits are means, then logarithms of deviations.
    """

    _kind = "actor-critic"

    def __init__(self, observation: Any, action: Any, *, hidden: Sequence[int] = (64, 64), seed: int = 1) -> None:
        super().__init__(observation, action, {"hidden": list(hidden)}, seed)

    def __call__(self, observations: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits and values: [n, ...] to [n, n_logits] and [n, 1]."""
        logits, values = self._outputs(observations)
        return logits, values

    def gradient(
        self, observations: ArrayLike, of_logits: ArrayLike, of_values: ArrayLike
    ) -> dict[str, NDArray[np.float32]]:
        """The derivatives of ``(logits * of_logits).sum() + (values * of_values).sum()`` by all parameters."""
        return self._gradient(observations, of_logits, of_values)


def _flat(array: ArrayLike) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32).ravel()
