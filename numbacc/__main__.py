"""The command line: `python -m numbacc info | demo | train | notebooks | compile | launch`, or `numbacc info`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from ._version import __version__

USAGE = """usage: numbacc COMMAND, or python -m numbacc COMMAND

  info             what was found on this machine, what is missing, and how to install it
  demo             train a small gated network on real data, on the GPU if there is one
  train            train a transformer on a text, on the GPU if there is one
  notebooks DIR    copy the notebooks, with what they read, to a folder
  compile FAMILY   compile kernels ahead of their first use; without FAMILY, all kernels
  launch SCRIPT    run a script in one process for each GPU, which numbacc.distributed connects
  --version        the version of numbacc
"""

#: Commands that were removed from the package -> how to run them in a checkout of the repository.
MOVED = {"bench": "python -m benchmarks", "check": "python -m tools.check"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, by default that of the process, and return its exit status."""
    command, *rest = (sys.argv[1:] if argv is None else argv) or [""]
    if command == "--version":
        print(f"numbacc {__version__}")
        return 0
    if command in MOVED:
        print(f"`{command}` has moved: in a checkout of the repository, run {' '.join([MOVED[command], *rest])}")
        return 2
    if command not in ("info", "demo", "train", "notebooks", "compile", "launch"):
        print(USAGE, end="")
        return 0 if command in ("-h", "--help") else 2
    modules = {"compile": "compiling", "notebooks": "notebook_copies", "launch": "distributed.launching"}
    module = modules.get(command, command)
    return int(importlib.import_module(f".{module}", __package__).main(rest))


if __name__ == "__main__":
    sys.exit(main())
