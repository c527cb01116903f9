"""The command of the wheel: the bytes, answers and exit codes of cargo's."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = pathlib.Path(sys.executable).parent / ("shardgraph.exe" if os.name == "nt" else "shardgraph")


def ran(program, arguments, folder):
    command = [str(program), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def without_times(value):
    """An answer without what a clock says, and without the names of files."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not k.endswith(("seconds", "_per_second", "_s"))}
    return [without_times(v) for v in value] if isinstance(value, list) else value


@pytest.fixture
def both(binary, tmp_path):
    """Runs a command twice, by the wheel's script and by cargo's binary, each in a folder of its own."""

    def run(*arguments):
        outcomes = []
        for name, program in (("wheel", SCRIPT), ("cargo", binary)):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            outcome = ran(program, arguments, folder)
            outcomes.append((outcome.returncode, outcome.stdout, outcome.stderr, folder))
        return outcomes

    return run


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ("generate er:300:0.05 --seed 3 --out g.mtx.gz", "g.mtx.gz"),
        ("embed karate --dim 8 --epochs 20 --seed 3 --out e.npy", "e.npy"),
        ("train --graphs er:12:0.3 --steps 20 --run run", "run/policy.safetensors"),
        ("convert karate karate.col", "karate.col"),
    ],
)
def test_files_have_the_binarys_bytes(both, arguments, file):
    wheel, cargo = both(*arguments.split())
    assert wheel[0] == cargo[0] == 0, wheel[2] + cargo[2]
    assert (wheel[3] / file).read_bytes() == (cargo[3] / file).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        "solve er:80:0.1 --seed 2 --local-search-steps 2000 --format json",
        "solve karate --problem clique --format json",
        "eval karate --local-search-steps 100 --format json",
        "agent train cartpole-ppo --steps 2000 --format json",
        "place costgraph:1 --devices 2 --evaluations 200 --format json",
    ],
)
def test_answers_are_the_binarys(both, arguments):
    wheel, cargo = both(*arguments.split())
    assert wheel[0] == cargo[0] == 0, wheel[2] + cargo[2]
    found = [without_times(json.loads(outcome[1])) for outcome in (wheel, cargo)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("--help", 0), ("--version", 0), ("solve --help", 0), ("solve absent.mtx", 2), ("slove karate", 2), ("solve karate --threads 0", 2)],
)
def test_words_and_exit_codes_are_the_binarys(both, arguments, code):
    wheel, cargo = both(*arguments.split())
    assert wheel[:3] == cargo[:3] and wheel[0] == code


def test_a_module_is_the_command_too(tmp_path):
    outcome = ran(sys.executable, ["-m", "shardgraph", "solve", "petersen", "--format", "json"], tmp_path)
    assert outcome.returncode == 0 and json.loads(outcome.stdout)["answers"][0]["objective"] == 6


@pytest.mark.skipif(os.name == "nt", reason="SKIPPED: no SIGINT")
def test_an_interrupt_ends_the_command_with_its_best_answer(tmp_path):
    command = [str(SCRIPT), "solve", "er:3000:0.01", "--time-limit", "60s", "--format", "json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted" in err, err
    assert json.loads(out)["answers"][0]["objective"] > 0
