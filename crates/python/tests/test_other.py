"""Embedding, relational graphs, placement, the genetic algorithm, import."""

import json
import subprocess
import sys

import numpy as np
import pytest
import shardgraph
from shardgraph import CapacityError, ReadError, brkga, generate, place
from shardgraph.embed import Line
from shardgraph.relational import RelationalClassifier, RelationalLinks, Triples
from sklearn.utils.estimator_checks import parametrize_with_checks


def test_line_has_the_binarys_bits_for_any_number_of_threads(binary, tmp_path):
    karate = generate("karate")
    line = Line(n_components=8, epochs=20, random_state=3).fit(karate)
    assert line.embedding_.shape == (34, 16) and line.embedding_.dtype == np.float32
    assert np.array_equal(
        line.embedding_, Line(8, epochs=20, random_state=3, n_jobs=3).fit_transform(karate.to_scipy())
    )
    command = [
        binary,
        "embed",
        "karate",
        "--dim",
        "8",
        "--epochs",
        "20",
        "--seed",
        "3",
        "--preset",
        "line",
        "--out",
        str(tmp_path / "e.npy"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert np.array_equal(np.load(tmp_path / "e.npy"), line.embedding_)
    one = [
        Line(8, order=order, epochs=20, random_state=3).fit(karate).embedding_
        for order in ("first", "second")
    ]
    assert np.array_equal(np.hstack(one), line.embedding_)
    nearest, cosines = line.nearest(0, k=5)
    assert len(nearest) == 5 and 0 not in nearest and np.all(np.diff(cosines) <= 0)
    assert np.allclose(line.score_links([0] * 5, nearest), cosines)
    line.save(tmp_path / "l.npy")
    assert np.array_equal(Line().load(tmp_path / "l.npy").embedding_, line.embedding_)


@parametrize_with_checks([Line(n_components=4, epochs=2)])
def test_line_is_an_estimator(estimator, check):
    check(estimator)


def test_line_refuses_settings_in_a_sentence():
    with pytest.raises(ValueError, match="dim = 0"):
        Line(n_components=0).fit(generate("karate"))
    with pytest.raises(ValueError, match="order|third"):
        Line(order="third").fit(generate("karate"))
    with pytest.raises(ValueError, match="node 40 does not exist"):
        Line(4, epochs=1).fit(generate("karate")).nearest(40)
    with pytest.raises(ValueError, match="k is 0"):
        Line(4, epochs=1).fit(generate("karate")).nearest(1, k=0)


def test_a_relational_classifier_learns_what_relations_say():
    generator = np.random.default_rng(1)
    kind = generator.integers(0, 3, 60)
    items, tags = np.arange(60), 60 + kind
    triples = Triples(items, np.zeros(60, dtype=np.int64), tags)
    model = RelationalClassifier(triples, epochs=60, random_state=1)
    names = np.array(["red", "green", "blue"])[kind]
    model.fit(items[:30], names[:30])
    assert (model.predict(items[30:]) == names[30:]).mean() > 0.9
    assert model.loss_curve_[-1] < model.loss_curve_[0] and model.score(items[30:], names[30:]) > 0.9
    chances = model.predict_proba(items[30:])
    assert chances.shape == (30, 3) and np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(model.classes_[chances.argmax(axis=1)], model.predict(items[30:]))
    again = RelationalClassifier(triples, epochs=60, random_state=1, ranks=2).fit(items[:30], names[:30])
    assert again.loss_curve_ == model.loss_curve_
    for wrong, words in [((items[:3], names[:2]), "one class a node"), (([99], ["red"]), "2 or more")]:
        with pytest.raises(ValueError, match=words):
            model.fit(*wrong)
    with pytest.raises(ValueError, match="expected 0 to"):
        Triples([-1], [0], [1])
    with pytest.raises(ValueError, match="1 heads, 1 relations and 2 tails"):
        Triples([0], [0], [1, 2])


def families():
    """Triples of 20 families: two parents, three children; relation 1 is the inverse of relation 0."""
    parents = np.repeat(np.arange(40), 3)
    children = 40 + parents // 2 * 3 + np.tile(np.arange(3), 40)
    down, up = np.zeros(120, dtype=int), np.ones(120, dtype=int)
    return np.r_[parents, children], np.r_[down, up], np.r_[children, parents]


@pytest.mark.parametrize(
    "options",
    [
        {"width": 32, "epochs": 40},
        {"encoder": "rgcn", "width": 32, "epochs": 60, "settings": {"encoder": {"hidden": [32], "blocks": 4, "embedding": 32}}},
    ],
)
def test_links_are_ranked_by_what_was_learnt(options, tmp_path):
    heads, relations, tails = families()
    order = np.random.default_rng(3).permutation(240)
    parts = [Triples(heads[ids], relations[ids], tails[ids], 100, 2) for ids in np.split(order, [200, 220])]
    train, valid, test = parts
    model = RelationalLinks(**options).fit(train, valid=valid)
    scores = model.evaluate(test)
    assert scores["n_ranks"] == 40 and scores["mrr"] > 0.3 and scores["hits@1"] <= scores["hits@10"] <= 1
    assert model.evaluate(test, filtered=False)["mrr"] <= scores["mrr"]
    nodes, values = model.complete(head=0, relation=0, k=5)
    assert len(nodes) == 5 and np.all(np.diff(values) <= 0) and {40, 41, 42} & set(nodes.tolist())
    again = RelationalLinks(**options).fit(train, valid=valid)
    assert again.evaluate(test) == scores and again.loss_curve_ == model.loss_curve_


def test_links_refuse_settings_in_a_sentence():
    ring = Triples(np.arange(6), np.zeros(6, dtype=int), (np.arange(6) + 1) % 6)
    for options, words in [({"encoder": "gcn"}, "rgcn"), ({"decoder": "sum"}, "distmult|complex"), ({"width": 0}, "width")]:
        with pytest.raises(ValueError, match=words):
            RelationalLinks(**options).fit(ring)
    model = RelationalLinks(width=4, epochs=1).fit(ring)
    with pytest.raises(ValueError, match="either head or tail"):
        model.complete(relation=0)
    with pytest.raises(ValueError, match="expected ones below 6 and 1"):
        model.complete(relation=3, head=0)


@pytest.fixture
def place_file(tmp_path):
    path = tmp_path / "fan.jsonl"
    ops = [[0, "Op", 10 + i, 0, 0] for i in range(8)]
    tensors = [[i, 64, -1, [7]] for i in range(7)]
    names = [f"block{i % 2}.layer{i}/op" for i in range(8)]
    path.write_text(json.dumps({"name": "fan", "ops": ops, "tensors": tensors, "names": names}) + "\n")
    return path


def test_a_plan_is_feasible_and_no_worse_than_its_baselines(place_file):
    graph = place.read(place_file)
    made = place.plan(graph, 2, evaluations=500)
    assert made.device.shape == (graph.n_ops,) and sorted(made.order) == list(range(graph.n_ops))
    assert made.fits and made.makespan >= made.bound > 0 and made.peak_bytes.shape == (2,)
    assert all(made.makespan <= row.makespan for row in made.baselines) and made.speedup >= 1
    assert place.plan(graph, 2, links="unlimited").makespan < made.makespan
    assert "<svg" in made._repr_html_()
    again = place.plan(graph, 2, evaluations=500, threads=2)
    assert np.array_equal(again.device, made.device)
    small = place.plan(
        graph,
        [place.Device("gpu", "1GiB"), place.Device("cpu", None, 4.0)],
        objective="memory",
        evaluations=200,
    )
    assert small.fits and small.bound > 0
    devices = made.device_map()
    assert devices and set(devices.values()) <= {"device 0", "device 1"}
    assert set(place.device_map(place_file, None, {0: "1GiB", "cpu": None}).values()) <= {0, "cpu"}
    with pytest.raises(CapacityError, match="no plan fits"):
        place.device_map(place_file, None, {0: 1, 1: 1})


def test_modules_stay_together_where_they_are_pinned(place_file):
    graph = place.read(place_file)
    options = {"links": "unlimited", "evaluations": 200}
    made = place.plan(graph, 2, pins={"block1.*": 1, "block0.layer0": "device 0"}, **options)
    assert all(made.device[op] == 1 for op in range(1, 8, 2)) and made.device[0] == 0
    made = place.plan(graph, 2, together=["block0"], **options)
    assert len({made.device[op] for op in range(0, 8, 2)}) == 1
    with pytest.raises(ValueError, match="no device 2; they are device 0, device 1"):
        place.plan(graph, 2, pins={"block0": 2})
    with pytest.raises(ValueError, match="no module or op has the name `blocks`"):
        place.plan(graph, 2, together="blocks")


def test_a_plan_is_the_binarys(place_file, binary):
    made = place.plan(place.read(place_file), 2, evaluations=300, seed=5)
    command = [
        binary,
        "place",
        str(place_file),
        "--devices",
        "2",
        "--evaluations",
        "300",
        "--seed",
        "5",
        "--format",
        "json",
    ]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert answer["runtime"] == round(made.makespan * 1e9)


def test_placement_refuses_what_is_wrong(tmp_path, place_file):
    with pytest.raises(FileNotFoundError):
        place.read(tmp_path / "absent.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\xff")
    with pytest.raises((ReadError, ValueError)):
        place.read(tmp_path / "bad.onnx")
    graph = place.read(place_file)
    for options, words in [
        ({"devices": 0}, "no devices"),
        ({"links": "wire"}, "nvlink4"),
        ({"objective": "fun"}, "runtime or memory"),
    ]:
        with pytest.raises(ValueError, match=words):
            place.plan(graph, **options)
    with pytest.raises(ValueError, match="16GiB"):
        place.plan(graph, [place.Device("a", "16 Gibberish")])
    with pytest.raises(TypeError, match="Path: expected what place.read"):
        place.plan(place_file, 2)


def test_brkga_minimises_and_reports_as_scipy():
    target = np.linspace(0.1, 0.9, 6)
    calls = []

    def decode(keys):
        calls.append(len(keys))
        return ((keys - target) ** 2).sum(axis=1) - 1.0

    found = brkga.minimize(decode, 6, population=100, maxiter=80, seed=2)
    assert found.success and found.fun < -0.99 and found.nfev == sum(calls) and found.nit == len(calls) == 80
    assert np.isclose(found.fun, decode(found.x[None])[0]) and np.all(np.diff(found.history) <= 0)
    slow = brkga.minimize(
        lambda row: float(((row - target) ** 2).sum() - 1.0),
        6,
        population=100,
        maxiter=80,
        seed=2,
        vectorized=False,
    )
    assert slow.fun == found.fun and np.array_equal(slow.x, found.x)
    warm = brkga.minimize(decode, 6, x0=target, maxiter=2)
    assert warm.fun < -0.999999
    ended = brkga.minimize(decode, 6, callback=lambda keys, value: True)
    assert ended.nit == 1 and "callback" in ended.message
    sums = brkga.minimize(lambda keys: np.where(keys[:, 0] < 0.5, np.nan, keys.sum(axis=1)), 2, maxiter=2)
    assert 0.5 <= sums.x[0] and np.isfinite(sums.fun)


def test_brkga_passes_errors_on():
    with pytest.raises(ValueError, match="NaN for every chromosome"):
        brkga.minimize(lambda keys: np.full(len(keys), np.nan), 2, maxiter=2)
    with pytest.raises(ZeroDivisionError):
        brkga.minimize(lambda keys: 1 / 0, 3)
    with pytest.raises(ValueError, match="1 values for 256 chromosomes"):
        brkga.minimize(lambda keys: np.zeros(1), 3)
    with pytest.raises(ValueError, match="rows of 3 keys"):
        brkga.minimize(lambda keys: keys[:, 0], 3, x0=[0.5])
    with pytest.raises(ValueError, match="rho = 0.2"):
        brkga.minimize(lambda keys: keys[:, 0], 3, bias=0.2)


def test_import_loads_numpy_and_nothing_else():
    code = (
        "import numpy, sys; before = set(sys.modules); import shardgraph\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "raise SystemExit(bool(new & {'networkx', 'scipy', 'sklearn', 'torch', 'pandas'}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(shardgraph.__all__) < set(dir(shardgraph)) and shardgraph.place is place
    with pytest.raises(AttributeError):
        shardgraph.absent
