"""Replace parts of Numba for a while, of the compiler for GPUs (numba.cuda) and of that for CPUs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["settling", "with_attributes"]


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
