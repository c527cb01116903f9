"""Gymnasium environments, all with a native vector form: graph problems, placement, control tasks, small worlds, MinAtar's games.

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


# By the program's names, with the versions of what they follow.
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
    "placement": "Placement-v0",
    "seaquest": "Seaquest-v1",
    "space-invaders": "SpaceInvaders-v1",
    "taxi": "Taxi-v4",
}
# Gymnasium's taxi takes every action.
_OPTIONS: dict[str, dict[str, Any]] = {"taxi": {"masked": False}}
_PROBLEMS = {
    "VertexCover": "mvc",
    "IndependentSet": "mis",
    "Clique": "clique",
    "Cut": "cut",
    "DominatingSet": "dominating-set",
}
_PROGRAM_NAMES = {"mvc": "vertex-cover", "mis": "independent-set"}


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
        case "Dict":
            # A list keeps the order, in which the parts of a row follow each other.
            return spaces.Dict([(name, _space(member)) for name, member in kind["spaces"]])
    raise ValueError(f"a space of type {kind['type']} has no form here")


def _views(space: spaces.Space[Any], rows: NDArray[np.float32]) -> Any:
    """Rows of floats as observations, or one row as one; the same memory but for numbers."""
    if isinstance(space, spaces.Discrete):
        return rows.argmax(axis=-1)
    if not isinstance(space, spaces.Dict):
        return rows.reshape(*rows.shape[:-1], *(space.shape or ()))
    views, first = {}, 0
    for name, member in space.items():
        last = first + spaces.utils.flatdim(member)
        views[name] = _views(member, rows[..., first:last])
        first = last
    return views


class _Copies:
    """What one environment and a vector of them share: spaces, seeds, and observations as views of rows."""

    def __init__(self, native: _shardgraph.NativeVector) -> None:
        self.native = native
        self.observation_space, self.action_space = (_space(json.loads(space)) for space in native.spaces())
        self.is_discrete = isinstance(self.action_space, spaces.Discrete)
        self._is_seeded = False

    def reset(self, env: Any, seed: int | None, marks: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Begins episodes: all by a seed, or the next of the marked ones; the first reset without a seed draws one."""
        if seed is None and not self._is_seeded:
            seed = int(env.np_random.integers(2**63))
        self._is_seeded = True
        return self.native.reset_where(marks) if seed is None else self.native.reset(seed)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        """A step of all."""
        if self.is_discrete:
            return self.native.step(np.ascontiguousarray(actions, dtype=np.int64).ravel())
        return self.native.step_continuous(np.ascontiguousarray(actions, dtype=np.float32).ravel())

    def shown(self, rows: NDArray[np.float32]) -> tuple[Any, dict[str, Any]]:
        """Observations, and their masks of actions where there are any."""
        observations = _views(self.observation_space, rows)
        mask = observations.get("action_mask") if isinstance(observations, dict) else self.native.action_mask()
        return observations, {} if mask is None else {"action_mask": mask.astype(np.int8)}


class _Env(gymnasium.Env[Any, Any]):
    """One environment of native code."""

    metadata = {"render_modes": []}

    def __init__(self, native: _shardgraph.NativeVector) -> None:
        self._copies = _Copies(native)
        self.observation_space, self.action_space = self._copies.observation_space, self._copies.action_space

    def _shown(self, rows: NDArray[np.float32]) -> tuple[Any, dict[str, Any]]:
        observations, info = self._copies.shown(rows.copy())
        info = {name: mask[0] for name, mask in info.items()}
        if isinstance(observations, dict):
            return {name: part[0] for name, part in observations.items()}, info
        return observations[0], info

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; with a seed, the first one of that seed."""
        super().reset(seed=seed)
        return self._shown(self._copies.reset(self, seed, np.ones(1, dtype=bool)))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action."""
        rows, rewards, terminated, truncated = self._copies.step([action])
        observation, info = self._shown(rows)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info


class _VectorEnv(VectorEnv[Any, Any, Any]):
    """Environments side by side, all steps in native code; environment i has the key (seed, i).

    With ``copy=False`` the arrays of a step are the same at each step, and the next one writes over them. ``threads`` share the steps;
    their number changes no bit.
    """

    def __init__(self, native: _shardgraph.NativeVector, num_envs: int, mode: AutoresetMode, copy: bool, threads: int) -> None:
        native.set_threads(threads)
        self._copies = _Copies(native)
        self.num_envs, self.copy = num_envs, copy
        self.single_observation_space = self._copies.observation_space
        self.single_action_space = self._copies.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": mode}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode everywhere, or where ``options["reset_mask"]`` says; a seed is one number for all."""
        seed = None if seed is None else int(np.ravel(seed)[0])
        super().reset(seed=seed)
        marks = (options or {}).get("reset_mask")
        marks = np.ones(self.num_envs, dtype=bool) if marks is None else np.ascontiguousarray(marks, dtype=bool)
        return self._copies.shown(self._kept(self._copies.reset(self, seed, marks)))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """An action everywhere."""
        rows, rewards, terminated, truncated = (self._kept(array) for array in self._copies.step(actions))
        observations, info = self._copies.shown(rows)
        if self.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP:
            info |= self._final(terminated | truncated)
        return observations, rewards, terminated, truncated, info

    def _final(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """The last observations and masks of the episodes that ended, where the next ones began in the same step."""
        if not ended.any():
            return {}
        found, masks = np.full(self.num_envs, None, dtype=object), {}
        for i in np.flatnonzero(ended):
            last = self._copies.native.final_observation(int(i))
            assert last is not None
            row, mask = last
            found[i] = _views(self.single_observation_space, row)
            mask = found[i]["action_mask"] if isinstance(found[i], dict) else mask
            if mask is not None:
                masks[i] = mask
        info: dict[str, Any] = {"final_obs": found, "_final_obs": ended}
        if masks:
            marks = np.array(list(masks.values()), dtype=np.int8)
            rows = np.zeros((self.num_envs, marks.shape[1]), dtype=np.int8)
            rows[list(masks)] = marks
            info |= {"final_info": {"action_mask": rows, "_action_mask": ended}, "_final_info": ended}
        return info

    def _kept(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy() if self.copy else array


def _named(name: str, options: dict[str, Any], num_envs: int, mode: str) -> _shardgraph.NativeVector:
    return _shardgraph.NativeVector.named(name, json.dumps(options), num_envs, mode)


class NamedEnv(_Env):
    """An environment that comes with the program: a control task, a small world, a placement or one of MinAtar's games.

    :param name: one of ``shardgraph agent list``, such as ``breakout``; further arguments are its options.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(_named(name, options, 1, "disabled"))


class NamedVectorEnv(_VectorEnv):
    """A vector of an environment that comes with the program: see :class:`NamedEnv`."""

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        **options: Any,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        super().__init__(_named(name, options, num_envs, _MODES[mode]), num_envs, mode, copy, threads)


class CartPoleEnv(gymnasium.Env[Any, Any]):
    """Cart and pole: action 0 pushes to the left, 1 to the right, each step earns 1; 500 steps at most.

    A seed begins the episode that Gymnasium's CartPole-v1 begins with it.
    """

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        spaces_of = _Copies(_named("cartpole", {}, 1, "disabled"))
        self.observation_space, self.action_space = spaces_of.observation_space, spaces_of.action_space
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


def _graphs(problem: str, graphs: str | Graph, num_envs: int, mode: str) -> _shardgraph.NativeVector:
    native = graphs._native if isinstance(graphs, Graph) else graphs
    return _shardgraph.NativeVector.of_graphs(problem, native, num_envs, mode)


class GraphEnv(_Env):
    """A graph problem: each action puts a node in the answer, and the reward is the problem's.

    An observation has float32 arrays: ``adjacency`` [n, n] of the nodes that are left, ``in_answer`` [n], ``action_mask`` [n], and for
    some problems ``node_features`` [n, f]; ``info`` has the mask too. An action that is no candidate changes nothing and earns 0;
    after 2 n steps the episode is truncated.

    :param problem: mvc, mis, clique, cut or dominating-set.
    :param graphs: a generator such as ``er:20:0.15``, drawn anew for each episode, a graph file, or a graph of at most 2,048 nodes.
    """

    def __init__(self, problem: str = "mvc", graphs: str | Graph = "er:20:0.15") -> None:
        super().__init__(_graphs(problem, graphs, 1, "disabled"))
        self.problem, self.graphs = problem, graphs

    @property
    def graph(self) -> Graph:
        """The graph of the episode."""
        if isinstance(self.graphs, Graph):
            return self.graphs
        return Graph._of(self._copies.native.graph(0), None, "episode")

    @property
    def answer(self) -> list[int]:
        """The nodes that were picked."""
        return self._copies.native.picks(0).tolist()


class GraphVectorEnv(_VectorEnv):
    """A vector of a graph problem: see :class:`GraphEnv`. Each episode has its own graph of a generator."""

    def __init__(
        self,
        num_envs: int = 1,
        problem: str = "mvc",
        graphs: str | Graph = "er:20:0.15",
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        super().__init__(_graphs(problem, graphs, num_envs, _MODES[mode]), num_envs, mode, copy, threads)


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
        kwargs={"name": _name} | _OPTIONS.get(_name, {}),
    )
gymnasium.register(
    "shardgraph/CartPole-v1",
    entry_point="shardgraph.gym:CartPoleEnv",
    vector_entry_point="shardgraph.gym:CartPoleVectorEnv",
)


def program_environment(name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Name and options by which the program makes the environment of an id; absent for ids of others and graphs in memory."""
    spec = gymnasium.registry.get(name)
    if spec is None or not str(spec.entry_point).startswith("shardgraph.gym:") or "max_episode_steps" in options:
        return None
    options = spec.kwargs | options
    if spec.entry_point == "shardgraph.gym:GraphEnv":
        problem = options.pop("problem")
        is_known = problem in _PROBLEMS.values() and isinstance(options.get("graphs", ""), str)
        return (_PROGRAM_NAMES.get(problem, problem), options) if is_known else None
    return options.pop("name", "cartpole"), options
