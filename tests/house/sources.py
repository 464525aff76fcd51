"""The package's modules and what they import."""

from __future__ import annotations

import ast

from paths import ROOT

PACKAGES = {"numbacc": ROOT / "numbacc", "numbacc_bindings": ROOT / "bindings" / "numbacc_bindings"}


FAMILIES = {"gated", "elementwise", "gemm", "conv", "attention", "cudnn", "fft", "random"}


def imported(source, package):
    """(from where, what) of everything that a module imports, also inside functions; ("", module) for plain imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((base, f"{base}.{alias.name}") for alias in node.names)


def imports(source, package):
    """The absolute names of everything a module imports.

    Of `from a import b` both "a" and "a.b" are given, since b may be a module.
    """
    return {name for pair in imported(source, package) for name in pair if name}
