"""Gymnasium environments: cart and pole with a native vector form, and the five graph problems.

>>> import gymnasium, shardgraph.gym
>>> env = gymnasium.make("shardgraph/VertexCover-v0", graphs="er:12:0.3")
>>> observation, info = env.reset(seed=1)
>>> observation["adjacency"].shape, int(info["action_mask"].sum()) > 0
((12, 12), True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _shardgraph
from ._graph import Graph, generate

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CartPoleEnv", "CartPoleVectorEnv", "GraphEnv"]

# Twice the limits of position and angle; the velocities have none.
_LARGEST = np.finfo(np.float32).max
_HIGH = np.array([4.8, _LARGEST, 0.41887903, _LARGEST], dtype=np.float32)


def _observations() -> spaces.Box:
    return spaces.Box(-_HIGH, _HIGH, dtype=np.float32)


class CartPoleEnv(gymnasium.Env[Any, Any]):
    """Cart and pole: action 0 pushes to the left, 1 to the right, each step earns 1; 500 steps at most."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self.observation_space = _observations()
        self.action_space = spaces.Discrete(2)
        self._carts = _shardgraph.NativeCartPoles(1, "disabled")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; with a seed, the first one of that seed."""
        super().reset(seed=seed)
        if seed is not None:
            return self._carts.reset(seed)[0].copy(), {}
        return self._carts.reset_where(np.ones(1, dtype=bool))[0].copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One push."""
        observations, rewards, terminated, truncated = self._carts.step(np.array([action], dtype=np.int64))
        return observations[0].copy(), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}


class CartPoleVectorEnv(VectorEnv[Any, Any, Any]):
    """Carts side by side, all steps in native code; an episode that ended begins anew at the next step.

    With ``copy=False`` the arrays of a step are the same at each step, and the next one writes over them.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int = 1, *, copy: bool = True) -> None:
        self.num_envs, self.copy = num_envs, copy
        self.single_observation_space, self.single_action_space = _observations(), spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._carts = _shardgraph.NativeCartPoles(num_envs, "next-step")

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode everywhere; cart i has the key (seed, i)."""
        super().reset(seed=seed)
        if seed is None:
            observations = self._carts.reset_where(np.ones(self.num_envs, dtype=bool))
        else:
            observations = self._carts.reset(int(np.ravel(seed)[0]))
        return (observations.copy() if self.copy else observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A push of every cart."""
        arrays = self._carts.step(np.ascontiguousarray(actions, dtype=np.int64))
        observations, rewards, terminated, truncated = arrays
        if self.copy:
            return observations.copy(), rewards.copy(), terminated.copy(), truncated.copy(), {}
        return observations, rewards, terminated, truncated, {}


class GraphEnv(gymnasium.Env[Any, Any]):
    """A graph problem: each action puts a node in the answer, and the reward is the problem's.

    An observation has the ``adjacency`` (int8, [n, n]), ``in_answer`` and ``action_mask`` (int8, [n]). ``info`` has the mask too.
    An action that is no candidate changes nothing and earns 0; after 2 n steps the episode is truncated.

    :param problem: mvc, mis, clique, cut or dominating-set.
    :param graphs: a generator such as ``er:20:0.15``, drawn anew for each episode, or a graph.
    """

    metadata = {"render_modes": []}

    def __init__(self, problem: str = "mvc", graphs: str | Graph = "er:20:0.15") -> None:
        self.problem, self.graphs = problem, graphs
        n = (generate(graphs) if isinstance(graphs, str) else graphs).n_nodes
        self.n_nodes = n
        self.observation_space = spaces.Dict(
            {
                "adjacency": spaces.MultiBinary([n, n]),
                "in_answer": spaces.MultiBinary(n),
                "action_mask": spaces.MultiBinary(n),
            }
        )
        self.action_space = spaces.Discrete(n)

    def _observation(self) -> tuple[dict[str, NDArray[np.int8]], dict[str, Any]]:
        in_answer = np.zeros(self.n_nodes, dtype=np.int8)
        in_answer[self._episode.picks()] = 1
        mask = self._episode.candidates().astype(np.int8)
        observation = {"adjacency": self._adjacency.copy(), "in_answer": in_answer, "action_mask": mask}
        return observation, {"action_mask": mask}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draws a graph and begins an episode on it."""
        super().reset(seed=seed)
        if isinstance(self.graphs, str):
            self.graph = generate(self.graphs, seed=int(self.np_random.integers(2**63)))
        else:
            self.graph = self.graphs
        src, dst = self.graph.edge_index()
        self._adjacency = np.zeros((self.n_nodes, self.n_nodes), dtype=np.int8)
        self._adjacency[src, dst] = 1
        self._episode = _shardgraph.NativeEpisode(self.graph._native, self.problem)
        self._n_steps = 0
        return self._observation()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Puts a node in the answer."""
        self._n_steps += 1
        is_candidate = not self._episode.is_done and bool(self._episode.candidates()[action])
        reward = self._episode.pick(int(action)) if is_candidate else 0.0
        done = self._episode.is_done
        truncated = not done and self._n_steps >= 2 * self.n_nodes
        observation, info = self._observation()
        return observation, float(reward), done, truncated, info

    @property
    def answer(self) -> list[int]:
        """The nodes that were picked."""
        return self._episode.picks().tolist()


_PROBLEMS = {
    "VertexCover": "mvc",
    "IndependentSet": "mis",
    "Clique": "clique",
    "Cut": "cut",
    "DominatingSet": "dominating-set",
}
for _name, _problem in _PROBLEMS.items():
    gymnasium.register(
        f"shardgraph/{_name}-v0", entry_point="shardgraph.gym:GraphEnv", kwargs={"problem": _problem}
    )
gymnasium.register(
    "shardgraph/CartPole-v1",
    entry_point="shardgraph.gym:CartPoleEnv",
    vector_entry_point="shardgraph.gym:CartPoleVectorEnv",
)
