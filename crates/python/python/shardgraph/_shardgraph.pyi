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

def evaluate(graph: NativeGraph, problem: str, nodes: NDArray[np.int64]) -> float:
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

@final
class NativeCartPoles:
    """Carts with poles; the arrays of a step are the same at each step."""

    def __new__(cls, n_environments: int, autoreset: str) -> NativeCartPoles: ...
    def reset(self, seed: int) -> NDArray[np.float32]:
        """Begins an episode everywhere; the observations."""
    def reset_where(self, marks: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Begins the next episode of the marked carts; the observations."""
    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """A step of every cart."""

@final
class NativeEpisode:
    """An episode of a graph problem."""

    is_done: bool
    def __new__(cls, graph: NativeGraph, problem: str) -> NativeEpisode: ...
    def pick(self, node: int) -> float:
        """Puts a candidate in the answer; the reward."""
    def candidates(self) -> NDArray[np.bool_]:
        """A mark for each node that may be picked."""
    def picks(self) -> NDArray[np.int64]:
        """The picked nodes, in order."""
