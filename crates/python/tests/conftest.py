"""Fixtures and the count of skipped tests, which the runner prints."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def graph_data():
    """The folder of graph files; absent data is a skip with its reason."""
    folder = ROOT.parent / "shared" / "data" / "graphs"
    if not folder.is_dir():
        pytest.skip("SKIPPED: no graph data beside the checkout")
    return folder


@pytest.fixture
def binary():
    """The command of cargo's build, for the comparison of bits."""
    path = os.environ.get("SHARDGRAPH_BINARY")
    if not path:
        pytest.skip("SKIPPED: SHARDGRAPH_BINARY names no shardgraph command")
    return path


def pytest_terminal_summary(terminalreporter):
    """The lines that `cargo xtask ci` counts."""
    stats = terminalreporter.stats
    for report in stats.get("skipped", []):
        terminalreporter.write_line(
            f"SKIPPED: {report.longrepr[2].removeprefix('Skipped: ').removeprefix('SKIPPED: ')}"
        )
    for report in stats.get("passed", []):
        for line in (value for name, value in report.user_properties if name == "summary"):
            terminalreporter.write_line(line)
    passed, failed = len(stats.get("passed", [])), len(stats.get("failed", []) + stats.get("error", []))
    word = "FAILED" if failed else "ok"
    terminalreporter.write_line(
        f"test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured"
    )
