"""The kernel that looks results up: y[i] = table[x[i]], where x has 16 bits, so that there are 65,536 results at most.

Of large arrays that is quicker than long arithmetic: the table is made once by each launch, in shared memory, by the
formula itself, and an element costs a load from there. Results have the bits that `map.vector` gives them.

Blocks stay on their multiprocessors, as one has room for one table only. Those of a cluster each make a part of the
table and put it into the shared memory of all.
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
    """The device function (tile, rank, blocks, more) that makes the table: all blocks of a cluster, each its share."""
    assert spec.formula is not None
    formula = specialize(spec.formula.function, spec.compute, spec.narrow)
    map_lanes, width = io.map_lanes, spec.width
    patterns, packed, put, arrive, wait = lanes.patterns, lanes.packed, lanes.put, lanes.arrive, lanes.wait

    def fill(tile, rank, blocks, more):
        threads = cuda.blockDim.x
        # Nobody writes into the memory of a block that has not begun.
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
    """`blocks` share the making of a table. Then warps take accesses side by side, neighbouring warps' in different
    blocks, so that all multiprocessors have as many; what is not aligned, the first `head` elements and what follows
    the last whole access, is taken one by one.
    """
    io = operands(tuple(TABLE[name] for name in spec.reads), spec.width, spec.width, spec.compute)
    given = spec.reads[0], spec.writes[0], spec.compute, spec.width
    lanes, single = tabulating(*given, spec.lanes // spec.width), tabulating(*given, 1)
    fill, scalars, offsets = _filling(spec, io, lanes), scalar_reader(tuple(spec.scalars)), io.offsets
    look_up, look_up_one, look_up_element = lanes.look_up, single.look_up, lanes.look_up_element
    width, pieces = spec.width, spec.lanes // spec.width

    def kernel(ins, outs, in_steps, out_steps, outer, blocks, columns, head, vectors, words):
        tile = kept_memory()
        threads, block, thread = cuda.blockDim.x, cuda.blockIdx.x, cuda.threadIdx.x
        fill(tile, block % blocks, blocks, scalars(words))
        warps, warp = cuda.gridDim.x * (threads // WARP), thread // WARP * cuda.gridDim.x + block
        start = warp * pieces * WARP + thread % WARP
        while start + (pieces - 1) * WARP < vectors:
            place = (0, head + start * width)
            look_up(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps), WARP * width)
            start += warps * pieces * WARP
        # Fewer than `pieces`: the array ends in between.
        while start < vectors:
            place = (0, head + start * width)
            look_up_one(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps), WARP * width)
            start += WARP
        body = vectors * width
        for item in range(warp * WARP + thread % WARP, columns - body, warps * WARP):
            place = (0, item if item < head else item + body)
            look_up_element(tile, ins, offsets(place, in_steps), outs, offsets(place, out_steps))

    return kernel


def make(spec: KernelSpec) -> Kernel:
    """See `kernel_code.make`."""
    return tabulated(spec)


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: see `runtime.kernel_code`."""
    return map_parameters(spec, 1, 4)
