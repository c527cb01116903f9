"""Reinforcement-learning agents from settings: trained in environments of the program or of Gymnasium, kept, evaluated.

>>> from shardgraph import agents
>>> run = agents.train("cartpole-ppo", steps=2000)
>>> run.n_steps >= 2000, run.agent.evaluate(3).shape
(True, (3,))
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._spaces import action_json, observation_json

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Agent", "Run", "environments", "load", "names", "train"]


def names() -> dict[str, str]:
    """The settings that come with the program, and what each is for.

    >>> from shardgraph import agents
    >>> "cartpole-dqn" in agents.names()
    True
    """
    return dict(_shardgraph.agent_settings())


def environments() -> dict[str, str]:
    """The environments that come with the program, and what is to be done there.

    >>> from shardgraph import agents
    >>> "breakout" in agents.environments()
    True
    """
    return {name: about for name, about, _ in _shardgraph.environments()}


class Agent:
    """A trained agent; of a run's folder by :func:`load`."""

    def __init__(self, native: _shardgraph.NativeAgent) -> None:
        self._native = native

    @property
    def config(self) -> dict[str, Any]:
        """All settings."""
        return json.loads(self._native.config())

    @property
    def weights(self) -> NDArray[np.float32]:
        """The trained weights, one parameter behind the other."""
        return self._native.weights()

    @property
    def weights_hash(self) -> str:
        """A hash of the weights' bits."""
        return self._native.weights_hash()

    def act(
        self, observations: ArrayLike, *, action_mask: ArrayLike | None = None, sampled: bool = False
    ) -> NDArray[Any]:
        """An action for each observation of a batch: the best one, or with ``sampled`` one as training draws them.

        :param observations: an array of shape [n, ...], flattened here row by row.
        """
        rows = np.ascontiguousarray(observations, dtype=np.float32)
        mask = None if action_mask is None else np.ascontiguousarray(action_mask, dtype=bool).ravel()
        actions = self._native.act(rows.ravel(), mask, sampled)
        # Numbers of discrete actions have no dimension of their own; elements of a box and of a tuple have.
        is_flat = actions.dtype == np.int64 and len(actions) == len(rows)
        return actions if is_flat else actions.reshape(len(rows), -1)

    def begin_episodes(self, num_envs: int) -> None:
        """Forgets what a memory holds: the next observations are the first of episodes in so many environments."""
        self._native.begin_episodes(num_envs)

    def evaluate(self, n_episodes: int = 10, *, seed: int = 1, sampled: bool = False) -> NDArray[np.float32]:
        """The return of each of some episodes, played side by side with the weights as they are."""
        return self._native.evaluate(n_episodes, seed, sampled)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights as a safetensors file."""
        self._native.export(os.fspath(path))


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training: the agent, counts of this call, the mean return of the last episodes, actors that were lost."""

    agent: Agent
    n_steps: int
    n_episodes: int
    n_updates: int
    mean_return: float | None
    lost: list[str]


def train(
    settings: str | os.PathLike[str] | Mapping[str, Any],
    *,
    env: str | Callable[[], Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
    steps: int | None = None,
    seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    ranks: int = 1,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Run:
    """Trains an agent by DQN, PPO, SAC, Ape-X, IMPALA or REINFORCE.

    :param settings: one of :func:`names`, a .toml or .json file, or the settings themselves.
    :param env: an environment of the program by name, an id of Gymnasium, or a function that makes an environment; without it the
        settings name one. An id of :mod:`shardgraph.gym` is the program's environment, and its steps need no Python.
    :param env_options: options of the environment.
    :param out: folder of metrics, checkpoints and weights, from which ``resume=True`` goes on and :func:`load` reads.
    :param ranks: ranks that share each batch, of DQN and PPO; any number gives the same bits.
    :param callback: called about every hundred steps with step, stop_at, mean_return and newly_lost; an exception ends the training.
    """
    text = json.dumps(dict(settings)) if isinstance(settings, Mapping) else os.fspath(settings)
    over: dict[str, Any] = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    make, environment = _environment(env, env_options)
    request = {
        "settings": text,
        "overrides": json.dumps(over | environment),
        "folder": None if out is None else os.fspath(out),
        "resume": resume,
        "ranks": ranks,
    }
    native, found = _shardgraph.train_agent(request, make, callback)
    return Run(agent=Agent(native), **found)


def load(
    folder: str | os.PathLike[str],
    *,
    env: str | Callable[[], Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
) -> Agent:
    """The agent of a run's folder; ``env`` as in :func:`train`, where it was no environment of the program."""
    make, _ = _environment(env, env_options)
    return Agent(_shardgraph.NativeAgent.load(os.fspath(folder), make))


def _environment(
    env: str | Callable[[], Any] | None, options: Mapping[str, Any] | None
) -> tuple[Callable[[int], Any] | None, dict[str, Any]]:
    """What makes environments of Python, and the environment's settings."""
    options = dict(options or {})
    if env is None:
        return None, {"environment": {"options": options}} if options else {}
    if isinstance(env, str) and env in environments():
        return None, {"environment": {"name": env, "options": options}}
    if isinstance(env, str) and env.startswith("shardgraph/"):
        from .gym import program_environment

        if known := program_environment(env, options):
            return None, {"environment": {"name": known[0], "options": known[1]}}
    name = env if isinstance(env, str) else getattr(env, "__qualname__", type(env).__name__)

    def make(num_envs: int) -> _Flat:
        return _Flat(env, options, num_envs)

    return make, {"environment": {"name": name}}


class _Flat:
    """Gymnasium's environments as agents take them: rows of floats, and episodes that begin within the step that ends one."""

    def __init__(self, env: str | Callable[[], Any], options: dict[str, Any], num_envs: int) -> None:
        import gymnasium
        from gymnasium.vector import AutoresetMode, SyncVectorEnv

        def one() -> Any:
            return gymnasium.make(env, **options) if isinstance(env, str) else env(**options)

        self.gymnasium, self.num_envs = gymnasium, num_envs
        mode = AutoresetMode.SAME_STEP
        spec = gymnasium.registry.get(env) if isinstance(env, str) else None
        self.vector: Any
        is_ours = str(getattr(spec, "vector_entry_point", None)).startswith("shardgraph.gym:")
        if spec is not None and is_ours and "max_episode_steps" not in options:
            # Of a graph in memory, all steps in native code.
            self.vector = gymnasium.make_vec(spec, num_envs, autoreset_mode=mode, copy=False, **options)
        else:
            self.vector = SyncVectorEnv([one] * num_envs, autoreset_mode=mode)
        self.observation, self.action = self.vector.single_observation_space, self.vector.single_action_space

    def spaces(self) -> tuple[str, str]:
        """The spaces of a flat observation and of an action, as JSON."""
        return observation_json(self.observation), action_json(self.action)

    def _rows(self, observations: Any) -> NDArray[np.float32]:
        from gymnasium.vector.utils import iterate

        spaces = self.gymnasium.spaces
        if isinstance(self.observation, spaces.Box):
            return np.ascontiguousarray(observations, dtype=np.float32).ravel()
        if isinstance(self.observation, spaces.Dict) and all(isinstance(s, spaces.Box) for s in self.observation.values()):
            parts = [np.reshape(observations[name], (self.num_envs, -1)) for name in self.observation]
            return np.concatenate(parts, axis=1, dtype=np.float32).ravel()
        each = iterate(self.vector.observation_space, observations)
        rows = [spaces.utils.flatten(self.observation, one) for one in each]
        return np.ascontiguousarray(rows, dtype=np.float32).ravel()

    @staticmethod
    def _mask(info: dict[str, Any]) -> NDArray[np.bool_] | None:
        mask = info.get("action_mask")
        return None if mask is None else np.ascontiguousarray(mask, dtype=bool).ravel()

    def reset(self, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Begins an episode everywhere."""
        observations, info = self.vector.reset(seed=seed % 2**31)
        return self._rows(observations), self._mask(info)

    def step(self, actions: NDArray[Any]) -> tuple[Any, ...]:
        """A step everywhere."""
        batch = actions.reshape(self.vector.action_space.shape)
        if self.action.dtype is not None:
            batch = batch.astype(self.action.dtype, copy=False)
        if isinstance(self.action, self.gymnasium.spaces.Box):
            batch = np.clip(batch, self.action.low, self.action.high)
        batch = batch + getattr(self.action, "start", 0)
        observations, rewards, terminated, truncated, info = self.vector.step(batch)
        shown = self._rows(observations), self._mask(info)
        ends = (np.ascontiguousarray(flags, dtype=bool) for flags in (terminated, truncated))
        return shown, np.ascontiguousarray(rewards, dtype=np.float32), *ends, self._last(shown[0], info)

    def _last(self, shown: NDArray[np.float32], info: dict[str, Any]) -> tuple[Any, Any] | None:
        """The last observations of the episodes that ended, in the rows of their environments."""
        if "final_obs" not in info:
            return None
        rows = shown.reshape(self.num_envs, -1).copy()
        for i, observation in enumerate(info["final_obs"]):
            if observation is not None:
                rows[i] = np.asarray(self.gymnasium.spaces.utils.flatten(self.observation, observation))
        return rows.ravel(), self._mask(info.get("final_info", {}))

