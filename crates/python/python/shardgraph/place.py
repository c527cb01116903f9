"""Placement of computation graphs on devices: files in, a checked plan out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shardgraph
from ._errors import CapacityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Baseline", "Device", "Plan", "device_map", "from_torch", "plan", "read"]

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{p}B": 1000 ** (i + 1) for i, p in enumerate("KMGT")} | {
    f"{p}iB": 1024 ** (i + 1) for i, p in enumerate("KMGT")
}


@dataclass(frozen=True)
class Device:
    """A device: its name, its memory (bytes, or text such as ``16GiB``; none is no limit), a factor of all op times."""

    name: str
    memory: int | str | None = None
    cost_factor: float = 1.0


@dataclass(frozen=True)
class Baseline:
    """A simple way to make a plan and what it costs, in seconds and bytes."""

    method: str
    makespan: float
    peak_bytes: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A checked schedule: ``device`` of each op, the ``order`` of the ops, seconds, bytes and what nothing can beat.

    ``bound`` is in seconds, or in bytes where memory was minimised. ``speedup`` is over the best single device.
    """

    objective: str
    device: NDArray[np.int64]
    order: NDArray[np.int64]
    makespan: float
    peak_bytes: NDArray[np.int64]
    bound: float
    fits: bool
    speedup: float | None
    evaluations: int
    baselines: list[Baseline]
    interrupted: bool
    _devices: list[Device] = field(repr=False)
    _modules: list[tuple[str, int]] = field(repr=False)
    _trace: str = field(repr=False)
    _svg: str = field(repr=False)

    def device_map(self) -> dict[str, str]:
        """The device of each module by its name, as deep as devices differ; "" is the whole model."""
        return {module: self._devices[device].name for module, device in self._modules}

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline for ui.perfetto.dev."""
        _write(path, self._trace)

    def to_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes the Gantt chart."""
        _write(path, self._svg)

    def _repr_html_(self) -> str:
        return self._svg


def _write(path: str | os.PathLike[str], text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(
    path: str | os.PathLike[str], *, format: str | None = None, open_dim: int = 1, index: int = 0
) -> _shardgraph.NativeCostGraph:
    """Reads an ONNX model, a CostGraphDef, PipeDream, MSR, STG or JSON-lines file.

    :param open_dim: the size of dimensions that an ONNX model leaves open.
    """
    return _shardgraph.NativeCostGraph.read(os.fspath(path), format, open_dim, index)


def _bytes(memory: int | str | None) -> int | None:
    if memory is None or isinstance(memory, int):
        return memory
    digits = memory.rstrip("BKMGTi ")
    unit = memory[len(digits) :].strip()
    try:
        return round(float(digits) * _UNITS[unit])
    except (KeyError, ValueError):
        raise ValueError(f"memory = {memory!r}: expected bytes or text such as '16GiB'") from None


def _number(device: int | str, names: Sequence[str]) -> int:
    if device in names:
        return names.index(str(device))
    if isinstance(device, int) and 0 <= device < len(names):
        return device
    raise ValueError(f"pins: no device {device!r}; they are {', '.join(names)}")


def plan(
    graph: _shardgraph.NativeCostGraph,
    devices: int | Sequence[Device] = 2,
    *,
    links: str = "pcie4",
    bandwidth_gbs: float | None = None,
    latency_ns: int | None = None,
    objective: str = "runtime",
    evaluations: int = 5000,
    time_limit: float | None = None,
    seed: int = 1,
    threads: int = 1,
    pins: Mapping[str, int | str] | None = None,
    together: Sequence[str] = (),
) -> Plan:
    """The best checked placement and schedule that a portfolio of searches and baselines finds.

    :param devices: a number of equal devices, or a list of :class:`Device`.
    :param links: what joins any two devices: ethernet100, pcie4, pcie5, nvlink4 or unlimited.
    :param bandwidth_gbs: GB/s in place of those of the links; so ``latency_ns``.
    :param objective: runtime, or memory for the smallest peak.
    :param pins: the number or name of a device for modules or ops by their names.
    :param together: names of modules whose ops share a device; ``layers.*`` is each layer by itself.
    """
    if not isinstance(graph, _shardgraph.NativeCostGraph):
        raise TypeError(f"graph is a {type(graph).__name__}: expected what place.read or place.from_torch gives")
    if isinstance(devices, int):
        devices = [Device(f"device {i}") for i in range(devices)]
    if isinstance(together, str):
        together = [together]
    names = [device.name for device in devices]
    pinned = [(name, _number(device, names)) for name, device in (pins or {}).items()]
    request = {
        "devices": [(device.name, _bytes(device.memory), device.cost_factor) for device in devices],
        "links": links,
        "bandwidth_gbs": bandwidth_gbs,
        "latency_ns": latency_ns,
        "objective": objective,
        "evaluations": evaluations,
        "seed": seed,
        "threads": threads,
        "time_limit": time_limit,
        "pins": pinned,
        "together": list(together),
    }
    found = _shardgraph.plan(graph, request)
    found.pop("value")
    found["bound"] = found["bound"] * 1e-9 if objective == "runtime" else float(found["bound"])
    found["baselines"] = [Baseline(*row) for row in found["baselines"]]
    private = {f"_{name}": found.pop(name) for name in ("modules", "trace", "svg")}
    return Plan(objective=objective, _devices=list(devices), **private, **found)


def device_map(
    model: Any,
    example_inputs: Any = None,
    max_memory: Mapping[Any, int | str | None] | None = None,
    *,
    objective: str = "memory",
    **options: Any,
) -> dict[str, Any]:
    """A device for each module, as accelerate's ``dispatch_model`` takes it.

    ``model`` is the path of an ONNX file, or what :func:`from_torch` takes.

    :param max_memory: bytes or text such as ``16GiB`` by device; two devices without a limit by default.
    """
    is_file = isinstance(model, (str, os.PathLike))
    graph = read(model) if is_file else from_torch(model, example_inputs)
    max_memory = {0: None, 1: None} if max_memory is None else max_memory
    devices = [Device(str(name), memory) for name, memory in max_memory.items()]
    made = plan(graph, devices, objective=objective, **options)
    if not made.fits:
        raise CapacityError(
            f"no plan fits the memories {max_memory}: the least peak found is {made.peak_bytes}"
        )
    modules = made.device_map()
    if not modules:
        raise ValueError(
            "no op has a module in its name, as in layer1.0.conv1/node_3: export with torch.onnx"
        )
    names = dict(zip((device.name for device in devices), max_memory))
    return {module: names[name] for module, name in modules.items()}


def from_torch(model: Any, example_inputs: Any = None) -> _shardgraph.NativeCostGraph:
    """The computation graph of a torch module, exported with ``example_inputs``, or of a ``torch.export.ExportedProgram``.

    Costs are estimates by the roofline of a V100; needs torch, onnx and onnxscript.
    """
    try:
        import torch
    except ImportError:
        raise ImportError(
            "a torch module needs torch, onnx and onnxscript: give the path of an ONNX file"
        ) from None
    if isinstance(model, torch.export.ExportedProgram):
        inputs = ()
    elif example_inputs is None:
        raise ValueError("example_inputs: a torch module is exported with a tensor or a tuple")
    else:
        inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, inputs, path, dynamo=True, verbose=False)
        return read(path)
