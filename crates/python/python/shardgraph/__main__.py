"""The command ``shardgraph``, also as ``python -m shardgraph``: the answers of cargo's binary, bit for bit."""

from __future__ import annotations

import sys

from ._shardgraph import run_command

__all__ = ["main"]


def main() -> None:
    """Runs the command of ``sys.argv`` and ends the process with its exit code."""
    sys.exit(run_command(["shardgraph", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
