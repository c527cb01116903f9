"""One epoch of PyKEEN's ComplEx against all nodes (LCWA with inverse triples), Adagrad at 0.1: one JSON object.

The argument is a JSON object: file (a .tar.gz with train.txt, or the triples themselves, with tabs between), dim (real numbers of a node's vector),
batch (questions of a step), threads. The rate and the loss are those of our default; N3 is left out, which only favours the peer. Without PyKEEN the
object says so. Only the time is measured: nothing is ranked.
"""

import json
import logging
import sys
import tarfile
import time


def triples_of(path):
    if not path.endswith((".tar.gz", ".tgz")):
        with open(path, encoding="utf-8") as lines:
            return [line.rstrip("\n").split("\t") for line in lines if line.strip()]
    with tarfile.open(path) as archive:
        name = next(name for name in archive.getnames() if name.rsplit("/", 1)[-1] == "train.txt")
        return [line.decode().rstrip("\n").split("\t") for line in archive.extractfile(name) if line.strip()]


def main():
    request = json.loads(sys.argv[1])
    try:
        import numpy
        import torch
        from pykeen.models import ComplEx
        from pykeen.training import LCWATrainingLoop
        from pykeen.triples import TriplesFactory
    except ImportError as missing:
        print(json.dumps({"peer": "PyKEEN's ComplEx", "not_run": str(missing)}))
        return
    from importlib.metadata import version

    logging.disable(logging.WARNING)
    torch.set_num_threads(request["threads"])
    triples = numpy.array(triples_of(request["file"]), dtype=str)
    factory = TriplesFactory.from_labeled_triples(triples, create_inverse_triples=True)
    model = ComplEx(
        triples_factory=factory, embedding_dim=request["dim"] // 2, loss="crossentropy", regularizer=None, random_seed=1
    )
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
    begin = time.monotonic()
    loop.train(triples_factory=factory, num_epochs=1, batch_size=request["batch"], use_tqdm=False)
    seconds = time.monotonic() - begin
    print(json.dumps({"peer": f"PyKEEN {version('pykeen')}, torch {torch.__version__}: ComplEx", "epoch_seconds": seconds}))


if __name__ == "__main__":
    main()
