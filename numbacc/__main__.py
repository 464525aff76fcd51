"""The command line: `python -m numbacc info | demo | bench`."""

from __future__ import annotations

import importlib
import sys

USAGE = """usage: python -m numbacc COMMAND

  info             what was found on this machine, what is missing, and how to install it
  demo             train a small gated network on real data, on the GPU if there is one
  bench SUBJECT    measure against copy bandwidth and other libraries (needs a GPU)
"""


def main(argv: list[str]) -> int:
    """Run a command; its exit status."""
    command, rest = (argv[0], argv[1:]) if argv else ("", [])
    if command not in ("info", "demo", "bench"):
        print(USAGE, end="")
        return 0 if command in ("-h", "--help") else 2
    return int(importlib.import_module(f".{command}", __package__).main(rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
