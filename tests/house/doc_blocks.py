"""The Python blocks of a page."""

from __future__ import annotations

import re


def blocks_of(path):
    """(number of the line before the first, code) of each Python block."""
    text = path.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]
