"""`python -m numbacc compile`: compile kernels before their first use, in parallel, into the disk cache.

The command compiles the kernels of everyday calls: each family's functions in each of its dtypes. Their arrays are
contiguous, or start or end at odd addresses, or are transposed, or have gaps. Kernels for other arrays are compiled
when they are needed.

Each module names the kernels that its functions need, in a function `everyday_<family>`, or several functions
`everyday_<family>_<subject>`. Their parameters are names of `_arrays`. The function returns operations, and the command
chooses their kernels for aligned arrays. Or it chooses kernels itself, and returns None. The command finds these
functions in all modules that are loaded.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from itertools import product
from typing import Any

from . import elementwise, gated
from .base import dtypes
from .base.dispatch import has_gpu, launching_by, simulated
from .base.layout import Layout, layout, row_major_strides
from .conv import ahead  # noqa: F401  it lists the convolutions to compile
from .elementwise import operation
from .errors import DTypeError
from .fft import arguments, program, repacking, steps
from .functions.epilogues import FORMULAS
from .gemm import epilogue_plans
from .kernels.elementwise import copy
from .kernels.inspection import Noted
from .libraries.curand import SequenceKind
from .random import plans
from .random.methods import DTYPES
from .runtime import disk_cache
from .runtime.operation import Operation

_ROWS = 256
#: Lengths of rows: whole 16-byte words; lengths with which rows start at multiples of 8, 4 and 2 bytes; and a short
#: one.
_LONG, _ODD, _SHORT = 4096, (4100, 4098, 4097), 6
#: A size of arrays so large that kernels choose methods that pay off only for many elements.
_LARGE = 2**28
#: Lengths of the axes of queries: batch; heads or positions; positions or heads; elements of a head.
_QUERIES = (2, 16, 64, 128)
#: Tokens of a large batch; and of a batch whose rows each have threads that keep the row in registers.
_MANY, _BATCH = 2**18, 2**13
#: Floats that kernels only copy and convert.
_NARROW = ("float8_e4m3fn", "float8_e5m2")


def _dense(shape: Sequence[int], dtype: str) -> Layout:
    row = dtypes.TABLE[dtype]
    return layout(tuple(shape), row_major_strides(shape, row.itemsize), row.numpy, 0)


def _matrices(columns: int, dtype: str) -> Iterator[tuple[Layout, Layout]]:
    """Yield (layout for reading, layout for writing) of matrices with this number of columns."""
    size = dtypes.TABLE[dtype].itemsize
    dense = _dense((_ROWS, columns), dtype)
    yield dense, dense
    if columns == _LONG:
        strides = (size, size * _ROWS)
        yield layout(dense.shape, strides, dense.dtype, 0), dense
        yield layout(dense.shape, tuple(2 * step for step in dense.strides), dense.dtype, 0), dense


# ---------------------------------------------------------------- the arrays of everyday calls


def _arrays(dtype: str, columns: int) -> dict[str, list[Any]]:
    """Return the layouts of arrays of floats, and of indices, by the names of parameters of everyday functions."""
    matrix, tokens = _dense((_ROWS, columns), dtype), _dense((_ROWS,), "int64")
    if dtype in _NARROW:
        return {"stored": [matrix]}
    compute = str(dtypes.TABLE[dtype].compute)
    _, first, second, width = _QUERIES
    batch = [(_dense((_BATCH, _LONG), dtype), _dense((_BATCH,), "int64"))] * (columns == _LONG)
    return {
        "matrix": [matrix],
        # Any float dtype, including those that kernels only copy and convert.
        "stored": [matrix],
        "row": [_dense((columns,), dtype)],
        "vector": [_dense((_LONG,), dtype)],
        # Arrays of an optimizer's state.
        "moments": [_dense((_LONG,), name) for name in {dtype, "float64" if dtype == "float64" else "float32"}],
        # One index for each row of the matrix; or enough indices that each thread makes several accesses.
        "tokens": [tokens],
        "indices": [tokens, _dense((_MANY,), "int64")],
        "places": [_dense((_ROWS, 1), "int64")],
        # Rows of numbers, with a class for each row.
        "labelled": [(matrix, tokens), *batch],
        "queries": [_dense(_QUERIES, dtype)],
        "angles": [_dense(table, compute) for table in ((second, width // 2), (first, 1, width // 2))],
    }


def _given(names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments for parameters of these names, each combination once."""
    tools: dict[str, list[Any]] = {"dense": [_dense], "matrices": [_matrices]}
    if {*names} <= tools.keys():
        yield from product(*(tools[name] for name in names))
        return
    found = {}
    for dtype, columns in product((*dtypes.FLOATS, *_NARROW), (_LONG, _ODD[-1])):
        arrays = _arrays(dtype, columns)
        if {*names} <= arrays.keys():
            found.update(dict.fromkeys(product(*(arrays[name] for name in names))))
    yield from found


# ---------------------------------------------------------------- families whose calls follow from a table


def everyday_gated() -> Iterator[Operation]:
    for kind, dtype, columns in product(gated.KINDS, dtypes.FLOATS, (_LONG, *_ODD, _SHORT)):
        for (x, whole), (_, half) in zip(_matrices(2 * columns, dtype), _matrices(columns, dtype), strict=False):
            yield gated.plan_of("forward", kind, (x,), (half,))
            yield gated.plan_of("backward", kind, (half, x), (whole,))


def everyday_gemm() -> Iterator[Operation]:
    for dtype in dtypes.FLOATS:
        matrix, row = _dense((_ROWS, _LONG), dtype), _dense((_LONG,), dtype)
        for name, formula in FORMULAS.items():
            if name.startswith("epilogue."):
                inputs = (matrix, row if "bias" in name else matrix)[: 1 + ("bias" in name or "dgelu" in name)]
                outputs = (matrix,) * len(formula(*[1.0] * len(inputs)))
                yield epilogue_plans.map_plan(name, inputs, outputs)
        mask = _dense((_ROWS, _LONG // 8), "uint8")
        yield epilogue_plans.pack_plan(matrix, mask)
        yield epilogue_plans.select_plan(matrix, mask, matrix)
        yield epilogue_plans.sum_plan(matrix, -2, row)
        yield epilogue_plans.sum_plan(matrix, -1, _dense((_ROWS,), dtype))


def everyday_fft() -> Iterator[Operation]:
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
                            yield repacking.executable(step, 1024)


#: Method -> its arguments.
_DRAWS: dict[str, tuple[Any, ...]] = {
    "bits": (),
    "random": (),
    "uniform": (0.0, 1.0),
    "integers": (0, 100, False),
    "dropout_mask": (0.5,),
    "normal": (0.0, 1.0),
    "lognormal": (0.0, 1.0),
}


def everyday_random() -> None:
    sequence = SequenceKind("philox", "default", 1, 0)
    for method, given in _DRAWS.items():
        for dtype in DTYPES[method]:
            for size in (_LONG, _ODD[-1]):
                plan = plans.planned(method, given, size, dtype, sequence)
                plan.ready(())
                plan.drawing_from_gpu.ready((0, 0))  # the kernels that graphs launch


def everyday_copies() -> Iterator[Operation]:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for columns in (_LONG, *_ODD, _SHORT):
            for source, target in _matrices(columns, dtype):
                yield copy.executable(source, target)
                yield copy.executable(target, source)


def everyday_elementwise() -> Iterator[Operation]:
    """Yield every elementwise function and gradient in the dtypes that are used most.

    For floats these are contiguous arrays with scalar options, rows of odd length, and large arrays; for other dtypes
    contiguous arrays.
    """
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
                    yield operation.planned(row, given)
                except DTypeError:
                    continue


# ---------------------------------------------------------------- all of them


def everyday() -> dict[str, list[Callable[..., Iterable[Operation] | None]]]:
    """Return the everyday functions of each family."""
    found: dict[str, list[Any]] = {}
    for path, module in sorted(sys.modules.items()):
        if path.startswith(f"{__package__}."):
            for name, function in vars(module).items():
                if name.startswith(_PREFIX) and function.__module__ == path:
                    found.setdefault(name.removeprefix(_PREFIX).partition("_")[0], []).append(function)
    return dict(sorted(found.items()))


_PREFIX = "everyday_"
FAMILIES = everyday()


def kernels(families: Iterable[str]) -> list[Any]:
    """Return the kernels that everyday calls of families launch, each once."""
    found: list[Any] = []
    with launching_by(Noted.into(found)):
        for function in (function for family in families for function in FAMILIES[family]):
            for given in _given(signature(function).parameters):
                for plan in function(*given) or ():
                    plan.choose([0] * (len(plan.inputs) + len(plan.outputs)))
    # The recorded executables launch nothing, so the caches must not keep them.
    for shared in (copy, repacking):
        shared.executable.cache_clear()
    epilogue_plans.plans.clear()
    return list(dict.fromkeys(found))


def compile_kernel(kernel: Any, capability: tuple[int, int]) -> bool:
    """Compile a kernel unless the disk cache contains it; return True if it was compiled."""
    from .runtime.launch import compile_cubin

    key = disk_cache.key(kernel, capability)
    if disk_cache.load(key) is not None:
        return False
    disk_cache.save(key, *compile_cubin(kernel, capability))
    return True


def _start(capability: tuple[int, int]) -> None:
    """Initialize a process that compiles."""
    from .base._numba import pretend_capability

    pretend_capability(capability)


#: Kernels per task: adjacent kernels share device functions, which a process compiles only once.
_TOGETHER = 4


def _compile(task: tuple[Any, tuple[int, int]]) -> bool:
    return compile_kernel(*task)


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def main(argv: list[str]) -> int:
    """Run the command line of `python -m numbacc compile`."""
    parser = argparse.ArgumentParser(prog="python -m numbacc compile", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=f"any of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--capability", type=_capability, help="for GPUs of this compute capability, as 9.0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="as many as there are processors")
    options = parser.parse_args(argv)
    if unknown := set(options.families) - FAMILIES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if simulated():
        print("the simulator compiles nothing: unset NUMBA_ENABLE_CUDASIM")
        return 1
    capability = options.capability
    if capability is None:
        if not has_gpu():
            print("no GPU was found: pass the compute capability to compile for, such as --capability 9.0")
            return 1
        from .runtime import device

        capability = device.capability(device.current_device())
    tasks = [
        (kernel, capability)
        for kernel in kernels(options.families or FAMILIES)
        if all(dtypes.TABLE[name].oldest_capability <= capability for name in kernel.dtypes)
    ]
    # A forked child of a process that uses a GPU could not use it, so the processes are spawned.
    with multiprocessing.get_context("spawn").Pool(options.processes, _start, (capability,)) as pool:
        made = sum(_shown(pool.imap_unordered(_compile, tasks, _TOGETHER), len(tasks)))
    print(f"{made} kernels compiled, {len(tasks) - made} were already cached, in {disk_cache.directory()}")
    return 0


def _shown(results: Iterable[bool], total: int) -> Iterator[bool]:
    """Yield the results as they arrive, with a progress bar."""
    try:
        from tqdm import tqdm
    except ImportError:
        for number, result in enumerate(results, 1):
            print(f"\r{number} of {total} kernels", end="" if number < total else "\n", file=sys.stderr, flush=True)
            yield result
    else:
        yield from tqdm(results, "kernels", total)


__all__ = ["FAMILIES", "Noted", "compile_kernel", "kernels", "main"]
