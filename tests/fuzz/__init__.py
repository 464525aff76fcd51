"""A fuzzer: `python -m tests.fuzz` draws calls of every family at random and checks them; see docs/fuzzing.md.

Its modules share the oracles and arrays of the tests, which pytest imports as top-level modules: so does this.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1]
for _folder in (_TESTS, _TESTS / "support", _TESTS / "oracles"):
    if str(_folder) not in sys.path:
        sys.path.insert(1, str(_folder))
