"""The package's modules and what they import."""

from __future__ import annotations

import ast
from functools import cache

from paths import ROOT

PACKAGES = {"numbacc": ROOT / "numbacc", "numbacc_bindings": ROOT / "bindings" / "numbacc_bindings"}


FAMILIES = {"gated", "elementwise", "gemm", "conv", "attention", "cudnn", "fft", "random"}


def statements(node):
    """All statements below a node of a syntax tree."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, part, ()):
            yield each
            yield from statements(each)


@cache
def imported(source, package):
    """(from where, what) of everything that a module imports, also inside functions; ("", module) for plain imports."""
    found = []
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [("", alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [(base, f"{base}.{alias.name}") for alias in node.names]
    return found


def imports(source, package):
    """The absolute names of everything a module imports.

    Of `from a import b` both "a" and "a.b" are given, since b may be a module.
    """
    return {name for pair in imported(source, package) for name in pair if name}
