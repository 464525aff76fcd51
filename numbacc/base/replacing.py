"""Replace parts of Numba for a while, of the compiler for GPUs (numba.cuda) and of that for CPUs alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["settling", "single_assignment", "with_attributes"]


@contextmanager
def with_attributes(changes: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes, given as (class or module, attribute, value), for a while; afterwards restore or delete them."""
    with ExitStack() as undo:
        for owner, name, value in changes:
            undo.callback(_restore, owner, name, vars(owner).get(name))
            setattr(owner, name, value)
        yield


def _restore(owner: Any, name: str, before: Any) -> None:
    if before is None:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def settling(run: Callable[..., None], canonicalize: Callable[[Any], Any], lifetime: Any) -> Callable[..., None]:
    """Return a replacement of `PostProcessor.run` that computes lifetimes of variables only when they are needed.

    Args:
        run: that method.
        canonicalize, lifetime: `canonicalize_cfg` and `VariableLifetime` of the same compiler.
    """

    def settle(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = processor.func_ir
        if emit_dels or function.is_generator:
            run(processor, emit_dels, extend_lifetimes)
            return
        function.blocks = canonicalize(function.blocks)
        function.variable_lifetime, function.generator_info = lifetime(function.blocks), None

    return settle


def single_assignment(ssa: Any) -> list[tuple[Any, str, Any]]:
    """Return changes for `with_attributes` that find single assignments faster: `reconstruct_ssa` of a compiler.

    Numba looks at all statements of a function for each variable that is assigned more than once, twice. Instead look
    only at the blocks that name the variable. The result is the same.

    Args:
        ssa: the compiler's module of this name.
    """
    run_all, rewrite, ir = ssa._run_ssa, ssa._run_block_rewrite, ssa.ir
    #: The name of a variable -> the blocks that name it, of the function that is compiled.
    places: dict[str, set[int]] = {}

    def run(blocks: dict[int, Any]) -> Any:
        found: defaultdict[str, set[int]] = defaultdict(set)
        for label, block in blocks.items():
            for statement in block.body:
                if isinstance(statement, ir.Assign):
                    found[statement.target.name].add(label)
                for variable in statement.list_vars():
                    found[variable.name].add(label)
        places.clear()
        places.update(found)
        return run_all(blocks)

    def rewrite_some(blocks: dict[int, Any], states: dict[str, Any], handler: Any) -> dict[int, Any]:
        named = places[states["varname"]]
        rewritten = rewrite({label: block for label, block in blocks.items() if label in named}, states, handler)
        made = {}
        for label, block in blocks.items():
            if label not in rewritten:
                rewritten[label] = ir.Block(scope=block.scope, loc=block.loc)
                rewritten[label].body = block.body
            made[label] = rewritten[label]
        return made

    return [(ssa, "_run_ssa", run), (ssa, "_run_block_rewrite", rewrite_some)]
