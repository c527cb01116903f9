"""Replay memories of reinforcement learning, usable alone: uniform, or prioritised by TD errors.

>>> import numpy as np
>>> from shardgraph.replay import ReplayBuffer
>>> spec = {"observation": (np.float32, (4,)), "action": (np.uint32, ())}
>>> buffer = ReplayBuffer(1000, spec, prioritized=True)
>>> ids = buffer.insert({"observation": np.zeros((8, 4)), "action": np.arange(8)})
>>> batch, ids, weights = buffer.sample(5, beta=0.4)
>>> batch["observation"].shape, buffer.update(ids, np.ones(5))
((5, 4), 5)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ReplayBuffer"]

# What a memory keeps of a type, and how.
_KEPT = {"f": ("f32", np.float32), "i": ("u32", np.uint32), "u": ("u32", np.uint32), "b": ("u8", np.uint8)}


class ReplayBuffer:
    """The last ``capacity`` rows, each a value for every name of ``spec``.

    Floats are kept in 32 bits, whole numbers as uint32 and 8-bit ones and flags as bytes; a number that these do not hold is refused.

    :param spec: a type and a shape by name, such as ``{"reward": (np.float32, ())}``.
    :param prioritized: rows are drawn in proportion to ``(|TD error| + 1e-6) ** alpha``, as Schaul et al. do.
    """

    def __init__(
        self,
        capacity: int,
        spec: Mapping[str, tuple[Any, tuple[int, ...]]],
        *,
        prioritized: bool = False,
        alpha: float = 0.6,
        seed: int = 1,
    ) -> None:
        self._names = list(spec)
        self._types = [np.dtype(dtype) for dtype, _ in spec.values()]
        self._shapes = [tuple(shape) for _, shape in spec.values()]
        columns = [
            (name, _kept(name, dtype)[0], prod(shape))
            for name, dtype, shape in zip(self._names, self._types, self._shapes)
        ]
        self.capacity, self.prioritized = capacity, prioritized
        self._native = _shardgraph.NativeReplay(columns, capacity, alpha if prioritized else None, seed)

    def __len__(self) -> int:
        return len(self._native)

    def insert(
        self, batch: Mapping[str, ArrayLike], td_errors: ArrayLike | None = None
    ) -> NDArray[np.uint64]:
        """Puts rows in the place of the oldest; their numbers, which name them for ever.

        :param batch: an array of shape [n, ...] for every name.
        :param td_errors: of a prioritised memory; without them rows get the largest priority that there was.
        """
        if set(batch) != set(self._names):
            raise ValueError(f"a batch of {sorted(batch)}: expected {sorted(self._names)}")
        columns, n_rows = [], None
        for name, dtype, shape in zip(self._names, self._types, self._shapes):
            array = np.asarray(batch[name])
            n_rows = len(array) if n_rows is None and array.ndim else n_rows
            if array.shape != (n_rows, *shape):
                raise ValueError(f"{name} has shape {array.shape}: expected {(n_rows, *shape)}")
            columns.append(_flat(name, array, _kept(name, dtype)[1]))
        errors = None if td_errors is None else np.ascontiguousarray(td_errors, dtype=np.float32)
        return self._native.insert(n_rows or 0, columns, errors)

    def sample(
        self, n_rows: int, beta: float = 0.4
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64], NDArray[np.float32]]:
        """Draws rows with replacement: the batch, the rows' numbers, and their importance weights, which are 1 in a uniform memory."""
        columns, ids, weights = self._native.sample(n_rows, beta)
        arrays = zip(self._names, columns, self._types, self._shapes)
        batch = {
            name: column.reshape(n_rows, *shape).astype(dtype, copy=False)
            for name, column, dtype, shape in arrays
        }
        return batch, ids, weights

    def update(self, ids: ArrayLike, td_errors: ArrayLike) -> int:
        """Gives rows the priorities of new TD errors; the number of rows that were not overwritten meanwhile."""
        numbers = np.ascontiguousarray(ids, dtype=np.uint64)
        return self._native.update(numbers, np.ascontiguousarray(td_errors, dtype=np.float32))


def _kept(name: str, dtype: np.dtype[Any]) -> tuple[str, Any]:
    """The kind of a column, and its type here."""
    if dtype.kind in "iu" and dtype.itemsize == 1 and dtype.kind == "u":
        return "u8", np.uint8
    if dtype.kind not in _KEPT:
        raise TypeError(f"{name} of {dtype}: expected floats, whole numbers or flags")
    return _KEPT[dtype.kind]


def _flat(name: str, array: NDArray[Any], kept: Any) -> NDArray[Any]:
    """The elements in a row, in the memory's type, or a sentence for what it does not hold."""
    if kept is np.float32:
        return np.ascontiguousarray(array, dtype=kept).ravel()
    limits = np.iinfo(kept)
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} has dtype {array.dtype}: expected whole numbers")
    if array.size and not (0 <= int(array.min()) and int(array.max()) <= limits.max):
        raise ValueError(f"{name} has {array.min()} to {array.max()}: expected 0 to {limits.max}")
    return np.ascontiguousarray(array, dtype=kept).ravel()
