"""Attributes of other libraries' classes and modules that are other ones for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["replaced"]


@contextmanager
def replaced(changes: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Inside, attributes have other values: (class or module, attribute, value). Inherited ones are inherited again."""
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
