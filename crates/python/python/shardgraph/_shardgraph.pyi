"""The native module: arrays in, one call of the Rust libraries without the GIL, arrays out."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

@final
class NativeGraph:
    """An undirected simple graph in compressed sparse rows."""

    n_nodes: int
    n_edges: int
    has_weights: bool
    @staticmethod
    def from_edges(
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        n_nodes: int | None,
    ) -> NativeGraph:
        """A graph from arrays of ends, with ids from 0."""
    @staticmethod
    def from_symmetric_rows(
        offsets: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.float32] | None
    ) -> NativeGraph | None:
        """A graph from rows that are simple and symmetric, with one copy; nothing for other rows."""
    @staticmethod
    def from_csr(
        offsets: NDArray[np.int64], columns: NDArray[np.int64], weights: NDArray[np.float64] | None
    ) -> NativeGraph:
        """A graph from compressed sparse rows."""
    @staticmethod
    def read(
        path: str, format: str | None, weighted: bool, max_nodes: int | None, index: int | None
    ) -> NativeGraph:
        """A graph of a file."""
    @staticmethod
    def generate(specification: str, seed: int) -> NativeGraph:
        """A built-in graph by its name, or a random graph of a model by its specification."""
    def write(self, path: str, format: str | None) -> str:
        """Writes a graph file; the lines that say what the format could not hold."""
    def complement(self) -> NativeGraph:
        """The graph of the edges that this one lacks."""
    def counts(self) -> dict[str, Any]:
        """The counts of reading, and the lines of a file's report."""
    def degrees(self) -> NDArray[np.int64]:
        """Degrees, by node."""
    def csr(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
        """Row pointers, columns and, where there are any, weights."""
    def labels(self, nodes: NDArray[np.int64]) -> list[str] | None:
        """The names of some nodes in their file; absent for a graph without a file."""
    def __eq__(self, value: object, /) -> bool: ...

@final
class NativeTriples:
    """A relational graph with the inverse of each edge."""

    def __new__(
        cls,
        n_nodes: int,
        n_relations: int,
        heads: NDArray[np.uint32],
        relations: NDArray[np.uint32],
        tails: NDArray[np.uint32],
    ) -> NativeTriples: ...
    def train(
        self,
        folder: str,
        nodes: NDArray[np.uint32],
        classes: NDArray[np.uint32],
        config: str,
        ranks: int,
    ) -> list[float]:
        """Trains a model into a folder; the loss of each epoch."""
    def predict(self, folder: str, nodes: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The likeliest class of each node by the model in a folder."""
    def predict_probabilities(
        self, folder: str, nodes: NDArray[np.uint32], n_classes: int
    ) -> NDArray[np.float64]:
        """The probability of each class of each node by the model in a folder, [nodes, classes]."""

@final
class NativeLinks:
    """Triples to learn from, to choose by and to test on."""

    def __new__(
        cls,
        shape: tuple[int, int],
        heads: NDArray[np.uint32],
        relations: NDArray[np.uint32],
        tails: NDArray[np.uint32],
        n_train: int,
        n_valid: int,
    ) -> NativeLinks: ...
    def train(self, folder: str, settings: str, ranks: int) -> dict[str, Any]:
        """Trains a model into a folder; settings that differ from the defaults are JSON."""
    def rank(self, folder: str) -> tuple[dict[str, float], dict[str, float]] | None:
        """The scores of the test triples by the model of a folder, filtered and raw; absent without triples to test on."""
    def complete(
        self, folder: str, questions: NDArray[np.uint32], is_head: bool, n_best: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The nodes of the highest scores at the other end of each question, and their scores, [n, n_best] each."""

@final
class NativeCostGraph:
    """A computation graph."""

    n_ops: int
    n_tensors: int
    warnings: list[str]
    @staticmethod
    def read(path: str, format: str | None, open_dim: int, index: int) -> NativeCostGraph:
        """Reads an ONNX model, a CostGraphDef or another format of computation graphs."""
    def op_names(self) -> list[str]:
        """The names of all ops."""

def solve(
    graph: NativeGraph, problem: str, weights: NDArray[np.uint32] | None, request: dict[str, Any]
) -> dict[str, Any]:
    """Finds an answer; a dictionary of what ``Solution`` shows."""

def check(graph: NativeGraph, problem: str, nodes: NDArray[np.int64]) -> float:
    """The objective of an answer after the problem's check."""

def minimize(
    decode: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    n_keys: int,
    config: str,
    starts: NDArray[np.float64] | None,
    callback: Callable[[NDArray[np.float64], float], object] | None,
) -> dict[str, Any]:
    """Minimises a Python function of random keys."""

def train(
    config: str,
    out: str,
    folder: str | None,
    resume: bool,
    ranks: int,
    callback: Callable[[dict[str, Any]], object] | None,
) -> dict[str, Any]:
    """Trains a policy and writes it; the settings are JSON with the names of the command line."""

def embed(graph: NativeGraph, config: str, parts: int | None) -> NDArray[np.float32]:
    """Trains an embedding; float32 of shape [n_nodes, columns]."""

def plan(graph: NativeCostGraph, request: dict[str, Any]) -> dict[str, Any]:
    """Makes a plan; a dictionary of what ``Plan`` shows."""

def environments() -> list[tuple[str, str, str]]:
    """Name, description and options of every environment that comes with the program."""

@final
class NativeVector:
    """Copies of an environment; the arrays of a step are the same at each step."""

    @staticmethod
    def named(name: str, options: str, n_environments: int, autoreset: str) -> NativeVector:
        """Copies of an environment of a name, with its options as JSON."""
    @staticmethod
    def of_graphs(
        problem: str, graphs: str | NativeGraph, n_environments: int, autoreset: str
    ) -> NativeVector:
        """Episodes of a graph problem on one graph, or each on its own graph of a generator."""
    def set_threads(self, n_threads: int) -> None:
        """Lets threads share the steps; their number changes no bit."""
    def spaces(self) -> tuple[str, str]:
        """The spaces of an observation and of an action, as JSON."""
    def reset(self, seed: int) -> NDArray[np.float32]:
        """Begins an episode everywhere; the observations."""
    def reset_where(self, marks: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Begins the next episode of the marked environments; the observations."""
    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """A step of every environment by numbers of discrete actions."""
    def step_continuous(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """A step of every environment by the elements of boxes."""
    def action_mask(self) -> NDArray[np.bool_] | None:
        """A mark for each action that may be taken; absent where all always may."""
    def final_observation(self, index: int) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None] | None:
        """The last observation of the episode that ended within the last step (same-step only), and its mask where there are any."""
    def graph(self, index: int) -> NativeGraph:
        """The graph of an environment's episode (graph problems only)."""
    def picks(self, index: int) -> NDArray[np.int64]:
        """The picked nodes of an environment's episode, in order (graph problems only)."""

@final
class NativeCartPole:
    """One cart with a pole, whose episodes begin in a state that the caller draws."""

    def __new__(cls) -> NativeCartPole: ...
    def reset(self, motion: list[float]) -> NDArray[np.float32]:
        """Begins an episode in a state: position, velocity, angle, angular velocity; the observation."""
    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool]:
        """A push; the observation, the reward, and whether the episode ended or was cut."""

@final
class NativeAgent:
    """A trained agent."""

    @staticmethod
    def load(folder: str, make: Callable[[int], Any] | None) -> NativeAgent:
        """The agent of a run's folder."""
    def config(self) -> str:
        """The settings, as JSON."""
    def begin_episodes(self, n_environments: int) -> None:
        """Forgets what it remembers: the next rows are the first of episodes in so many environments."""
    def act(
        self, observations: NDArray[np.float32], mask: NDArray[np.bool_] | None, is_sampled: bool
    ) -> NDArray[Any]:
        """An action for each row: of the largest value or the likeliest, or drawn as training draws them."""
    def evaluate(self, n_episodes: int, seed: int, is_sampled: bool) -> NDArray[np.float32]:
        """The returns of episodes that are played with its weights as they are."""
    def weights(self) -> NDArray[np.float32]:
        """The trained weights, one parameter behind the other."""
    def weights_hash(self) -> str:
        """A hash of the weights' bits."""
    def export(self, path: str) -> None:
        """Writes the weights as a safetensors file."""

def train_agent(
    request: dict[str, Any],
    make: Callable[[int], Any] | None,
    callback: Callable[[dict[str, Any]], object] | None,
) -> tuple[NativeAgent, dict[str, Any]]:
    """Trains an agent; it, and a dictionary of what the run was like."""

def agent_settings() -> list[tuple[str, str]]:
    """Names of the settings that come with the program, and what they are for."""

@final
class NativeNetwork:
    """A network of agents with its parameters."""

    def __new__(cls, kind: str, spaces: tuple[str, str], shape: str, seed: int) -> NativeNetwork: ...
    @property
    def n_inputs(self) -> int:
        """Numbers in an observation."""
    def apply(self, rows: NDArray[np.float32]) -> list[tuple[NDArray[np.float32], int]]:
        """The outputs for rows of floats: values and their number of columns."""
    def gradient(self, rows: NDArray[np.float32], factors: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The derivatives by all parameters of the outputs' sum, each element times its factor."""
    def parameters(self) -> list[tuple[str, int, int]]:
        """Names and shapes of the parameters, in the order of ``values``."""
    def values(self) -> NDArray[np.float32]:
        """All parameters, one behind the other."""
    def set_values(self, values: NDArray[np.float32]) -> None:
        """Replaces all parameters."""

@final
class NativeReplay:
    """A memory of rows; columns are flat arrays, row after row."""

    def __new__(
        cls, columns: list[tuple[str, str, int]], capacity: int, alpha: float | None, seed: int
    ) -> NativeReplay: ...
    def __len__(self) -> int: ...
    def insert(
        self, n_rows: int, columns: list[NDArray[Any]], td_errors: NDArray[np.float32] | None
    ) -> NDArray[np.uint64]:
        """Inserts rows in their order; their numbers."""
    def sample(
        self, n_rows: int, beta: float
    ) -> tuple[list[NDArray[Any]], NDArray[np.uint64], NDArray[np.float32]]:
        """Draws rows with replacement: columns, numbers and importance weights."""
    def update(self, ids: NDArray[np.uint64], td_errors: NDArray[np.float32]) -> int:
        """Gives rows the priorities of new TD errors; the number of rows that were still there."""

def run_command(arguments: list[str]) -> int:
    """Runs the ``shardgraph`` command of these arguments, the program's name first; its exit code."""
