"""Examples: of the modules, of the README and of the page docs/use/python.md."""

import doctest
import importlib
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

MODULES = [
    "",
    "._evaluate",
    "._graph",
    "._solve",
    ".agents",
    ".brkga",
    ".components",
    ".embed",
    ".gym",
    ".networkx",
    ".place",
    ".relational",
    ".replay",
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_modules(module):
    found = doctest.testmod(importlib.import_module(f"shardgraph{module}"))
    assert found.failed == 0 and (found.attempted or module == ".place")


@pytest.mark.parametrize("page", ["docs/use/python.md", "crates/python/README.md"])
def test_blocks_of_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})


def test_every_public_name_has_a_sentence():
    for module in MODULES:
        module = importlib.import_module(f"shardgraph{module}")
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if callable(value):
                assert (value.__doc__ or "").strip(), f"{module.__name__}.{name}"
                for attribute, method in vars(value).items() if isinstance(value, type) else ():
                    if callable(method) and not attribute.startswith("_"):
                        assert (method.__doc__ or "").strip(), f"{name}.{attribute}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = json.loads(path.read_text())
    names = {"__name__": "__main__"}
    for number, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "notebooks are kept without outputs"
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


def test_there_are_notebooks():
    assert len(list((ROOT / "docs" / "notebooks").glob("*.ipynb"))) == 3
