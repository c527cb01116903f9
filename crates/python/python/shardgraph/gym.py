"""Gymnasium environments, all with a native vector form: the five graph problems, control tasks, small worlds, MinAtar's games.

>>> import gymnasium, shardgraph.gym
>>> env = gymnasium.make("shardgraph/VertexCover-v0", graphs="er:12:0.3")
>>> observation, info = env.reset(seed=1)
>>> observation["adjacency"].shape, int(info["action_mask"].sum()) > 0
((12, 12), True)
>>> games = gymnasium.make_vec("shardgraph/Breakout-v1", num_envs=8, vectorization_mode="vector_entry_point")
>>> games.reset(seed=1)[0].shape
(8, 10, 10, 4)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _shardgraph
from ._graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CartPoleEnv",
    "CartPoleVectorEnv",
    "GraphEnv",
    "GraphVectorEnv",
    "NamedEnv",
    "NamedVectorEnv",
]

_MODES = {
    AutoresetMode.NEXT_STEP: "next-step",
    AutoresetMode.SAME_STEP: "same-step",
    AutoresetMode.DISABLED: "disabled",
}


# By the program's names, with the versions of what they follow. The taxi refuses masked actions, which Gymnasium's takes: it has no id.
_NAMED = {
    "acrobot": "Acrobot-v1",
    "asterix": "Asterix-v1",
    "breakout": "Breakout-v1",
    "cliff-walking": "CliffWalking-v1",
    "freeway": "Freeway-v1",
    "frozen-lake": "FrozenLake-v1",
    "mountain-car": "MountainCar-v0",
    "mountain-car-continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
    "seaquest": "Seaquest-v1",
    "space-invaders": "SpaceInvaders-v1",
}
_PROBLEMS = {
    "VertexCover": "mvc",
    "IndependentSet": "mis",
    "Clique": "clique",
    "Cut": "cut",
    "DominatingSet": "dominating-set",
}


def _bounds(bounds: Any, shape: list[int]) -> NDArray[np.float32]:
    """The bounds of a box: a number for all elements, or a list; the word for infinity becomes the largest float."""
    largest = np.finfo(np.float32).max
    listed = [float(bound) for bound in (bounds if isinstance(bounds, list) else [bounds])]
    array = np.clip(np.array(listed), -largest, largest).astype(np.float32)
    return array.reshape(shape) if isinstance(bounds, list) else np.full(shape, array[0])


def _space(kind: dict[str, Any]) -> spaces.Space[Any]:
    """Gymnasium's form of a space."""
    match kind["type"]:
        case "Box":
            low, high = (_bounds(kind[side], kind["shape"]) for side in ("low", "high"))
            return spaces.Box(low, high, dtype=np.float32)
        case "Discrete":
            return spaces.Discrete(kind["n"])
    raise ValueError(f"a space of type {kind['type']} has no form here")


class _Seeds:
    """The seed of a reset without one: of entropy at first, then the next episodes of the last seed."""

    def __init__(self) -> None:
        self._is_seeded = False

    def of(self, env: Any, seed: int | None) -> int | None:
        """The seed, or nothing for the next episode."""
        if seed is None and not self._is_seeded:
            seed = int(env.np_random.integers(2**63))
        self._is_seeded = True
        return seed


class _Named:
    """What one environment and a vector of them share: spaces, and rows of floats as observations."""

    def __init__(self, name: str, options: dict[str, Any], num_envs: int, mode: str) -> None:
        self.native = _shardgraph.NativeVector(name, json.dumps(options), num_envs, mode)
        observation, action = (_space(json.loads(space)) for space in self.native.spaces())
        self.observation_space, self.action_space = observation, action
        self.shape = observation.shape or ()
        self.is_numbered = isinstance(observation, spaces.Discrete)
        self.is_discrete = isinstance(action, spaces.Discrete)
        self.seeds = _Seeds()

    def reset(self, seed: int | None, marks: NDArray[np.bool_]) -> NDArray[Any]:
        """Begins episodes: all by a seed, or the next of the marked ones."""
        rows = self.native.reset_where(marks) if seed is None else self.native.reset(seed)
        return self.observations(rows)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        """A step of all."""
        if self.is_discrete:
            found = self.native.step(np.ascontiguousarray(actions, dtype=np.int64).ravel())
        else:
            found = self.native.step_continuous(np.ascontiguousarray(actions, dtype=np.float32).ravel())
        rows, rewards, terminated, truncated = found
        return self.observations(rows), rewards, terminated, truncated

    def observations(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """Rows of floats as a batch of observations; the same memory but for numbers."""
        if self.is_numbered:
            return rows.argmax(axis=-1)
        return rows.reshape(*rows.shape[:-1], *self.shape)


class NamedEnv(gymnasium.Env[Any, Any]):
    """An environment that comes with the program: a control task, a small world or one of MinAtar's games.

    :param name: one of ``shardgraph agent list``, such as ``breakout``; further arguments are its options.
    """

    metadata = {"render_modes": []}

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self._inner = _Named(name, options, 1, "disabled")
        self.observation_space, self.action_space = self._inner.observation_space, self._inner.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; with a seed, the first one of that seed."""
        super().reset(seed=seed)
        observations = self._inner.reset(self._inner.seeds.of(self, seed), np.ones(1, dtype=bool))
        return observations[0].copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action."""
        observations, rewards, terminated, truncated = self._inner.step([action])
        return observations[0].copy(), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}


class _VectorEnv(VectorEnv[Any, Any, Any]):
    """What both vectors share: numbers, spaces and the autoreset mode."""

    def _begin(
        self,
        num_envs: int,
        single: tuple[spaces.Space[Any], spaces.Space[Any]],
        mode: AutoresetMode,
        copy: bool,
    ) -> None:
        self.num_envs, self.copy = num_envs, copy
        self.single_observation_space, self.single_action_space = single
        self.observation_space = batch_space(single[0], num_envs)
        self.action_space = batch_space(single[1], num_envs)
        self.metadata = {"autoreset_mode": mode}

    def _marks(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        """The environments whose next episodes begin."""
        marks = (options or {}).get("reset_mask")
        if marks is None:
            return np.ones(self.num_envs, dtype=bool)
        return np.ascontiguousarray(marks, dtype=bool)

    def _final(self, ended: NDArray[np.bool_], last: Any) -> dict[str, Any]:
        """The last observations of the episodes that ended, where the next ones began in the same step."""
        if self.metadata["autoreset_mode"] != AutoresetMode.SAME_STEP or not ended.any():
            return {}
        found = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            found[i] = last(int(i))
        return {"final_obs": found, "_final_obs": ended}

    def _kept(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy() if self.copy else array


class NamedVectorEnv(_VectorEnv):
    """Environments of one name side by side, all steps in native code; environment i has the key (seed, i).

    With ``copy=False`` the arrays of a step are the same at each step, and the next one writes over them.
    """

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **options: Any,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        self._inner = _Named(name, options, num_envs, _MODES[mode])
        self._begin(num_envs, (self._inner.observation_space, self._inner.action_space), mode, copy)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode everywhere, or where ``options["reset_mask"]`` says; a seed is one number for all."""
        seed = None if seed is None else int(np.ravel(seed)[0])
        super().reset(seed=seed)
        observations = self._inner.reset(self._inner.seeds.of(self, seed), self._marks(options))
        return self._kept(observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """An action everywhere."""
        observations, rewards, terminated, truncated = self._inner.step(actions)
        final = self._final(terminated | truncated, self._last)
        return (
            self._kept(observations),
            self._kept(rewards),
            self._kept(terminated),
            self._kept(truncated),
            final,
        )

    def _last(self, index: int) -> Any:
        row = self._inner.native.final_observation(index)
        assert row is not None
        return self._inner.observations(row)


class CartPoleEnv(gymnasium.Env[Any, Any]):
    """Cart and pole: action 0 pushes to the left, 1 to the right, each step earns 1; 500 steps at most.

    A seed begins the episode that Gymnasium's CartPole-v1 begins with it.
    """

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        named = _Named("cartpole", {}, 1, "disabled")
        self.observation_space, self.action_space = named.observation_space, named.action_space
        self._cart = _shardgraph.NativeCartPole()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; with a seed, the first one of that seed."""
        super().reset(seed=seed)
        return self._cart.reset(self.np_random.uniform(-0.05, 0.05, size=4).tolist()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One push."""
        return *self._cart.step(int(action)), {}


class CartPoleVectorEnv(NamedVectorEnv):
    """Carts with poles side by side; cart i begins by the key (seed, i)."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        super().__init__("cartpole", num_envs, **options)


class _Graphs:
    """What one episode of a graph problem and a vector of them share."""

    def __init__(self, problem: str, graphs: str | Graph, num_envs: int, mode: str) -> None:
        native = graphs._native if isinstance(graphs, Graph) else graphs
        self.native = _shardgraph.NativeEpisodes(problem, native, num_envs, mode)
        n = self.native.n_nodes
        parts: dict[str, spaces.Space[Any]] = {
            "adjacency": spaces.MultiBinary([n, n]),
            "in_answer": spaces.MultiBinary(n),
            "action_mask": spaces.MultiBinary(n),
        }
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(n)
        self.seeds = _Seeds()

    def reset(self, seed: int | None, marks: NDArray[np.bool_]) -> dict[str, Any]:
        """Begins episodes: all by a seed, or the next of the marked ones."""
        return self.named(self.native.reset_where(marks) if seed is None else self.native.reset(seed))

    @staticmethod
    def named(arrays: Any) -> dict[str, Any]:
        """The arrays of a step by their names."""
        return dict(zip(("adjacency", "in_answer", "action_mask"), arrays))


class GraphEnv(gymnasium.Env[Any, Any]):
    """A graph problem: each action puts a node in the answer, and the reward is the problem's.

    An observation has the ``adjacency`` (int8, [n, n]), ``in_answer`` and ``action_mask`` (int8, [n]). ``info`` has the mask too.
    An action that is no candidate changes nothing and earns 0; after 2 n steps the episode is truncated.

    :param problem: mvc, mis, clique, cut or dominating-set.
    :param graphs: a generator such as ``er:20:0.15``, drawn anew for each episode, or a graph.
    """

    metadata = {"render_modes": []}

    def __init__(self, problem: str = "mvc", graphs: str | Graph = "er:20:0.15") -> None:
        self.problem = problem
        self._inner = _Graphs(problem, graphs, 1, "disabled")
        self.n_nodes = self._inner.native.n_nodes
        self.observation_space, self.action_space = self._inner.observation_space, self._inner.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draws a graph and begins an episode on it."""
        super().reset(seed=seed)
        arrays = self._inner.reset(self._inner.seeds.of(self, seed), np.ones(1, dtype=bool))
        return self._shown(arrays)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Puts a node in the answer."""
        arrays, rewards, terminated, truncated = self._inner.native.step(np.array([action], dtype=np.int64))
        observation, info = self._shown(_Graphs.named(arrays))
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    @staticmethod
    def _shown(arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        observation = {name: array[0].copy() for name, array in arrays.items()}
        return observation, {"action_mask": observation["action_mask"]}

    @property
    def graph(self) -> Graph:
        """The graph of the episode."""
        return Graph._of(self._inner.native.graph(0), None, "episode")

    @property
    def answer(self) -> list[int]:
        """The nodes that were picked."""
        return self._inner.native.picks(0).tolist()


class GraphVectorEnv(_VectorEnv):
    """Episodes of a graph problem side by side, all steps in native code; environment i has the key (seed, i).

    Observations and actions are those of :class:`GraphEnv`, stacked. With ``copy=False`` the arrays of a step are the
    same at each step.
    """

    def __init__(
        self,
        num_envs: int = 1,
        problem: str = "mvc",
        graphs: str | Graph = "er:20:0.15",
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        self._inner = _Graphs(problem, graphs, num_envs, _MODES[mode])
        self._begin(num_envs, (self._inner.observation_space, self._inner.action_space), mode, copy)

    def _shown(self, arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = {name: self._kept(array) for name, array in arrays.items()}
        return kept, {"action_mask": kept["action_mask"]}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode everywhere, or where ``options["reset_mask"]`` says; a seed is one number for all."""
        seed = None if seed is None else int(np.ravel(seed)[0])
        super().reset(seed=seed)
        return self._shown(self._inner.reset(self._inner.seeds.of(self, seed), self._marks(options)))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A node everywhere."""
        arrays, rewards, terminated, truncated = self._inner.native.step(
            np.ascontiguousarray(actions, dtype=np.int64)
        )
        observation, info = self._shown(_Graphs.named(arrays))
        info |= self._final(terminated | truncated, self._last)
        return observation, self._kept(rewards), self._kept(terminated), self._kept(truncated), info

    def _last(self, index: int) -> dict[str, Any]:
        return _Graphs.named(self._inner.native.final_observation(index))


for _name, _problem in _PROBLEMS.items():
    gymnasium.register(
        f"shardgraph/{_name}-v0",
        entry_point="shardgraph.gym:GraphEnv",
        vector_entry_point="shardgraph.gym:GraphVectorEnv",
        kwargs={"problem": _problem},
    )
for _name, _id in _NAMED.items():
    gymnasium.register(
        f"shardgraph/{_id}",
        entry_point="shardgraph.gym:NamedEnv",
        vector_entry_point="shardgraph.gym:NamedVectorEnv",
        kwargs={"name": _name},
    )
gymnasium.register(
    "shardgraph/CartPole-v1",
    entry_point="shardgraph.gym:CartPoleEnv",
    vector_entry_point="shardgraph.gym:CartPoleVectorEnv",
)
