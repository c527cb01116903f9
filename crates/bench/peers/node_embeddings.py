"""Node embeddings of other packages, for `cargo xtask repro line link-prediction`.

    node_embeddings.py check NAME
    node_embeddings.py NAME EDGES OUT DIM THREADS SECONDS

NAME is `deepwalk` (gensim's Word2Vec over random walks), `ensmallen-line1`, `ensmallen-line2` or
`ensmallen-skipgram`. EDGES has `u v 1` a line, in both directions; OUT gets word2vec's text form,
and OUT.note a line about the run. `check` prints the version of the package, or ends with 3 and
says that it is absent. Of SECONDS, which count from the start, DeepWalk fits its walks into 0.7.
"""

import sys
import time

BEGAN = time.monotonic()

#: DeepWalk's settings (Perozzi et al., 2014): nodes of a walk, window, walks a node at most.
WALK, WINDOW, MOST_WALKS = 40, 10, 80


def write(path, names, rows):
    with open(path, "w") as out:
        out.write(f"{len(names)} {len(rows[0])}\n")
        for name, row in zip(names, rows):
            out.write(f"{name} " + " ".join(f"{x:.7g}" for x in row) + "\n")


class Walker:
    """Random walks over the edges of a file, one from each node that has an edge."""

    def __init__(self, edges):
        import numpy as np

        ends = np.loadtxt(edges, dtype=np.int64, usecols=(0, 1), ndmin=2)
        ends = ends[np.argsort(ends[:, 0], kind="stable")]
        self.neighbors = ends[:, 1]
        self.degrees = np.bincount(ends[:, 0])
        self.first = np.concatenate([[0], np.cumsum(self.degrees)])[:-1]
        self.nodes = np.flatnonzero(self.degrees)
        self.rng = np.random.default_rng(1)

    def walks(self):
        """Yields a walk from each node, in a random order."""
        import numpy as np

        at = self.rng.permutation(self.nodes)
        steps = [at]
        while len(steps) < WALK:
            draw = (self.rng.random(len(at)) * self.degrees[at]).astype(np.int64)
            at = self.neighbors[self.first[at] + draw]
            steps.append(at)
        for walk in np.stack(steps, axis=1).astype(str):
            yield walk.tolist()


def deepwalk(edges, dim, threads, seconds):
    """DeepWalk with as many walks as fit: the first one of each node shows what a walk takes."""
    from gensim.models import Word2Vec

    walker = Walker(edges)
    model = Word2Vec(
        vector_size=dim, window=WINDOW, min_count=0, sg=1, hs=0, negative=5, workers=threads, seed=1,
    )
    counts = {str(node): int(walker.degrees[node]) for node in walker.nodes}
    model.build_vocab_from_freq(counts)

    def train(n_walks, rates):
        walks = (walk for _ in range(n_walks) for walk in walker.walks())
        model.train(
            walks, total_examples=n_walks * len(counts), epochs=1, start_alpha=rates[0],
            end_alpha=rates[1],
        )

    began = time.monotonic()
    train(1, (0.025, 0.025))
    ended = time.monotonic()
    fitting = int((0.7 * seconds - (ended - BEGAN)) / (ended - began))
    n_walks = 1 + max(0, min(fitting, MOST_WALKS - 1))
    if n_walks > 1:
        train(n_walks - 1, (0.025, 0.0001))
    return list(counts), [model.wv[node] for node in counts], f"{n_walks} walks a node"


def ensmallen(name, edges, dim):
    """The models of ensmallen with the settings that it has by itself."""
    from ensmallen import Graph, models

    graph = Graph.from_csv(
        edge_path=edges, edge_list_separator=" ", edge_list_header=False,
        sources_column_number=0, destinations_column_number=1, directed=False,
        edge_list_is_complete=True, numeric_node_ids=False, name="peer",
    )
    model = {
        "ensmallen-line1": models.FirstOrderLINE,
        "ensmallen-line2": models.SecondOrderLINE,
        "ensmallen-skipgram": models.SkipGram,
    }[name]
    rows = model(embedding_size=dim, random_state=1, verbose=False).fit_transform(graph)
    if isinstance(rows, (list, tuple)):
        rows = rows[0]
    return graph.get_node_names(), rows, ""


def check(name):
    package = "gensim" if name == "deepwalk" else "ensmallen"
    try:
        from importlib.metadata import version

        __import__(package)
        print(package, version(package))
    except Exception as error:
        print(f"no {package} ({type(error).__name__})")
        sys.exit(3)


def main(words):
    if words[0] == "check":
        return check(words[1])
    name, edges, out, dim, threads, seconds = words
    if name == "deepwalk":
        names, rows, note = deepwalk(edges, int(dim), int(threads), float(seconds))
    else:
        names, rows, note = ensmallen(name, edges, int(dim))
    write(out, names, rows)
    with open(out + ".note", "w") as file:
        file.write(note + "\n")


main(sys.argv[1:])
