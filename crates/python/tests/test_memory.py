"""Memory that stays: no function of the package keeps what it was given or what it made."""

import importlib
import json
import pathlib
import subprocess
import sys

import _nx_shardgraph
import pytest
import shardgraph

SCRIPT = pathlib.Path(__file__).with_name("memory_calls.py")
# Of cheap functions all are made; of a run of a search or of a training as many as fit into the seconds.
N_CALLS = 10_000
SECONDS_OF_DEAR = 0.2
MAX_GROWTH = 1 << 20
# Errors and answers, which come with a function's calls; what needs torch.
NO_CALLS = {
    *("CapacityError", "Evaluation", "ReadError", "Reading", "Run", "Stage", "__version__"),
    *("agents.Run", "place.Baseline", "place.Device", "place.Plan", "place.from_torch"),
    *("networkx.BackendGraph", "networkx.BackendInterface"),
}


def listed():
    out = subprocess.run([sys.executable, SCRIPT], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def test_every_public_function_is_in_the_list():
    names = {f"networkx.{name}" for name in _nx_shardgraph.get_info()["functions"]}
    names |= set(shardgraph.__all__)
    for module in shardgraph._SUBMODULES:
        public = importlib.import_module(f"shardgraph.{module}")
        names |= {f"{module}.{name}" for name in public.__all__}
    calls = listed()
    assert names - NO_CALLS <= {*calls["cheap"], *calls["dear"]}


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="SKIPPED: no /proc/self/statm")
@pytest.mark.parametrize("kind", ["cheap", "dear"])
def test_calls_keep_memory_flat(kind, record_property):
    names = listed()[kind]
    request = {"names": names, "n_calls": N_CALLS, "seconds": 0 if kind == "cheap" else SECONDS_OF_DEAR}
    command = [sys.executable, SCRIPT, json.dumps(request)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    rows = [line.split("\t") for line in out.splitlines()]
    calls = [f"{name} {n}" for name, n, _, _ in rows if int(n) < N_CALLS]
    record_property("summary", f"memory of {kind} calls: {N_CALLS} each but {', '.join(calls) or 'none'}")
    assert [name for name, *_ in rows] == names
    assert all(int(growth) < MAX_GROWTH for _, _, growth, _ in rows), out
