"""cuFFT as its manual describes it, on host memory: what the plans of `numbacc.libraries.cufft` are tested with.

`FakeCufft` takes the place of the loaded library. Its functions get the very numbers and addresses that cuFFT would,
those that execute a plan through a C function pointer. Independent of numbacc.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

# cufftType -> dtypes of input and output.
DTYPES = {
    0x29: (np.complex64, np.complex64),
    0x2A: (np.float32, np.complex64),
    0x2C: (np.complex64, np.float32),
    0x69: (np.complex128, np.complex128),
    0x6A: (np.float64, np.complex128),
    0x6C: (np.complex128, np.float64),
}
NAMES = {0x29: "C2C", 0x2A: "R2C", 0x2C: "C2R", 0x69: "Z2Z", 0x6A: "D2Z", 0x6C: "Z2D"}
CONTEXT = 0x7F12_3456_7890
word = ctypes.c_uint64
longs = ctypes.c_longlong


class Made(NamedTuple):
    """The arguments of cufftMakePlanMany64."""

    n: tuple[int, ...]
    inembed: tuple[int, ...]
    istride: int
    idist: int
    onembed: tuple[int, ...]
    ostride: int
    odist: int
    type: int
    batch: int


class FakeCufft:
    """The functions of cuFFT that numbacc calls.

    Attributes:
        memory: arrays of bytes that calls may touch.
        made: the plans that exist, by handle.
        calls: names of the functions called on plans, with what followed the handle.
        work_bytes: what each plan asks for.
        context: the current one, as the driver tells it.
    """

    def __init__(self):
        self.memory, self.made, self.calls, self.work_bytes, self.context = [], {}, [], 0, CONTEXT
        self.areas, self.streams, self.destroyed = {}, {}, []
        self._next = 100
        execute = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, word, word, ctypes.c_int)
        self._functions = {f"cufftExec{name}": execute(self._executor(kind)) for kind, name in NAMES.items()}
        self._functions["cuCtxGetCurrent"] = ctypes.CFUNCTYPE(ctypes.c_int, word)(self._get_current)
        self._functions["cuStreamIsCapturing"] = ctypes.CFUNCTYPE(ctypes.c_int, word, word)(self._is_capturing)

    def _get_current(self, result):
        word.from_address(result).value = self.context
        return 0

    def _is_capturing(self, stream, result):
        ctypes.c_int.from_address(result).value = 0
        return 0

    def address(self, function):
        return ctypes.cast(self._functions[function], ctypes.c_void_p).value

    def check(self, function, status):
        assert status == 0, (function, status)

    def gpu(self, device):
        return SimpleNamespace(get_current=self.address("cuCtxGetCurrent"), context=CONTEXT)

    def cufftCreate(self, address):
        self._next += 1
        ctypes.c_int.from_address(address).value = self._next
        self.made[self._next] = None

    def cufftDestroy(self, handle):
        del self.made[handle]
        self.destroyed.append(handle)

    def cufftSetAutoAllocation(self, handle, allocate):
        assert self.made[handle] is None and allocate == 0

    def cufftMakePlanMany64(
        self, handle, rank, n, inembed, istride, idist, onembed, ostride, odist, kind, batch, work
    ):  # fmt: skip
        assert self.made[handle] is None and 1 <= rank <= 3 and batch >= 1
        n, inembed, onembed = (tuple((longs * rank).from_address(address)) for address in (n, inembed, onembed))
        assert min(n) >= 1 and min(istride, ostride, idist, odist) >= 1
        ctypes.c_size_t.from_address(work).value = self.work_bytes
        self.made[handle] = Made(n, inembed, istride, idist, onembed, ostride, odist, int(kind), batch)

    def cufftSetStream(self, handle, stream):
        self.calls.append(("stream", stream))
        self.streams[handle] = stream

    def cufftSetWorkArea(self, handle, address):
        self.calls.append(("area", address))
        self.areas[handle] = address

    def _executor(self, kind):
        def execute(handle, source, target, direction):
            made = self.made[handle]
            assert made.type == kind, "a plan must be run by the function of its type"
            assert bool(self.areas.get(handle)) == bool(self.work_bytes), "the work area is missing"
            self.calls.append((NAMES[kind], source, target))
            self._transform(made, source, target, direction)
            return 0

        return execute

    def _transform(self, made, source, target, direction):
        first, second = (np.dtype(kind) for kind in DTYPES[made.type])
        half = (*made.n[:-1], made.n[-1] // 2 + 1)
        lengths_in = half if second.kind == "f" else made.n
        lengths_out = half if first.kind == "f" else made.n
        x_memory, x_places = self._places(source, first, lengths_in, made.inembed, made.istride, made.idist, made.batch)
        y_memory, y_places = self._places(
            target, second, lengths_out, made.onembed, made.ostride, made.odist, made.batch
        )
        assert len(np.unique(y_places)) == y_places.size, "an output element is written twice"
        x, axes = x_memory[x_places], range(1, len(made.n) + 1)
        if first.kind == "f":
            y = np.fft.rfftn(x, axes=axes)
        elif second.kind == "f":
            assert source != target
            self._check_hermitian(x, made.n)
            y = np.fft.irfftn(x, made.n, axes, norm="forward")
            x_memory[x_places] = -7e30  # the input of a transform to real numbers is always lost
        else:
            y = np.fft.fftn(x, axes=axes) if direction == -1 else np.fft.ifftn(x, axes=axes, norm="forward")
        y_memory[y_places] = y

    @staticmethod
    def _check_hermitian(x, n):
        """The manual leaves open what becomes of spectra that real numbers cannot have, and so does cuFFT."""
        ends = np.moveaxis(x, -1, 0)[:: n[-1] // 2 if n[-1] % 2 == 0 else n[-1]]
        axes = tuple(range(2, ends.ndim))
        opposite = np.roll(np.flip(ends, axes), (1,) * len(axes), axes).conj()
        tolerance = 4 * np.finfo(x.dtype).eps * max(np.abs(x).max(initial=0), 1e-30)
        assert np.abs(ends - opposite).max(initial=0) <= tolerance, "a spectrum that real numbers cannot have"

    def _places(self, address, dtype, lengths, embed, stride, dist, batch):
        """The memory as elements, and the index of each element of each transform, by the manual's formula."""
        width = 2 * dtype.itemsize if dtype.kind == "f" else dtype.itemsize
        assert address % width == 0, "an address is not aligned to a complex number"
        assert all(size >= n for size, n in zip(embed, lengths, strict=True)), "an embedding is too small"
        place = 0
        for size, index in zip(embed, np.indices(lengths, sparse=True), strict=True):
            place = place * size + index
        places = np.arange(batch).reshape(-1, *[1] * len(lengths)) * dist + place * stride
        for memory in self.memory:
            before = address - memory.ctypes.data
            if 0 <= before < memory.nbytes:
                start = before % dtype.itemsize
                elements = memory[start : start + (memory.nbytes - start) // dtype.itemsize * dtype.itemsize]
                places = places + before // dtype.itemsize
                assert places.max() < elements.nbytes // dtype.itemsize, "an access behind an array's end"
                return elements.view(dtype), places
        raise AssertionError(f"{address:#x} is in no array")
