"""The biased random-key genetic algorithm for any decoder that works on arrays.

>>> from shardgraph import brkga
>>> result = brkga.minimize(lambda keys: ((keys - 0.25) ** 2).sum(axis=1), 3, seed=1)
>>> bool(result.fun < 1e-3)
True
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["minimize"]

_MESSAGES = {
    "evaluations": "all evaluations are used",
    "target": "the target is reached",
    "stall": "the best did not get better",
    "caller": "the callback or an interrupt ended the search",
}


class _Result(dict[str, Any]):
    """What scipy's OptimizeResult is, where scipy is not installed."""

    __getattr__ = dict.__getitem__


def _result(values: dict[str, Any]) -> Any:
    try:
        from scipy.optimize import OptimizeResult
    except ImportError:
        return _Result(values)
    return OptimizeResult(values)


def minimize(
    decode: Callable[[NDArray[np.float64]], ArrayLike],
    n_keys: int,
    *,
    population: int = 256,
    elites: float = 0.2,
    mutants: float = 0.15,
    bias: float = 0.7,
    x0: ArrayLike | None = None,
    maxiter: int = 100,
    maxfun: int | None = None,
    stall: int = 0,
    seed: int = 1,
    vectorized: bool = True,
    callback: Callable[[NDArray[np.float64], float], object] | None = None,
) -> Any:
    """The smallest value of ``decode`` that a genetic algorithm over keys of [0, 1) finds.

    ``decode`` takes float64 keys of shape [P, n_keys] and returns [P] values, one call a generation; with
    ``vectorized=False`` it takes one row and returns one number. NaN is the worst value. Keys have 32-bit precision.

    :param elites: the share of the population that lives on, or a number of chromosomes; so ``mutants``.
    :param x0: keys to begin with, of shape [n_keys] or [k, n_keys].
    :param callback: called with (keys, value) of the best after each generation; true ends the search.
    :returns: a scipy OptimizeResult: x, fun, nfev, nit, success, message, history.
    """
    if population < 2 or maxiter < 1 or n_keys < 1:
        raise ValueError(
            f"population = {population}, maxiter = {maxiter}, n_keys = {n_keys}: expected 2, 1, 1 or more"
        )
    n_elites = max(1, round(elites * population)) if elites < 1 else int(elites)
    n_mutants = round(mutants * population) if mutants < 1 else int(mutants)
    evaluations = population + (maxiter - 1) * (population - n_elites)
    config = {
        "population": population,
        "elites": n_elites,
        "mutants": n_mutants,
        "rho": bias,
        "seed": seed,
        "evaluations": evaluations if maxfun is None else min(maxfun, evaluations),
        "stall_generations": stall,
    }
    starts = None if x0 is None else np.atleast_2d(np.asarray(x0, dtype=np.float64))
    if starts is not None and starts.shape[1] != n_keys:
        raise ValueError(f"x0 has shape {starts.shape}: expected rows of {n_keys} keys")

    def values(keys: NDArray[np.float64]) -> NDArray[np.float64]:
        found: Any = decode(keys) if vectorized else [decode(row) for row in keys]
        return np.ascontiguousarray(found, dtype=np.float64)

    found = _shardgraph.minimize(values, n_keys, json.dumps(config), starts, callback)
    stop = found.pop("stop")
    return _result(found | {"success": not found["interrupted"], "status": 0, "message": _MESSAGES[stop]})
