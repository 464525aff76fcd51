"""The checks of kernels whose arguments hold addresses: numbacc's own. `reached` says how."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from .analysis import Facts
from .checks import Checks
from .intrinsics import is_opaque
from .normalize import Normalize
from .reached import at
from .source import Source
from .syntax import called, statements, walk
from .watching import MEMORY

__all__ = ["AddressChecks"]


class AddressChecks(Checks):
    """The checks of a kernel whose arguments hold addresses."""

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        super().__init__(source, normal, facts, body, arrays)
        self.reaches = True

    def space(self) -> dict[str, Any]:
        return {**super().space(), "_nb_at": at}

    def parameters(self) -> list[str]:
        return [*super().parameters(), MEMORY]

    @staticmethod
    def kinds() -> list[types.Type]:
        return [*Checks.kinds(), types.int64]

    def pieces(self, array: str) -> int:
        """Return the bytes that have a stamp in an array of 16-byte elements, which holds numbers of any size."""
        return 2 if self.normal.shared[array][1].itemsize == 16 else super().pieces(array)

    def listed(self, line: int) -> list[ast.stmt]:
        local = "\n".join(f"_nb_known({MEMORY}, {self.number(n)}, _nb_all_{n}, 0, ())" for n in self.normal.local)
        return [*super().listed(line), *statements(local or "pass", line)]

    def clean(self, body: list[ast.stmt], emit: Any) -> tuple[list[ast.stmt], ast.expr] | None:
        return None if self._call(body) else super().clean(body, emit)

    def _call(self, nodes: Any) -> Any:
        """Return a call of an intrinsic in these nodes, or None."""
        return next((n for n in walk(nodes) if is_opaque(self.normal.space.get(called(n)))), None)

    def before(self, s: ast.stmt | ast.expr) -> list[ast.stmt]:
        call = self._call(s)
        if call is None:
            return []
        numbers = f"({self.site(call)}, _nb_t, _nb_block, _nb_era, _nb_since, _nb_start, _nb_end)"
        return statements(f"_nb_at({MEMORY}, {numbers})", s.lineno)
