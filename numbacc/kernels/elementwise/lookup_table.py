"""The kernel that looks up results: y[i] = table[x[i]], for 16-bit x, with at most 65,536 results.

For large arrays this is faster than an expensive formula. Each launch builds the table once, in shared memory, with the
formula itself; an element then costs one load from it. Results are bitwise equal to the results of `map.vector`.

Blocks are persistent, because a multiprocessor has room for only one table. Each block of a cluster builds part of the
table and writes it to the shared memory of all blocks.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import WARP
from ..primitives.instructions import kept_memory
from ..primitives.lookup_table import PATTERNS, tabulating
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import Kernel, KernelSpec, map_parameters


def _filling(spec: KernelSpec, io: SimpleNamespace, lanes: SimpleNamespace) -> Any:
    """Return the device function (tile, rank, blocks, more) that builds the table with all blocks of a cluster."""
    assert spec.formula is not None
    formula = specialize(spec.formula.function, spec.compute, spec.narrow)
    map_lanes, width = io.map_lanes, spec.width
    patterns, packed, put, arrive, wait = lanes.patterns, lanes.packed, lanes.put, lanes.arrive, lanes.wait

    def fill(tile, rank, blocks, more):
        threads = cuda.blockDim.x
        # A block must have started before others write to its shared memory.
        arrive()
        wait()
        for group in range(rank * threads + cuda.threadIdx.x, PATTERNS // width, blocks * threads):
            results = packed(map_lanes(formula, patterns(group), more))
            for block in range(blocks):
                put(tile, group, results, block)
        arrive()
        wait()

    return cuda.jit(device=True)(fill)


def tabulated(spec: KernelSpec) -> Kernel:
    """Return the kernel; `blocks` blocks share the work of building a table.

    Warps then process adjacent accesses. Adjacent warps belong to different blocks, so that all multiprocessors get the
    same amount. The unaligned elements (the first `head` ones, and the tail after the last complete access) are
    processed one by one.
    """
    io = operands(tuple(TABLE[name] for name in spec.reads), spec.width, spec.width, spec.compute)
    given = spec.reads[0], spec.writes[0], spec.compute, spec.width
    lanes, single = tabulating(*given, spec.lanes // spec.width), tabulating(*given, 1)
    fill, scalars, offsets = _filling(spec, io, lanes), scalar_reader(tuple(spec.scalars)), io.offsets
    look_up, look_up_one, look_up_element = lanes.look_up, single.look_up, lanes.look_up_element
    width, pieces, row = spec.width, spec.lanes // spec.width, (0,) * spec.rank  # the only one

    def kernel(ins, outs, in_steps, out_steps, outer, blocks, columns, head, vectors, words):
        tile = kept_memory()
        threads, block, thread = cuda.blockDim.x, cuda.blockIdx.x, cuda.threadIdx.x
        fill(tile, block % blocks, blocks, scalars(words))
        warps, warp = cuda.gridDim.x * (threads // WARP), thread // WARP * cuda.gridDim.x + block
        start = warp * pieces * WARP + thread % WARP
        while start + (pieces - 1) * WARP < vectors:
            place = row + (head + start * width,)
            look_up(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps), WARP * width)
            start += warps * pieces * WARP
        # Fewer than `pieces` accesses are left before the end of the array.
        while start < vectors:
            place = row + (head + start * width,)
            look_up_one(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps), WARP * width)
            start += WARP
        body = vectors * width
        for item in range(warp * WARP + thread % WARP, columns - body, warps * WARP):
            place = row + (item if item < head else item + body,)
            look_up_element(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps))

    return kernel


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    return tabulated(spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, 1, 4)
