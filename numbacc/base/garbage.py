"""Switch garbage collection off while Numba is imported and compiles.

Numba creates millions of objects and keeps many. Collections that visit all of them took a third of the time.
"""

from __future__ import annotations

import gc
import threading

__all__ = ["NoCollections", "no_collections"]


class NoCollections:
    """A context, for any number of threads, without garbage collection."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before, self._frozen = threading.Lock(), 0, False, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before:
                # Move the new objects to the oldest generation; otherwise the next allocation would visit all of them.
                # Skip this if the program has frozen its own objects: counting them is slow, so this is checked only
                # once.
                self._frozen = self._frozen or gc.get_freeze_count() > 0
                if not self._frozen:
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


#: The context of this process.
no_collections = NoCollections()
