"""Objects with one owner: Python copies of them would be second owners of one address, freed twice."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DTypeError

#: What memory's owners say.
ARRAY_INSTEAD = "copy the array that it belongs to"

#: What plans say: they hold launchers and descriptors of their process.
PLAN_INSTEAD = "share it, threads may; in another process make it again with the function that made it"


class NotCopied:
    """Base of what `copy.copy`, `copy.deepcopy` and `pickle` refuse, each class saying what to do instead."""

    __slots__ = ()

    #: What to do instead; it ends the message.
    _instead = "share the object itself"

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled")

    def _refuse(self, done: str) -> NoReturn:
        raise DTypeError(f"this {type(self).__qualname__} cannot be {done}: {self._instead}")
