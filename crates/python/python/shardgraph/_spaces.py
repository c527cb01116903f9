"""Gymnasium's spaces as the JSON that the native module reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def observation_json(space: Any) -> str:
    """The space of flat observations."""
    from gymnasium.spaces.utils import flatten_space

    return json.dumps(_box(flatten_space(space)))


def action_json(space: Any) -> str:
    """A space of actions.

    :raises TypeError: when it is neither Discrete nor a flat MultiDiscrete nor a Box.
    """
    from gymnasium import spaces

    match space:
        case spaces.Discrete():
            return json.dumps(_discrete(space.n))
        case spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return json.dumps({"type": "Tuple", "spaces": [_discrete(n) for n in space.nvec]})
        case spaces.Box():
            return json.dumps(_box(space))
    raise TypeError(f"actions of {space}: expected Discrete, MultiDiscrete or Box")


def _discrete(n: Any) -> dict[str, Any]:
    return {"type": "Discrete", "n": int(n)}


def _box(space: Any) -> dict[str, Any]:
    """A box of floats; infinity is a word."""

    def bounds(values: NDArray[Any]) -> list[float | str]:
        wide = values.astype(np.float32).ravel().tolist()
        return [value if np.isfinite(value) else ("inf" if value > 0 else "-inf") for value in wide]

    return {"type": "Box", "shape": list(space.shape), "low": bounds(space.low), "high": bounds(space.high)}
