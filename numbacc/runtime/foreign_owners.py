"""Objects that foreign code holds and gives back by calling a function: DLPack's consumers, and the driver's graphs.

They may call from any thread, without Python's lock, and after the interpreter has ended. So the functions that they
get are machine code made here that knows nothing of Python and is never freed: it pushes what is given back on a list,
which Python empties now and then (`collect`).
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

#: Names of DLPack's capsules -> where their structures have a word that is the producer's: `manager_ctx`.
CAPSULES = {b"dltensor": 48, b"dltensor_versioned": 8}

#: The first node of what was given back; 0 where that is nothing.
head = ctypes.c_uint64()

#: Address of a node -> (offset of its link, what must live until it is given back). It outlives the interpreter.
_lent: dict[int, tuple[int, Any]] = {}
_lock = threading.RLock()
#: The code, once it is needed.
_made: list[Any] = []


def _code() -> Any:
    global head
    if not _made:
        # Imported here: it brings llvmlite, which nothing needs before something is lent.
        from .builtin import GiveBack

        with _lock:
            if not _made:
                _made.append(GiveBack(CAPSULES))
                head = _made[0].head
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lent))
    return _made[0]


def lend(node: int, offset: int, owner: Any) -> int:
    """Keep `owner` until the function whose address this returns is called on `node`.

    Args:
        node: the address of the owner's `words`, of 64 bits each, which is all that the function writes to.
        offset: how many bytes in it writes.
    """
    function: int = _code().give_back[offset]
    _lent[node] = offset, owner
    return function


def capsule(node: int, name: bytes, owner: Any, deleter: int) -> Any:
    """A PyCapsule of DLPack's for the structure that `owner.words` are, lent to whoever takes it.

    Args:
        node: the words' address.
        name: the capsule's.
        deleter: which of the words is to be the function that gives it back.
    """
    code, offset = _code(), CAPSULES[name]
    owner.words[deleter] = code.give_back[offset]
    _lent[node] = offset, owner
    return code.new_capsule[name](node)


def collect() -> None:
    """Let go of what was given back."""
    if not head.value:
        return
    node = _code().take()
    while node:
        offset, owner = _lent.pop(node)
        node = owner.words[offset >> 3]
        del owner  # not before its memory has been read
