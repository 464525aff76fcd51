"""Keep objects alive while foreign code holds them: DLPack's consumers and the driver's graphs.

Foreign code releases an object by calling a function, from any thread, without the GIL, and maybe after the interpreter
has ended. So that function is machine code that does not use Python and is never freed. It pushes the object on a list,
which `collect` empties from time to time.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

#: DLPack's names of capsules -> the offset in their structures of `manager_ctx`, a word that belongs to the producer.
CAPSULES = {b"dltensor": 48, b"dltensor_versioned": 8}

#: The first node of the list of objects given back; 0 if the list is empty.
head = ctypes.c_uint64()

#: Address of a node -> (offset of its link, the object that must live until then). It outlives the interpreter.
_lent: dict[int, tuple[int, Any]] = {}
_lock = threading.RLock()
#: Holds the compiled code once it is needed.
_made: list[Any] = []


def _code() -> Any:
    global head
    if not _made:
        # Imported here because it loads llvmlite, which is not needed before the first object is passed on.
        from .builtin import GiveBack

        with _lock:
            if not _made:
                _made.append(GiveBack(CAPSULES))
                head = _made[0].head
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lent))
    return _made[0]


def lend(node: int, offset: int, owner: Any) -> int:
    """Keep `owner` alive until foreign code calls a function on `node`. Return that function's address.

    Args:
        node: the address of the owner's `words`, of 64 bits each. The function writes nowhere else.
        offset: the byte offset of the word that the function writes.
    """
    function: int = _code().give_back[offset]
    _lent[node] = offset, owner
    return function


def capsule(node: int, name: bytes, owner: Any, deleter: int) -> Any:
    """Make one of DLPack's PyCapsules for the structure in `owner.words`, which its consumer borrows.

    Args:
        node: the words' address.
        name: the capsule's name.
        deleter: the index of the word that receives the function to give the structure back.
    """
    code, offset = _code(), CAPSULES[name]
    owner.words[deleter] = code.give_back[offset]
    _lent[node] = offset, owner
    return code.new_capsule[name](node)


def collect() -> None:
    """Release the objects that were given back."""
    if not head.value:
        return
    node = _code().take()
    while node:
        offset, owner = _lent.pop(node)
        node = owner.words[offset >> 3]
        del owner  # only after its memory has been read
