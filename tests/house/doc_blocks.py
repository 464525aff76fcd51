"""The Python blocks of a page, and sessions of Python in pages and docstrings."""

from __future__ import annotations

import doctest
import inspect
import re


def blocks_of(path):
    """(number of the line before the first, code) of each Python block."""
    text = path.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def run_session(text, name):
    """Run a session in an empty namespace, and check that it prints the results that the text shows."""
    session = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), {}, name, None, None)
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(session, out=printed.append)
    assert not runner.failures, "".join(printed)
