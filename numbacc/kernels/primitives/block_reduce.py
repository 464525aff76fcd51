"""Reductions over the threads that share a result: inside a warp, in shared memory, and among blocks.

`parts` are the partial results of one lane, as in `partials`. Numba's simulator has neither warps nor clusters, so
`swap` and `meet` are plain Python there. In the compiled simulator their twins replace them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...runtime.launch_order import ROW_BLOCKS, WARP
from ..specs import ROW_BOUNDS

if not SIMULATED:
    from ...base._numba import intrinsic, ir, types
    from .formats import number_of_registers, register_words
    from .instructions import ALL_THREADS, assembly
    from .load_store import aggregate

    _I32, _I64 = ir.IntType(32), ir.IntType(64)

#: Cells that a reduction needs for the partial results of each warp.
WARP_CELLS = ROW_BOUNDS[0] // WARP
#: All cells that it needs: after these come the cells for each block that shares a row.
CELLS = WARP_CELLS + ROW_BLOCKS


def _merging(stage: SimpleNamespace, lanes: int) -> Callable[..., Any]:
    """Return the device function (parts) -> the merged partial results of `lanes` adjacent lanes of a warp.

    `lanes` is a power of two. All lanes get the same result: both lanes of a pair merge the other's value, and a merge
    does not depend on the order of its two arguments.
    """
    half, join, merge = lanes // 2, stage.join, stage.merge

    def settle(parts):
        return join(merge, parts, swap(parts, half))

    one: Callable[..., Any] = cuda.jit(device=True)(settle)
    if lanes == 2:
        return one
    fewer = _merging(stage, half)

    def settle_all(parts):
        return fewer(one(parts))

    jitted: Callable[..., Any] = cuda.jit(device=True)(settle_all)
    return jitted


def settling_warps(stage: SimpleNamespace, warps: int, walks: bool = False) -> Any:
    """Return the device function (parts, cells, place, thread, rank, group) -> the partial results of a whole group.

    All threads of the group get the result. They are adjacent, and their number is a power of two up to a warp, or a
    number of whole warps, at most `warps`, which is a power of two. `thread` is a thread's number in the block, `rank`
    that in its group; the block uses the cells from `place` on. With `walks`, groups of several warps do not wait for
    each other; there are at most 15 such groups in a block, one for each `threadIdx.y`.
    """
    put, take, join, merge, nothing = stage.put, stage.take, stage.join, stage.merge, stage.start(1)
    warp, shift, whole, others = WARP, WARP.bit_length() - 1, _merging(stage, WARP), _merging(stage, warps)

    def meet_all(group):
        cuda.syncthreads()

    def meet_own(group):
        meet(cuda.threadIdx.y + 1, group)

    wait_for_warps = cuda.jit(device=True)(meet_own if walks else meet_all)

    def settle(parts, cells, place, thread, rank, group):
        if group < warp:
            half = group >> 1
            while half > 0:
                parts = join(merge, parts, swap(parts, half))
                half >>= 1
            return parts
        parts = whole(parts)
        if group == warp:
            return parts
        if thread & (warp - 1) == 0:
            put(cells, 0, place + (thread >> shift), parts)
        wait_for_warps(group)
        # Each thread of a warp reads one partial result: reading them in turn would wait for each load.
        number, parts = thread & (warps - 1), nothing()
        if number < group >> shift:
            parts = take(cells, 0, place + (np.int32(thread - rank) >> shift) + number)
        return others(parts)

    return cuda.jit(device=True)(settle)


def settling(stage: SimpleNamespace, lanes: int, least: int = 1) -> Any:
    """Return the device function that merges, lane by lane, the cells of the threads of a group.

    Its arguments are (cells, thread, rank, group, stride): the threads of a group are `stride` apart, and `rank` is a
    thread's number in the group. The first thread gets the result. It merges threads that are at least `least` apart,
    and returns half the number of threads whose cells remain to be merged.
    """
    put, take, join, merge = stage.put, stage.take, stage.join, stage.merge

    def settle(cells, thread, rank, group, stride):
        half = group // 2
        while half * stride >= least:
            cuda.syncthreads()
            if rank < half:
                other = thread + half * stride
                for lane in range(lanes):
                    put(cells, lane, thread, join(merge, take(cells, lane, thread), take(cells, lane, other)))
            half //= 2
        return half

    return cuda.jit(device=True)(settle)


def settling_columns(stage: SimpleNamespace, lanes: int) -> Any:
    """Return a variant of `settling` in the same order, but without barriers in a warp; all threads call it."""
    put, take, join, merge, apart = stage.put, stage.take, stage.join, stage.merge, settling(stage, lanes, WARP)

    def settle(cells, thread, rank, group, stride):
        half = apart(cells, thread, rank, group, stride)
        if half > 0:
            for lane in range(lanes):
                parts, step = take(cells, lane, thread), half * stride
                while step >= stride:
                    parts = join(merge, parts, swap(parts, step))
                    step //= 2
                # Other warps may still read their cells, so only the first thread writes.
                if rank == 0:
                    put(cells, lane, thread, parts)

    return cuda.jit(device=True)(settle)


def _joining(stage: SimpleNamespace) -> Any:
    """Return the device function (cells, place, thread, blocks) -> the merged partial results of all blocks.

    They are in cells, starting at `place`.
    """
    take, nothing, others, most = stage.take, stage.start(1), _merging(stage, ROW_BLOCKS), ROW_BLOCKS

    def joined(cells, place, thread, blocks):
        number, parts = thread & (most - 1), nothing()
        if number < blocks:
            parts = take(cells, 0, place + number)
        return others(parts)

    return cuda.jit(device=True)(joined)


def settling_blocks(stage: SimpleNamespace, is_first: bool) -> Any:
    """Return the device function (parts, cells, place, thread, blocks) -> the partial results of a cluster's blocks.

    Each block writes its partial results into the cells of all blocks. The kernel calls `arrive` before the first
    stage, so that no block writes to another before that one has started.
    """
    joined, cells_before = _joining(stage), WARP_CELLS

    def settle(parts, cells, place, thread, blocks):
        if is_first:
            wait()
        place += cells_before
        if thread < blocks:
            put_in(cells, place + block_in_cluster(), parts, thread)
        arrive()
        wait()
        return joined(cells, place, thread, blocks)

    return cuda.jit(device=True)(settle)


def exchanging_blocks(stage: SimpleNamespace, number: int, stages: int) -> tuple[Any, Any]:
    """Return a variant of `settling_blocks` for groups that process row after row, as two device functions.

    (parts, rank, sent) sends; (rank, sent) waits for the partial results of all blocks and returns them. `sent` is
    (blocks, signals, arrived, turn, side).

    Each message raises a signal at its receiver. A cluster barrier would also wait for everything that a thread has in
    flight, such as the last row's results and the next row. `turn` counts a group's rows, which use two signals of each
    stage alternately. `arrived` are cells for each signal, one per block. `rank` is a thread's number in its group, and
    `side` is the group's number. A group sends for a row only after all its threads have received the previous row's
    messages.
    """
    joined, most = _joining(stage), ROW_BLOCKS

    def signal_of(turn, side):
        return 2 * (side * stages + number) + (turn & 1)

    which = cuda.jit(device=True)(signal_of)

    def send_all(parts, rank, sent):
        blocks, signals, arrived, turn, side = sent
        signal = which(turn, side)
        if rank == 0:
            expect(signals, signal, parts, blocks)
        if rank < blocks:
            send(arrived, signal * most + block_in_cluster(), parts, rank, signals, signal)

    def receive(rank, sent):
        blocks, signals, arrived, turn, side = sent
        signal = which(turn, side)
        while not has_arrived(signals, signal, turn >> 1 & 1):
            pass
        return joined(arrived, signal * most, rank, blocks)

    return cuda.jit(device=True)(send_all), cuda.jit(device=True)(receive)


if SIMULATED:

    @cuda.jit(device=True)
    def swap(parts: Any, step: int) -> Any:
        """Return the value of the other thread of a pair, whose threads are `step` apart."""
        cells = cuda.shared.array(cuda.blockDim.x * cuda.blockDim.y, object)
        thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        cells[thread] = parts
        cuda.syncthreads()
        found = cells[thread ^ step]
        cuda.syncthreads()
        return found

    @cuda.jit(device=True)
    def meet(number: int, threads: int) -> None:
        """Wait for all threads: all groups of the block come here equally often."""
        cuda.syncthreads()

else:

    def _leaves(parts: Any) -> list[tuple[Any, tuple[int, int]]]:
        """Return the types of one lane's partial results, and their indices in the tuple."""
        return [(kind.dtype, (p, 0)) for p, kind in enumerate(parts)]

    @intrinsic
    def swap(typing: Any, parts: Any, step: Any) -> Any:
        """Return the value of the other thread of a pair; both are in one warp and `step` apart, a power of two."""
        text = "shfl.sync.bfly.b32 $0, $1, $2, 31, -1;"

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            other = builder.trunc(args[1], _I32) if args[1].type.width > 32 else args[1]
            items: dict[Any, Any] = {}
            for _, at in _leaves(parts):
                number = builder.extract_value(args[0], at)
                words = [
                    assembly(builder, _I32, text, "=r,r,r", [word, other], "convergent")
                    for word in register_words(builder, number)
                ]
                items[at] = number_of_registers(builder, words, number.type)
            return aggregate(context, builder, parts, items)

        return parts(parts, step), generate

    @intrinsic
    def meet(typing: Any, number: Any, threads: Any) -> Any:
        """Wait for this many threads of a block, in whole warps, that pass the same barrier number, 1 to 15."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = [builder.trunc(n, _I32) if n.type.width > 32 else n for n in args]
            assembly(builder, ir.VoidType(), "bar.sync $0, $1;", "r,r,~{memory}", given, "convergent")
            return context.get_dummy_value()

        return types.void(number, threads), generate

    # In the compiled simulator a shuffle takes tuples, too.
    @cuda.jit(device=True)
    def _swapped(parts, step):
        return cuda.shfl_xor_sync(ALL_THREADS, parts, step)

    @cuda.jit(device=True)
    def _met(number, threads):
        cuda.syncthreads()

    swap.numbacc_twin, meet.numbacc_twin = _swapped, _met

    def _barrier(text: str) -> Any:
        @intrinsic
        def barrier(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                assembly(builder, ir.VoidType(), text, "~{memory}", [], "convergent")
                return context.get_dummy_value()

            return types.void(), generate

        return barrier

    arrive, wait = _barrier("barrier.cluster.arrive.release;"), _barrier("barrier.cluster.wait.acquire;")

    def _special(name: str) -> Any:
        @intrinsic
        def read(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return assembly(builder, _I32, f"mov.u32 $0, %{name};", "=r", [])

            return types.int32(), generate

        return read

    block_in_cluster, cluster_number, clusters = map(_special, ("cluster_ctarank", "clusterid.x", "nclusterid.x"))

    @intrinsic
    def put_in(typing: Any, cells: Any, place: Any, parts: Any, block: Any) -> Any:
        """Store partial results to the same cells of another block."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(cells)(context, builder, args[0])
            place, block = (builder.sext(n, _I64) if n.type.width < 64 else n for n in (args[1], args[3]))
            for _, at in _leaves(parts):
                number = builder.extract_value(args[2], at)
                row = builder.mul(_I64(at[0]), builder.extract_value(array.shape, 1))
                own = builder.ptrtoint(builder.gep(array.data, [builder.add(row, place)]), _I64)
                given = [own, builder.trunc(block, _I32)]
                other = assembly(builder, _I64, "mapa.u64 $0, $1, $2;", "=l,l,r", given)
                builder.store(number, builder.inttoptr(other, number.type.as_pointer()))
            return context.get_dummy_value()

        return types.void(cells, place, parts, block), generate

    # ------------------------------------------------------------ signals

    def _shared_address(builder: Any, pointer: Any) -> Any:
        """Return the 32-bit address in a block's shared memory."""
        text = "{ .reg .u64 t; cvta.to.shared.u64 t, $1; cvt.u32.u64 $0, t; }"
        return assembly(builder, _I32, text, "=r,l", [builder.ptrtoint(pointer, _I64)])

    def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
        """Return the address of an array's element, given its number."""
        data = context.make_array(kind)(context, builder, array).data
        return _shared_address(builder, builder.gep(data, [index]))

    def _in_other(builder: Any, address: Any, block: Any) -> Any:
        """Return the corresponding address in another block."""
        return assembly(builder, _I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", [address, block])

    def _narrowed(builder: Any, number: Any) -> Any:
        return builder.trunc(number, _I32) if number.type.width > 32 else number

    @intrinsic
    def start_signal(typing: Any, signals: Any, signal: Any) -> Any:
        """Initialize a signal that the whole cluster may raise after a barrier; one thread of each block calls it."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = [_place(context, builder, signals, args[0], args[1])]
            text = "mbarrier.init.shared::cta.b64 [$0], 1;"
            assembly(builder, ir.VoidType(), text, "r,~{memory}", given, "convergent")
            text = "fence.mbarrier_init.release.cluster;"
            assembly(builder, ir.VoidType(), text, "~{memory}", [], "convergent")
            return context.get_dummy_value()

        return types.void(signals, signal), generate

    @intrinsic
    def expect(typing: Any, signals: Any, signal: Any, parts: Any, blocks: Any) -> Any:
        """Let a signal complete when the partial results of this many blocks have arrived."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers = [builder.extract_value(args[2], at) for _, at in _leaves(parts)]
            nbytes = 4 * sum(len(register_words(builder, number)) for number in numbers)
            given = [
                _place(context, builder, signals, args[0], args[1]),
                builder.mul(_narrowed(builder, args[3]), _I32(nbytes)),
            ]
            text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
            assembly(builder, ir.VoidType(), text, "r,r,~{memory}", given, "convergent")
            return context.get_dummy_value()

        return types.void(signals, signal, parts, blocks), generate

    @intrinsic
    def send(typing: Any, cells: Any, place: Any, parts: Any, block: Any, signals: Any, signal: Any) -> Any:
        """Store partial results to another block, as `put_in` does, and raise its signal of that number on arrival."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block = _narrowed(builder, args[3])
            told = _in_other(builder, _place(context, builder, signals, args[4], args[5]), block)
            columns = context.make_array(cells)(context, builder, args[0]).shape
            place = builder.sext(args[1], _I64) if args[1].type.width < 64 else args[1]
            for _, at in _leaves(parts):
                row = builder.mul(_I64(at[0]), builder.extract_value(columns, 1))
                own = _place(context, builder, cells, args[0], builder.add(row, place))
                other = _in_other(builder, own, block)
                for k, word in enumerate(register_words(builder, builder.extract_value(args[2], at))):
                    given = [builder.add(other, _I32(4 * k)), word, told]
                    text = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];"
                    assembly(builder, ir.VoidType(), text, "r,r,r,~{memory}", given, "convergent")
            return context.get_dummy_value()

        return types.void(cells, place, parts, block, signals, signal), generate

    @intrinsic
    def has_arrived(typing: Any, signals: Any, signal: Any, phase: Any) -> Any:
        """Return whether a signal has been raised in a phase, which alternates between 0 and 1."""
        text = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }"

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = [_place(context, builder, signals, args[0], args[1]), _narrowed(builder, args[2])]
            found = assembly(builder, _I32, text, "=r,r,r,~{memory}", given, "convergent")
            return builder.icmp_unsigned("!=", found, _I32(0))

        return types.boolean(signals, signal, phase), generate
