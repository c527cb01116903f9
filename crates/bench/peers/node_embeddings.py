"""Node embeddings of other packages, for `cargo xtask repro line link-prediction`.

    node_embeddings.py check NAME
    node_embeddings.py NAME EDGES OUT DIM THREADS

NAME is `deepwalk` (gensim's Word2Vec over random walks), `ensmallen-line1`, `ensmallen-line2` or
`ensmallen-skipgram`. EDGES has `u v 1` a line, in both directions; OUT gets word2vec's text form.
`check` prints the version of the package, or ends with 3 and says that it is absent.
"""

import random
import sys


def read(path):
    neighbors = {}
    with open(path) as lines:
        for line in lines:
            u, v, _ = line.split()
            neighbors.setdefault(u, []).append(v)
    return neighbors


def write(path, names, rows):
    with open(path, "w") as out:
        out.write(f"{len(names)} {len(rows[0])}\n")
        for name, row in zip(names, rows):
            out.write(name + " " + " ".join(f"{x:.7g}" for x in row) + "\n")


def deepwalk(edges, dim, threads):
    """DeepWalk's walks of 40 nodes, 10 a node, and its window of 10 (Perozzi et al., 2014)."""
    from gensim.models import Word2Vec

    neighbors = read(edges)
    draw = random.Random(1)
    walks = []
    nodes = list(neighbors)
    for _ in range(10):
        draw.shuffle(nodes)
        for node in nodes:
            walk = [node]
            while len(walk) < 40:
                walk.append(draw.choice(neighbors[walk[-1]]))
            walks.append(walk)
    model = Word2Vec(
        walks, vector_size=dim, window=10, min_count=0, sg=1, hs=0, negative=5, workers=threads,
        epochs=1, seed=1,
    )
    return nodes, [model.wv[node] for node in nodes]


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
    return graph.get_node_names(), rows


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
    name, edges, out, dim, threads = words
    if name == "deepwalk":
        names, rows = deepwalk(edges, int(dim), int(threads))
    else:
        names, rows = ensmallen(name, edges, int(dim))
    write(out, names, rows)


main(sys.argv[1:])
