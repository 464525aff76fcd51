"""`python -m numbacc compile`: kernels compiled ahead of their first use, in parallel, and kept on disk.

What is compiled is what everyday calls launch: each family's formulas in each of its dtypes, on arrays that are dense,
that start or end at odd addresses, that are transposed, and that have gaps. Other arrays get kernels when they come.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from . import conv, elementwise, gated
from .base import dtypes
from .base.dispatch import has_gpu, launching_by, simulated
from .base.layout import Layout, layout, row_major_strides
from .conv import depthwise, lowering
from .conv import plans as conv_plans
from .conv.problem import Problem
from .elementwise import (
    casting,
    index_gradients,
    indexing,
    losses,
    norms,
    operation,
    optimizers,
    positions,
    reduction_gradients,
    reduction_plan,
    scans,
    transformer,
)
from .errors import DTypeError
from .fft import arguments, program, repacking, steps
from .functions.gates import FORMULAS
from .gemm import epilogue_plans
from .kernels.elementwise import copy
from .kernels.inspection import Noted
from .libraries.curand import SequenceKind
from .random import plans
from .random.methods import DTYPES
from .runtime import disk_cache
from .runtime.operation import Operation

_ROWS = 256
#: Lengths of rows: many times 16 bytes; those that leave rows at multiples of 8, 4 and 2 bytes; and short ones.
_LONG, _ODD, _SHORT = 4096, (4100, 4098, 4097), 6
#: Elements of an array for which a kernel may do what pays for many only.
_LARGE = 2**28


def _dense(shape: Sequence[int], dtype: str) -> Layout:
    row = dtypes.TABLE[dtype]
    return layout(tuple(shape), row_major_strides(shape, row.itemsize), row.numpy, 0)


def _matrices(columns: int, dtype: str) -> Iterator[tuple[Layout, Layout]]:
    """Matrices of so many columns: (as they lie when they are read, as when they are written)."""
    size = dtypes.TABLE[dtype].itemsize
    dense = _dense((_ROWS, columns), dtype)
    yield dense, dense
    if columns == _LONG:
        strides = (size, size * _ROWS)
        yield layout(dense.shape, strides, dense.dtype, 0), dense
        yield layout(dense.shape, tuple(2 * step for step in dense.strides), dense.dtype, 0), dense


def _gated() -> None:
    for kind in gated.KINDS:
        for dtype in dtypes.FLOATS:
            for columns in (_LONG, *_ODD, _SHORT):
                for (x, whole), (_, half) in zip(
                    _matrices(2 * columns, dtype), _matrices(columns, dtype), strict=False
                ):
                    gated.plan_of("forward", kind, (x,), (half,)).choose((0, 0))
                    gated.plan_of("backward", kind, (half, x), (whole,)).choose((0, 0, 0))


def _gemm() -> None:
    for dtype in dtypes.FLOATS:
        matrix, row = _dense((_ROWS, _LONG), dtype), _dense((_LONG,), dtype)
        for name, formula in FORMULAS.items():
            if name.startswith("epilogue."):
                inputs = (matrix, row if "bias" in name else matrix)[: 1 + ("bias" in name or "dgelu" in name)]
                outputs = (matrix,) * len(formula(*[1.0] * len(inputs)))
                epilogue_plans.map_plan(name, inputs, outputs).choose([0] * (len(inputs) + len(outputs)))
        mask = _dense((_ROWS, _LONG // 8), "uint8")
        epilogue_plans.pack_plan(matrix, mask).choose((0, 0))
        epilogue_plans.select_plan(matrix, mask, matrix).choose((0, 0, 0))
        epilogue_plans.sum_plan(matrix, -2, row).choose((0, 0))
        epilogue_plans.sum_plan(matrix, -1, _dense((_ROWS,), dtype)).choose((0, 0))


#: Pixels of an image in each direction: a channel of which is many times 16 bytes, and is not.
_SIDES = (56, 7)
#: Of x and w the shapes, and their layout.
_IMAGES = [
    given
    for side in _SIDES
    for given in (
        ((8, 64, side, side), (64, 64, 1, 1), "NCHW"),
        ((8, side, side, 64), (64, 1, 1, 64), "NHWC"),
    )
]

#: Taps in each direction, and strides, of layers that meet images.
_FIRST_LAYERS = ((7, 2), (3, 2), (3, 1), (14, 14), (16, 16))


def _choose_others(problem: Problem) -> None:
    """What moves a convolution's operands where it is computed as another."""
    for other in lowering.others(problem):
        _choose(lowering.copies(problem, other))


def _conv() -> None:
    """What cuDNN leaves to us behind convolutions, and of int8 around them; depthwise ones; copies of what starts where
    its fused kernels cannot read it, of kernels where a gradient is a convolution, and of images with few channels."""
    for dtype, (shape, kernels, order) in product(dtypes.FLOATS, _IMAGES):
        asked = conv.requests.request(shape, kernels, dtype=dtype, bias=True, layout=order)
        _choose(conv_plans.everyday(asked.problem.call))
    for (shape, kernels, order), result in product(_IMAGES, ("int32", "float32")):
        asked = conv.requests.request(shape, kernels, dtype="int8", bias=True, layout=order, out_dtype=result)
        _choose(conv_plans.everyday(asked.problem.call))
    _choose(map(conv_plans.ConvPlan, depthwise.everyday()))
    for layout_of_images, taps in product(("NCHW", "NHWC"), (3, 5)):
        shape, kernels = ((8, 64, 56, 56), (64, 64, taps, taps))
        if layout_of_images == "NHWC":
            shape, kernels = ((8, 56, 56, 64), (64, taps, taps, 64))
        asked = conv.requests.request(shape, kernels, direction="backward_data", layout=layout_of_images)
        _choose_others(asked.problem)
    for channels, (taps, stride) in product((1, 3, 4), _FIRST_LAYERS):
        shape, kernels = (8, 224, 224, channels), (64, taps, taps, channels)
        for direction in ("forward", "backward_filter", *["backward_data"] * (stride > 1)):
            asked = conv.requests.request(
                shape, kernels, direction=direction, dtype="float16", layout="NHWC", stride=stride
            )
            _choose_others(asked.problem)
    for size in (1, 2, 4, 8):
        for lengths in ((8, 64, _SIDES[0], _SIDES[0]), (64,)):
            array = _dense(lengths, f"uint{8 * size}")
            copy.executable(array, array).choose((size, 0))


def _fft() -> None:
    for function, names in (
        ("fft", ("complex64", "complex128", "float32", "float64")),
        ("ifft", ("complex64", "complex128")),
        ("rfft", ("float32", "float64", "float16")),
        ("irfft", ("complex64", "complex128")),
    ):
        for name in names:
            for norm in (None, "ortho"):
                for shape, axis in (((_ROWS, 1024), 1), ((1024, _ROWS), 0)):
                    asked = arguments.request(function, _dense(shape, name), (axis,), (1024,), norm, False, None)
                    for step in program.build(asked, True).steps:
                        if isinstance(step, steps.Repack):
                            repacking.executable(step, 1024).choose((0, 0))


#: Method -> its arguments, where it has some.
_DRAWS: dict[str, tuple[Any, ...]] = {
    "bits": (),
    "random": (),
    "uniform": (0.0, 1.0),
    "integers": (0, 100, False),
    "dropout_mask": (0.5,),
    "normal": (0.0, 1.0),
    "lognormal": (0.0, 1.0),
}


def _random() -> None:
    sequence = SequenceKind("philox", "default", 1, 0)
    for method, given in _DRAWS.items():
        for dtype in DTYPES[method]:
            for size in (_LONG, _ODD[-1]):
                plan = plans.planned(method, given, size, dtype, sequence)
                plan.ready(())
                plan.drawing_from_gpu.ready((0, 0))  # what graphs launch


def _copies() -> None:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for columns in (_LONG, *_ODD, _SHORT):
            for source, target in _matrices(columns, dtype):
                copy.executable(source, target).choose((0, 0))
                copy.executable(target, source).choose((0, 0))


def _elementwise() -> None:
    """Every function and gradient in every float, of dense arrays and numbers for options, of odd rows, and of large
    arrays; those that have integers in the ones that are most used; steps of lists of parameters."""
    for row in elementwise.rows():
        for dtype in (*dtypes.FLOATS, "int32", "int64", "bool", "complex64"):
            shapes = [(_ROWS, _LONG), (_ROWS, _ODD[-1]), (_LARGE,)] if dtype in dtypes.FLOATS else [(_ROWS, _LONG)]
            for shape in shapes:
                matrix, mask = _dense(shape, dtype), _dense(shape, "bool")
                numbers = row.names[len(row.names) - row.options :]
                given = tuple(
                    float if name in numbers else mask if k in row.truths else matrix
                    for k, name in enumerate(row.names)
                )
                try:
                    plan = operation.planned(row, given)
                except DTypeError:
                    continue
                plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
    for dtype in dtypes.FLOATS:
        for moments in dict.fromkeys((dtype, "float64" if dtype == "float64" else "float32")):
            optimizers.everyday(_dense((_LONG,), dtype), _dense((_LONG,), moments))


#: Functions of the family that are reduced in all floats, and their option.
_REDUCTIONS = {
    **dict.fromkeys(("sum", "mean", "max", "min", "argmax", "argmin", "logsumexp"), None),
    "var": 0.0,
    "std": 0.0,
    "norm": 2.0,
}


def _reductions() -> None:
    """Of rows, columns and all of a matrix, and gradients of rows; sums up to each element of a row, a column, all;
    softmax and normalizations of rows, forward and backward."""
    for dtype in dtypes.FLOATS:
        for columns in (_LONG, _ODD[-1]):
            matrix, row = _dense((_ROWS, columns), dtype), _dense((columns,), dtype)
            for axis in (0, 1, None):
                for name, option in _REDUCTIONS.items():
                    reduction_plan.planned(name, matrix, axis, option).choose((0, 0))
            _choose(reduction_gradients.everyday(matrix))
            for name, arrays in norms.everyday(matrix, row):
                plan = norms.planned(name, arrays)
                plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
            for x, axis in ((matrix, 0), (matrix, 1), (_dense((_ROWS * columns,), dtype), 0)):
                for name, reverse in (("cumsum", False), ("cumsum", True), ("cumprod", False)):
                    scans.planned(name, x, axis, reverse=reverse).choose((0, 0))


#: Lengths of the axes of queries: batch, heads or positions, positions or heads, a head.
_QUERIES = (2, 16, 64, 128)


#: Tokens of a large batch; and of one whose rows have threads of their own, each with as much as it keeps.
_MANY, _BATCH = 2**18, 2**13


def _blocks() -> None:
    """What models have beside products and norms: arrays by position, gathers, their gradients, casts and copies, those
    of floats of 8 bits too, rope, dropout, activations of sums, losses."""
    tokens, places = _dense((_ROWS,), "int64"), _dense((_ROWS, 1), "int64")
    for dtype in dtypes.FLOATS:
        _, first, second, width = _QUERIES
        for table in ((second, width // 2), (first, 1, width // 2)):
            angles = _dense(table, str(dtypes.TABLE[dtype].compute))
            _choose(transformer.everyday_rope(_dense(_QUERIES, dtype), angles))
        for columns in (_LONG, _ODD[-1]):
            matrix, row = _dense((_ROWS, columns), dtype), _dense((columns,), dtype)
            _choose(casting.everyday(matrix))
            _choose(positions.everyday(matrix, tokens))
            _choose(indexing.everyday(matrix, tokens, places))
            # Of so many tokens that a thread takes several accesses.
            _choose(indexing.everyday(matrix, _dense((_MANY,), "int64"), places))
            _choose(index_gradients.everyday(matrix, matrix.shape, tokens, places))
            _choose(transformer.everyday_dropout(matrix))
            _choose(transformer.everyday(matrix, row))
            _choose(losses.everyday(matrix, tokens))
        _choose(losses.everyday(_dense((_BATCH, _LONG), dtype), _dense((_BATCH,), "int64")))
    for dtype in casting.NARROW:
        for columns in (_LONG, _ODD[-1]):
            _choose(casting.everyday(_dense((_ROWS, columns), dtype)))


def _choose(found: Iterable[Operation]) -> None:
    """Choose the kernels of operations, of arrays that are aligned."""
    for plan in found:
        plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))


#: Family -> what plans its everyday calls.
FAMILIES: dict[str, Callable[[], None]] = {
    "blocks": _blocks,
    "conv": _conv,
    "copies": _copies,
    "elementwise": _elementwise,
    "fft": _fft,
    "gated": _gated,
    "gemm": _gemm,
    "random": _random,
    "reductions": _reductions,
}


def kernels(families: Iterable[str]) -> list[Any]:
    """The kernels that everyday calls of families launch, each once."""
    found: list[Any] = []
    with launching_by(Noted.into(found)):
        for family in families:
            FAMILIES[family]()
    # What was noted launches nothing.
    for shared in (copy, repacking):
        shared.executable.cache_clear()
    epilogue_plans.plans.clear()
    return list(dict.fromkeys(found))


def compile_kernel(kernel: Any, capability: tuple[int, int]) -> bool:
    """Compile a kernel unless it is kept on disk already; True if it was compiled."""
    from .runtime.launch import compile_cubin

    key = disk_cache.key(kernel, capability)
    if disk_cache.load(key) is not None:
        return False
    disk_cache.save(key, *compile_cubin(kernel, capability))
    return True


def _start(capability: tuple[int, int]) -> None:
    """Begin a process that compiles."""
    from .base._numba import pretend_capability

    pretend_capability(capability)


#: Kernels next to each other are much alike, and so are their device functions, which a process compiles once.
_TOGETHER = 4


def _compile(task: tuple[Any, tuple[int, int]]) -> bool:
    return compile_kernel(*task)


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def main(argv: list[str]) -> int:
    """The command line of `python -m numbacc compile`."""
    parser = argparse.ArgumentParser(prog="python -m numbacc compile", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=f"any of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--capability", type=_capability, help="for GPUs of this compute capability, as 9.0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="as many as there are processors")
    options = parser.parse_args(argv)
    if unknown := set(options.families) - FAMILIES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if simulated():
        print("the simulator compiles nothing")
        return 1
    capability = options.capability
    if capability is None:
        if not has_gpu():
            print("there is no GPU: say which compute capability to compile for, as --capability 9.0")
            return 1
        from .runtime import device

        capability = device.capability(device.current_device())
    tasks = [
        (kernel, capability)
        for kernel in kernels(options.families or FAMILIES)
        if all(dtypes.TABLE[name].oldest_capability <= capability for name in kernel.dtypes)
    ]
    # Children of a process that uses a GPU cannot use it, nor need they: they start anew.
    with multiprocessing.get_context("spawn").Pool(options.processes, _start, (capability,)) as pool:
        made = sum(_shown(pool.imap_unordered(_compile, tasks, _TOGETHER), len(tasks)))
    print(f"{made} kernels compiled, {len(tasks) - made} were there, in {disk_cache.directory()}")
    return 0


def _shown(results: Iterable[bool], total: int) -> Iterator[bool]:
    """The results as they come, with a bar of how many there are."""
    try:
        from tqdm import tqdm
    except ImportError:
        for number, result in enumerate(results, 1):
            print(f"\r{number} of {total} kernels", end="" if number < total else "\n", file=sys.stderr, flush=True)
            yield result
    else:
        yield from tqdm(results, "kernels", total)


__all__ = ["FAMILIES", "Noted", "compile_kernel", "kernels", "main"]
