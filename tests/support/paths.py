"""Where the repository and the tests' helpers lie, for tests that read files or start processes."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
#: The folders of helpers; pyproject.toml names them for pytest.
HELPERS = [SUPPORT, TESTS / "oracles"]


def pythonpath(*more: Path) -> str:
    """PYTHONPATH of a process that imports helpers."""
    paths = [*more, *HELPERS, TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.pathsep.join(str(path) for path in paths)
