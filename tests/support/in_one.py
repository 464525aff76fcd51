"""Parameters of a test that are tried one after the other in one case."""

from __future__ import annotations

import functools
import inspect


def in_one(names, values):
    """Call a test with each of these values, as `pytest.mark.parametrize` does, but in one case.

    A case takes pytest 4 ms of processor time, more than many tests take. The report of a failure shows the first
    value that is wrong. Do not use it for a test that skips some values: the others would be skipped, too.
    """
    names = [name.strip() for name in names.split(",")]

    def mark(test):
        @functools.wraps(test)
        def each_value(*args, **kwargs):
            for value in values:
                given = dict(zip(names, value if len(names) > 1 else (value,), strict=True))
                try:
                    test(*args, **kwargs, **given)
                except BaseException:
                    print("with", ", ".join(f"{name}={found}" for name, found in given.items()))
                    raise

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        assert len(kept) + len(names) == len(signature.parameters), "the test has no such parameter"
        each_value.__signature__ = signature.replace(parameters=kept)
        return each_value

    return mark
