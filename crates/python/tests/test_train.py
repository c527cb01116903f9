"""Training: one seed gives one policy for any ranks, callbacks end it, interrupts do."""

import subprocess
import sys

import pytest
import shardgraph


def test_a_trained_policy_solves(tmp_path):
    seen = []
    options = {"steps": 40, "batch_size": 4, "graphs": "er:12:0.3"}
    run = shardgraph.train("mvc", out=tmp_path / "p.safetensors", callback=seen.append, **options)
    assert [report["step"] for report in seen] == list(range(1, 41)) and len(run.losses) == 40
    again = shardgraph.train("mvc", out=tmp_path / "q.safetensors", ranks=2, run=tmp_path / "run", **options)
    assert again.params_hash == run.params_hash and (tmp_path / "run" / "metrics.jsonl").exists()
    assert (tmp_path / "p.safetensors").read_bytes() == (tmp_path / "q.safetensors").read_bytes()
    graph = shardgraph.generate("er:40:0.2")
    shardgraph.min_vertex_cover(graph, model=run.policy, method="policy").verify()
    with pytest.raises(ValueError, match="`mis`, not `cut`"):
        shardgraph.max_cut(graph, model=run.policy)


def test_wrong_settings_and_callbacks_end_a_training(tmp_path):
    def stop(report):
        raise LookupError(report["step"])

    for ranks in (1, 2):
        with pytest.raises(LookupError, match="1"):
            shardgraph.train("mvc", out=tmp_path / "p", steps=10**6, ranks=ranks, callback=stop)
    for settings, words in [
        ({"rate": 1}, "unknown field"),
        ({"batch_size": 0}, "batch_size"),
        ({"problem": "tsp"}, "tsp"),
    ]:
        with pytest.raises(ValueError, match=words):
            shardgraph.train(out=tmp_path / "p", **settings)
    assert not (tmp_path / "p").exists()


INTERRUPT = """
import os, signal, sys, threading, time
import shardgraph
from shardgraph import agents
from shardgraph.embed import Line
from shardgraph.relational import RelationalClassifier, RelationalLinks, Triples
import numpy as np
jobs = {
    "train": lambda: shardgraph.train(out="/dev/null", steps=10**7, ranks=2),
    "line": lambda: Line(32, epochs=10**6).fit(shardgraph.generate("er:2000:0.01")),
    "rgcn": lambda: RelationalClassifier(
        Triples(np.arange(500), np.zeros(500, int), np.arange(500) + 500), epochs=10**6
    ).fit(np.arange(100), np.arange(100) % 2),
    "links": lambda: RelationalLinks(epochs=10**6, width=64).fit(
        Triples(np.arange(500), np.zeros(500, int), (np.arange(500) + 1) % 500)
    ),
    "dqn": lambda: agents.train("cartpole-dqn", steps=10**9),
    "impala": lambda: agents.train("cartpole-impala", steps=10**9),
}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
sent = []
def fire():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.7, fire).start()
try:
    jobs[sys.argv[1]]()
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SKIPPED: no SIGINT")
@pytest.mark.parametrize("job", ["train", "line", "rgcn", "links", "dqn", "impala"])
def test_ctrl_c_ends_a_training(job):
    command = [sys.executable, "-c", INTERRUPT, job]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert 0 < float(out) < 5
