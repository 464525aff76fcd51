"""Compile generated code with fewer of Numba's passes."""

from __future__ import annotations

from types import CodeType
from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes


def needed(passes: list[Any], code: CodeType) -> list[Any]:
    """Return Numba's passes without those that do nothing here: for expressions of whole arrays, and for closures."""
    left_out = {NopythonRewrites}
    if not any(isinstance(constant, CodeType) for constant in code.co_consts):
        left_out.add(InlineClosureLikes)
    return [each for each in passes if each[0] not in left_out]


class Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler without those passes."""

    def define_pipelines(self) -> list[Any]:
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made.passes = needed(made.passes, self.state.func_id.code)
        made._finalized = False
        made.finalize()
        return [made]
