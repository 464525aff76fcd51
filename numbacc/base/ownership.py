"""Prevent copies of objects with one owner: a Python copy would own the same address, which would be freed twice."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DTypeError

#: The hint of memory's owners.
ARRAY_INSTEAD = "copy the array that it belongs to"

#: The hint of plans, which hold launchers and descriptors of their process.
PLAN_INSTEAD = "share it, threads may; in another process make it again with the function that made it"


class NotCopied:
    """Base of classes that `copy.copy`, `copy.deepcopy` and `pickle` cannot copy; each class names an alternative."""

    __slots__ = ()

    #: The alternative, which ends the message.
    _instead = "share the object itself"

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled")

    def _refuse(self, done: str) -> NoReturn:
        raise DTypeError(f"this {type(self).__qualname__} cannot be {done}: {self._instead}")
