"""Find the types of a kernel's variables: step 2 of the compiled simulator."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

from numba import types
from numba.core import rewrites, typed_passes
from numba.core.compiler import run_frontend
from numba.core.registry import cpu_target

from .matrices import repeated
from .normalize import BLOCK_VOTES, Normalize
from .syntax import CONTEXT, EXCHANGE, RAISE, called, duplicate, expression, function, meets, statements


class _Alone(ast.NodeTransformer):
    """Rewrite a kernel as if one thread ran it alone: no barriers, and a shuffle returns the thread's value."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if meets(node) or called(node.value) == RAISE else node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        if called(node.value) == EXCHANGE:
            kind, *given = node.value.args  # type: ignore[attr-defined]
            if kind.value in BLOCK_VOTES:
                node.value = expression("_nb_predicate(VALUE)", node.lineno, VALUE=given[0])
            elif kind.value.startswith("mma"):
                node.value = given[0]
            elif kind.value.startswith("ldmatrix"):
                count = 4 * int(kind.value.split()[1])
                node.value = expression(repeated("_nb_np.uint32(PLACE)", count), node.lineno, PLACE=given[0])
            else:
                node.value = given[1] if kind.value.startswith("shfl") else _vote(kind.value, node)
        return node


def _vote(kind: str, node: ast.stmt) -> ast.expr:
    """Return an expression with the type that a vote or match has on a GPU."""
    mask, line = "_nb_np.int32(1)", node.lineno
    texts = {
        "any": "True",
        "all": "True",
        "eq": "True",
        "activemask": "_nb_np.uint32(1)",
        "match_all": f"({mask}, True)",
    }
    value: ast.expr = expression(texts.get(kind, mask), line)
    return value


def infer(
    normal: Normalize, parameters: list[str], body: list[ast.stmt], arguments: tuple[types.Type, ...], build: Any
) -> dict[str, types.Type]:
    """Return the type of each variable, as Numba infers it for one thread on a CPU."""
    alone = [_Alone().visit(s) for s in duplicate(body)]
    head: list[ast.stmt] = []
    for name, (shape, _) in {**normal.shared, **normal.local}.items():
        head += statements(f"{name} = _nb_empty({max(shape, (1,))}, _nb_dtype_{name})")
    tree = function("_nb_alone", [*parameters, *CONTEXT], head + alone)
    ir = run_frontend(build(tree, "_nb_alone", normal.space, normal.source))
    # Constant indices become part of the code, so that slices of tuples have types.
    rewrites.rewrite_registry.apply("before-inference", SimpleNamespace(func_ir=ir, typemap=None, calltypes=None))
    typing, target = cpu_target.typing_context, cpu_target.target_context
    typing.refresh()
    target.refresh()
    given = (*arguments, *[types.int64] * len(CONTEXT))
    found = typed_passes.type_inference_stage(typing, target, ir, given, None)
    return {
        name.split(".")[0]: types.unliteral(kind)
        for name, kind in found[0].items()
        if not name.startswith(("$", "arg."))
    }
