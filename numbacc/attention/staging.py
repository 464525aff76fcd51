"""Steps around attention on a GPU: they align arrays for the kernels, make lengths valid, and divide scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np

from ..base.dispatch import launcher_class, runtime
from ..base.layout import Layout, is_dense, layout, row_major_strides, view
from ..functions.formula import Formula
from ..kernels.attention.spec import AttentionSpec
from ..kernels.attention.varlen import between, clamped, negated
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import LaunchExecutable, MapExecutable, mapped
from ..kernels.specs import words_of
from ..libraries.cudnn_graph import ALIGNED
from ..runtime.launch_order import LaunchOrder
from ..runtime.steps import PutWord, Scratch, Step, ZeroBytes
from ..runtime.streams import stream
from .geometry import ordered
from .problem import AttentionProblem

#: Bounds of an unlimited band: farther away than any key.
_NOWHERE = 2**40
#: Threads in a block of kernels with one thread for each element or row.
_THREADS = 128


def dense(shape: Sequence[int], dtype: Any, device: int, pitch: int = 1) -> Layout:
    """Return the layout of a contiguous array whose rows start at multiples of `pitch` bytes."""
    kind = np.dtype(dtype)
    *rest, last = shape or (1,)
    size = int(kind.itemsize)
    width = -(-last * size // pitch) * pitch // size if pitch > 1 else last
    strides = row_major_strides((*rest, width) if shape else (), size)
    return layout(tuple(shape), strides, kind, device)


class Array:
    """An array of a stage: the number of its operand, and its layout."""

    def __init__(self, number: int, lies: Layout):
        self.number, self.lies = number, lies


def key_of(address: int) -> int:
    """Return the alignment of an address, as far as the choice of kernels depends on it.

    This is the address modulo 16. If that is 0, it is the largest power of two that divides the address, or 0 for 256
    and more.
    """
    return address % 16 or (address & -address) % 256 if address % 256 else 0


class Stage:
    """A sequence of steps under construction, with the arrays that they work on.

    Args:
        problem: the call to compute.
        key: `key_of` the addresses of the plan's operands.

    Attributes:
        arrays: the arrays of the call by name, and those that the stage adds. Queries, keys, values and arrays of the
            same form are (batch, heads, sequence, elements), or, if packed, (1, heads, tokens, elements).
        steps: the steps so far.
        behind: the steps that run at the end.
    """

    def __init__(self, problem: AttentionProblem, key: Sequence[int]):
        self.problem, self.device = problem, problem.inputs["q"].device
        self.scratch, self.steps, self.behind = Scratch(), [], []  # type: ignore[var-annotated]
        operands = {**problem.inputs, **problem.outputs}
        self._count, self._key = len(operands), tuple(key)
        self.arrays = {name: Array(k, self._seen(name, lies)) for k, (name, lies) in enumerate(operands.items())}

    def _seen(self, name: str, lies: Layout) -> Layout:
        if name in ("q", "k", "v", "do", "o", "out", "dq", "dk", "dv"):
            found = ordered(lies, self.problem.options.layout)
            if found.ndim == 3:
                found = layout((1, *found.shape), (0, *found.strides), found.dtype, found.device)
            return found
        if name in ("bias", "dbias") or "operands[" in name:
            more = 4 - lies.ndim
            # Truth values are read as 0 and 1.
            kind = np.dtype(np.uint8) if lies.dtype == np.bool_ else lies.dtype
            return layout((1,) * more + lies.shape, (0,) * more + lies.strides, kind, lies.device)
        return lies

    def has(self, name: str) -> bool:
        return name in self.arrays

    def address(self, number: int, offset: int = 0) -> int:
        """Return an address that has the known alignment of an operand plus an offset in bytes."""
        own = self._key[number] if number < self._count else 0
        if not own:
            return offset % 256
        if off := (own + offset) % 16:
            return off
        return gcd(own, offset) if own >= 16 else 16

    def is_aligned(self, array: Array) -> bool:
        """Return whether an array's start is aligned for cuDNN's kernels."""
        return self.address(array.number) % ALIGNED == 0

    def part(self, name: str, shape: Sequence[int], dtype: Any, pitch: int = 1) -> Array:
        """Return a new array in scratch memory."""
        lies = dense(shape, dtype, self.device, pitch)
        rows = lies.size // max(lies.shape[-1], 1) if lies.size else 0
        nbytes = rows * lies.strides[-2] if lies.ndim > 1 and rows else lies.nbytes
        self.arrays[name] = Array(self._count + self.scratch.part(max(nbytes, 1)), lies)
        return self.arrays[name]

    def add(self, executable: Any, *arrays: Array, takes_scalars: bool = False, offsets: Sequence[int] = ()) -> None:
        """Add a step on arrays; the offsets are bytes into them."""
        numbers = tuple(array.number for array in arrays)
        self.steps.append(Step(executable, numbers, (tuple(offsets),) if any(offsets) else ((),), takes_scalars))

    # ------------------------------------------------------------ copies

    def copy(self, source: Array, target: Array, sign: int = 1) -> None:
        """Copy an array, or its negative, to one of the same shape, or to the start of a larger one."""
        part = cropped(target.lies, source.lies.shape)
        self.add(self._copying(source.lies, part, sign, source, target), source, target)

    def plain(self, name: str, shape: Sequence[int]) -> Array:
        """Return an input as a contiguous, aligned array: the input itself, or a copy."""
        array = self.arrays[name]
        wanted = dense(shape, array.lies.dtype, self.device)
        if array.lies.strides != wanted.strides or not self.is_aligned(array):
            source, array = array, self.part(f"plain_{name}", shape, array.lies.dtype)
            self.copy(source, array)
        return array

    def copied(self, name: str, width: int = 0, sign: int = 1, pitch: int = ALIGNED) -> Array:
        """Return a contiguous copy of an input times a sign.

        Rows start at multiples of `pitch` bytes, and are padded with zeros up to a width.
        """
        source = self.arrays[name]
        *rest, last = source.lies.shape
        target = self.part(name, (*rest, width or last), source.lies.dtype, pitch)
        if width > last or not sign:
            self.zero(target)
        if sign:
            self.copy(source, target, sign)
        return target

    def returned(self, name: str, width: int = 0, sign: int = 1, pitch: int = ALIGNED, queries: int = 0) -> Array:
        """Return scratch memory for an output, and add a step that copies it times a sign to the output at the end.

        Rows have a given width and start at multiples of `pitch` bytes. The scratch array may have more queries than
        the output.
        """
        own = self.arrays[name]
        *rest, last = own.lies.shape
        if queries:
            rest[2] = queries
        made = self.part(name, (*rest, width or last), own.lies.dtype, pitch)
        if not sign:
            self.behind.append(Step(ZeroBytes(made.lies.high, self.device), (made.number,)))
        part = cropped(made.lies, own.lies.shape)
        self.behind.append(Step(self._copying(part, own.lies, sign, made, own), (made.number, own.number)))
        return made

    def _copying(self, source: Layout, target: Layout, sign: int, *arrays: Array) -> MapExecutable:
        """Return the executable that copies an array, or its negative; the layouts start where the arrays do."""
        if sign < 0:
            return mapped(negated, (source,), target, ("source", "target"))
        start = gcd(*(self.address(array.number) for array in arrays))
        return copy.executable(*(_in_words((source, target), start) or (source, target)))

    def zero(self, array: Array) -> None:
        """Fill an array with zeros; it may have padding only at the ends of rows."""
        self.add(ZeroBytes(array.lies.high, self.device), array)

    def clear(self, array: Array, part: Layout | None = None, offset: int = 0) -> None:
        """Fill an array with any strides, or a part of it at an offset in bytes, with zeros."""
        lies = array.lies if part is None else part
        if is_dense(lies):
            self.add(ZeroBytes(lies.high, self.device), array, offsets=(offset,))
            return
        zeros = self.part("zeros", lies.shape, lies.dtype)
        self.zero(zeros)
        self.add(copy.executable(zeros.lies, lies), zeros, array, offsets=(0, offset))

    # ------------------------------------------------------------ sequences

    def lengths(self) -> None:
        """Make the arrays "lengths_q" and "lengths_kv", one int32 for each sequence, if the problem has lengths."""
        problem, found = self.problem, self.problem.geometry
        if not problem.has_lengths:
            return
        given = {name: self.arrays[name] for name in ("seq_len_q", "seq_len_kv") if self.has(name)}
        for name, most, tokens in (("q", found.queries, found.tokens), ("kv", found.keys, found.tokens_kv)):
            source = given.get(f"seq_len_{name}") or next(iter(given.values()))
            target = self.part(f"lengths_{name}", (found.batch,), np.int32)
            if found.is_packed:
                step = source.lies.strides[0]
                self.map(between(tokens, most), source, target, (0, step))
            else:
                low = 0 if f"seq_len_{name}" in given else most
                self.map(clamped(low, most), source, target)

    def starts(self, name: str, factor: int, dtype: Any) -> Array:
        """Return the starts of packed sequences, and the end of the last, in tokens times a factor."""
        found = self.problem.geometry
        which, tokens = ("q", found.tokens) if name in ("q", "do", "o", "out", "dq") else ("kv", found.tokens_kv)
        made = f"starts_{which}_{factor}"
        if not self.has(made):
            target = self.part(made, (found.batch + 1,), dtype)
            self.map(clamped(0, tokens, factor), self.arrays[f"seq_len_{which}"], target)
        return self.arrays[made]

    def map(self, formula: Formula, source: Array, target: Array, offsets: Sequence[int] = (0,)) -> None:
        """Apply an integer function to an array's elements, or to several views of it at these byte offsets."""
        shape = target.lies.shape
        reads = tuple(view(0, 0, source.lies.strides, shape)._replace(offset=offset) for offset in offsets)
        self.add(self.mapped(formula, source, target, reads, compute="int64"), source, target)

    def mapped(
        self, formula: Formula, source: Array, target: Array, reads: Any = None, compute: str = ""
    ) -> MapExecutable:
        """Return the executable that applies a scalar function to one array's elements."""
        return mapped(formula, (source.lies,), target.lies, ("source", "target"), reads, compute)

    def word(self, name: str, number: int) -> Array:
        """Return one of the call's scalars as an array in memory."""
        made = self.part(name, (1,), np.int64)
        self.add(PutWord(number, self.device), made, takes_scalars=True)
        return made

    # ------------------------------------------------------------ numbacc's kernels

    def kernel(
        self,
        algorithm: str,
        inputs: dict[str, Array],
        outputs: dict[str, Array],
        steps: Mapping[str, Sequence[int]],
        numbers: Sequence[int],
        blocks: int,
        threads: int,
        *,
        compute: str,
        scalars: tuple[str, ...] = (),
        offsets: dict[str, int] | None = None,
        follows: bool = False,
    ) -> None:
        """Add a launch of one of `kernels.attention.unfused`.

        Args:
            algorithm: the kernel's name.
            inputs, outputs: its arrays, by their names in the kernel.
            steps: the steps of each of these along four dimensions, in elements.
            numbers: the kernel's integer arguments after the steps.
            blocks, threads: the grid.
            compute, scalars: as in `AttentionSpec`.
            offsets: bytes into the arrays.
            follows: as in `LaunchOrder`.
        """
        names, own = [*inputs, *outputs], offsets or {}
        arrays = [*inputs.values(), *outputs.values()]
        spec = AttentionSpec(
            algorithm,
            tuple((name, array.lies.dtype.name) for name, array in inputs.items()),
            tuple((name, array.lies.dtype.name) for name, array in outputs.items()),
            compute,
            scalars,
        )
        order = LaunchOrder(
            kernel=spec,
            device=self.device,
            grid=(blocks, 1),
            block=(threads, 1),
            alignment=tuple(
                self.address(array.number, own.get(name, 0)) % 16 for name, array in zip(names, arrays, strict=True)
            ),
            pointers=tuple((k, 0) for k in range(len(arrays))),
            constants=(*(n for name in names for n in steps[name]), *numbers),
            pairs=(),
            words=words_of(scalars),
            follows=follows,
        )
        launcher = launcher_class()(order)
        launcher.algorithm = algorithm
        # Its first launch skips `launch`, which would check addresses.
        kernel = Unchecked(LaunchExecutable(launcher))
        shifts = tuple(own.get(name, 0) for name in names)
        self.add(kernel, *arrays, takes_scalars=bool(scalars), offsets=shifts)

    def flat(self, count: int) -> tuple[int, int]:
        """Return (blocks, threads) for a number of threads."""
        return -(-count // _THREADS), _THREADS


class Unchecked:
    """An executable that is launched without the checks of a first launch.

    Args:
        inner: the executable.
        scalars: its scalars; None for the scalars of the whole call.
    """

    direct = False
    library_bytes = 0

    def __init__(self, inner: Any, scalars: tuple[int, ...] | None = None):
        self.inner, self._scalars = inner, scalars
        self.workspace_bytes = inner.workspace_bytes
        self.deterministic = getattr(inner, "deterministic", True)

    def ready(self, addresses: Sequence[int]) -> None:
        """Call the inner executable's `ready`; see `Executable.ready`."""
        self.inner.ready(addresses)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the inner executable; see `Executable.launch_unchecked`."""
        own = scalars if self._scalars is None else self._scalars
        return self.inner.launch_unchecked(stream, scratch, addresses, own)

    def check(self, status: int) -> None:
        """Check the inner executable's status; see `Executable.check`."""
        self.inner.check(status)


class Constants:
    """Memory of a plan whose contents do not depend on a call's arrays, so they are written once.

    They may be written while another stream is captured: that does not become a part of the graph.

    Args:
        nbytes: its size.
        device: the GPU.
        write: a function of a stream's handle and the memory's address, which queues the work. Its result lives until
            the work has finished.

    Attributes:
        device: the GPU.
        address: where the memory starts.
    """

    def __init__(self, nbytes: int, device: int, write: Callable[[int, int], Any]):
        self.device = device
        with runtime().relaxed(), runtime().on_device(device):
            self._stream = stream(device=device)
            handle = self._stream.handle
            self._storage = runtime().allocate(nbytes, device, handle)
            self.address: int = self._storage.address
            temporary = write(handle, self.address)
            runtime().synchronize(handle, device)
            del temporary


def _in_words(arrays: Sequence[Layout], start: int) -> list[Layout] | None:
    """Return arrays of the same shape with larger elements, the largest that their rows consist of, or None.

    Kernels copy rows that are aligned to 16 bytes in full accesses, but short ones that are not element by element.

    Args:
        arrays: their layouts.
        start: a number of bytes that divides all their addresses; 0 for any number.
    """
    *outer, last = arrays[0].shape
    itemsize, rows = arrays[0].itemsize, [step for each in arrays for step in _steps_between(each)]
    size = gcd(8, start, last * itemsize, *rows)
    if (
        size <= itemsize
        or gcd(ALIGNED, start, *rows) == ALIGNED
        or any(each.strides[-1] != itemsize for each in arrays)
    ):
        return None
    word, shape = np.dtype(f"uint{8 * size}"), (*outer, last * itemsize // size)
    return [layout(shape, (*each.strides[:-1], size), word, each.device) for each in arrays]


def _steps_between(array: Layout) -> list[int]:
    """Return an array's strides along all axes but the last, except axes of length 1."""
    return [step for n, step in zip(array.shape[:-1], array.strides[:-1], strict=True) if n > 1]


def cropped(array: Layout, shape: Sequence[int]) -> Layout:
    """Return the layout of an array's first elements along each axis."""
    return layout(tuple(shape), array.strides, array.dtype, array.device)


def steps_of(array: Array) -> tuple[int, ...]:
    """Return an array's strides in elements, 0 along axes of length 1."""
    lies = array.lies
    return tuple(0 if n == 1 else step // lies.itemsize for n, step in zip(lies.shape, lies.strides, strict=True))


def bounds(problem: AttentionProblem) -> tuple[int, int, int]:
    """Return the band in the form that kernels use: (lower, upper, whether the diagonal ends at the bottom right)."""
    band = problem.band
    return (
        -_NOWHERE if band.lower is None else band.lower,
        _NOWHERE if band.upper is None else band.upper,
        int(band.bottom_right),
    )


# ---------------------------------------------------------------- packed sequences and pages


def unpacked(stage: Stage, name: str) -> None:
    """Copy an input to (batch, heads, longest length, elements), with zeros after the end of each sequence."""
    found, source = stage.problem.geometry, stage.arrays[name]
    length = found.queries if name in ("q", "do", "o") else found.keys
    heads, width = source.lies.shape[1], source.lies.shape[3]
    target = stage.part(name, (found.batch, heads, length, width), source.lies.dtype)
    _move(stage, "unpage" if found.page > 0 and name in ("k", "v") else "unpack", name, source, target)


def packed(stage: Stage, name: str) -> None:
    """Make scratch memory for an output, (batch, heads, longest length, elements), and pack it at the end."""
    found, own = stage.problem.geometry, stage.arrays[name]
    whole = own
    if own.lies.strides[1:] != dense(own.lies.shape, own.lies.dtype, stage.device).strides[1:]:
        whole = stage.returned(name)
    stage.zero(whole)
    length = found.queries if name in ("out", "dq") else found.keys
    made = stage.part(name, (found.batch, own.lies.shape[1], length, own.lies.shape[3]), own.lies.dtype)
    steps = stage.steps
    stage.steps = []
    _move(stage, "pack", name, made, whole)
    stage.behind[:0], stage.steps = stage.steps, steps


def _move(stage: Stage, algorithm: str, name: str, source: Array, target: Array) -> None:
    found = stage.problem.geometry
    which = "q" if name in ("q", "do", "o", "out", "dq") else "kv"
    inputs = {"source": source, "lengths": stage.arrays[f"lengths_{which}"]}
    steps: dict[str, Sequence[int]] = {
        "source": steps_of(source),
        "lengths": (1, 0, 0, 0),
        "target": steps_of(target),
    }
    rows = source if algorithm == "pack" else target
    numbers = [*rows.lies.shape, rows.lies.size]
    if algorithm == "unpage":
        table = stage.part(f"table_{name}", (found.batch, found.pages), np.int32)
        stage.map(clamped(0, found.sheets - 1), stage.arrays[f"page_table_{name}"], table)
        inputs["table"], steps["table"] = table, (found.pages, 0, 1, 0)
        numbers.append(found.page)
    elif found.is_packed:
        inputs["starts"], steps["starts"] = stage.starts(name, 1, np.int64), (1, 0, 0, 0)
    compute = stage.problem.compute.name
    blocks = stage.flat(rows.lies.size)
    stage.kernel(algorithm, inputs, {"target": target}, steps, numbers, *blocks, compute=compute)
