"""Memory that several arrays share: flat buffers with one array after the other, and arrays that are cut in parts.

Users keep gradients in one flat buffer, and queries, keys and values in one array. Such arrays start anywhere, and a
write past the end of one changes another.
"""

from __future__ import annotations

import numpy as np
from conftest import bits, sentinel

#: Elements in front of the first array of a buffer, and after the last. Writing there is an error.
GUARD = 16
#: Elements of a buffer that arrays share.
_SHARED = 2048


class Memory:
    """An array that is cut in parts; all other elements hold the sentinel, and must keep it."""

    def __init__(self, place, shape, dtype):
        self.place, self.dtype = place, np.dtype(dtype)
        self._free = np.ones(shape, bool)
        self.array = place.put(np.full(shape, sentinel(self.dtype)))

    def part(self, index, values):
        """The part at an index, with these values."""
        self._free[index] = False
        view = self.array[index]
        view[...] = values
        return view

    def assert_untouched(self):
        """Nothing was written but parts."""
        now = bits(self.place.get(self.array))[self._free]
        wrong = (now != bits(np.asarray(sentinel(self.dtype)))).sum()
        assert not wrong, f"{wrong} of {now.size} words between arrays of one buffer were written"


class Flat(Memory):
    """A flat buffer: each array lies some elements after the one before."""

    def __init__(self, place, size, dtype):
        super().__init__(place, (size,), dtype)
        self._end = GUARD

    def has_room(self, size, skip):
        return self._end + skip + size + GUARD <= self._free.size

    def take(self, values, skip):
        """The values, packed, so many elements after the last array, or after the guard if it is the first."""
        start = self._end + skip
        self._end = start + values.size
        return self.part(slice(start, self._end), values.ravel()).reshape(values.shape)


class Buffers:
    """The flat buffers of a case, made when they are needed."""

    def __init__(self):
        self._shared, self.all = {}, []

    def take(self, place, values, skip, is_shared):
        """Put the values into a flat buffer of a place: the shared one, or a separate one."""
        key = place.name, values.dtype
        found = self._shared.get(key) if is_shared else None
        if found is None or not found.has_room(values.size, skip):
            size = values.size + skip + 2 * GUARD
            found = self.add(Flat(place, max(2 * size, _SHARED) if is_shared else size, values.dtype))
            if is_shared:
                self._shared[key] = found
        return found.take(values, skip)

    def add(self, memory):
        self.all.append(memory)
        return memory

    def assert_untouched(self):
        for memory in self.all:
            memory.assert_untouched()
