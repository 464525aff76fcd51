"""Mbarriers, fences, named barriers, clusters of blocks, and what concerns a whole warp."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....base import _numba
from ....base._numba import types
from .block_state import RANK_SHIFT, Mbarrier, block, give_way, local, offset_of, thread, together, wait_until
from .emitting import HOPPER, Emitter, generated, literal, ptx

__all__ = [
    "bar_arrive", "bar_sync", "bar_warp_sync", "cluster_arrive", "cluster_ctarank", "cluster_nctarank", "cluster_sync",
    "cluster_wait", "elect_sync", "fence_mbarrier_init", "fence_proxy_async", "ld_shared_cluster_b32", "mapa",
    "mbarrier_arrive", "mbarrier_arrive_cluster", "mbarrier_arrive_cluster_relaxed", "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx", "mbarrier_init", "mbarrier_try_wait_parity", "mbarrier_wait_parity",
    "mbarrier_wait_parity_cluster", "setmaxnreg_dec", "setmaxnreg_inc", "st_shared_cluster_b32", "warp_uniform",
]  # fmt: skip

#: Seconds after which a wait for an mbarrier ends the kernel with an error.
WAIT_SECONDS = 4


# ---------------------------------------------------------------- mbarriers


@ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "u32", "u32", since=(8, 0))
def mbarrier_init(mbarrier: int, count: int) -> None:
    """Initialize an mbarrier, 8 bytes of shared memory, for `count` arrivals in each phase.

    One thread does so; then `fence_mbarrier_init` and a barrier make it known to the others.
    """
    if int(mbarrier) % 8:
        raise ValueError(f"an mbarrier's address must be a multiple of 8, and {int(mbarrier)} is not")
    state, made = block(), Mbarrier(int(count), thread().thread_id)
    state.mbarriers[local(mbarrier)], made.made = made, state.barriers()


@ptx("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;")
def fence_mbarrier_init() -> None:
    """Make mbarriers that this thread has initialized visible to the copy engine and to the cluster."""
    number = thread().thread_id
    for each in block().mbarriers.values():
        each.is_fenced |= each.thread == number


@ptx("mbarrier.arrive.shared::cta.b64 _, [$0];", "u32")
def mbarrier_arrive(mbarrier: int) -> None:
    """Arrive at an mbarrier."""
    state = block()
    state.mbarrier(local(mbarrier)).change(1)
    state.changed()
    give_way()  # whoever waits here may overwrite what this thread still needs


@ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "u32", "u32")
def mbarrier_arrive_expect_tx(mbarrier: int, nbytes: int) -> None:
    """Arrive at an mbarrier, whose phase is complete only when `nbytes` more bytes have arrived, too."""
    state = block()
    state.mbarrier(local(mbarrier)).change(1, int(nbytes))
    state.changed()


@ptx("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "u32", "u32")
def mbarrier_expect_tx(mbarrier: int, nbytes: int) -> None:
    """Let the phase of an mbarrier wait for `nbytes` more bytes, without arriving."""
    state = block()
    state.mbarrier(local(mbarrier)).change(0, int(nbytes))


@ptx(
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1;"
    " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }",
    "u32", "u32",
)  # fmt: skip
def mbarrier_arrive_cluster(mbarrier: int, rank: int) -> None:
    """Arrive at the mbarrier that has this address in block number `rank` of the cluster.

    Whoever waits for it with `mbarrier_wait_parity_cluster` sees what this thread has written before, also to the
    shared memory of that block.
    """
    _arrive_cluster(mbarrier, rank, True)


@ptx(
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1;"
    " mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }",
    "u32", "u32",
)  # fmt: skip
def mbarrier_arrive_cluster_relaxed(mbarrier: int, rank: int) -> None:
    """Arrive at the mbarrier of block number `rank` as `mbarrier_arrive_cluster` does, but publish no writes.

    It costs no fence of the whole GPU, and is enough for a thread that has only read what the mbarrier guards.
    """
    _arrive_cluster(mbarrier, rank, False)


def _arrive_cluster(mbarrier: int, rank: int, releases: bool) -> None:
    state = block()
    other = state.other(rank)
    barrier = other.mbarrier(local(mbarrier), from_elsewhere=other is not state)
    if releases:
        state.release(barrier.seen)
    barrier.change(1)
    state.changed()
    give_way()


@ptx(
    "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }",
    "u32", "u32", result="u32",
)  # fmt: skip
def mbarrier_try_wait_parity(mbarrier: int, parity: int) -> int:
    """Return 1 if the phase of this parity is complete, 0 otherwise; the hardware waits a little before it says 0."""
    barrier = block().mbarrier(local(mbarrier))
    done = barrier.phase & 1 != int(parity)
    if done:
        barrier.land()
    else:
        give_way()
    return int(done)


#: A global variable of the kernel's module: the address of host memory for a report, which the loader sets.
REPORT = "numbacc_report"
#: A report has this number if the line is not known.
UNKNOWN_LINE = 2**31


def _connect(kernel: str, module: int, is_library: bool) -> None:
    """Let a kernel of Numba's own launches report, too."""
    from ....runtime import kernel_reports

    kernel_reports.try_to_connect(module, REPORT, kernel, is_library)


def _waiting(scope: str) -> Any:
    """Return the typing of a wait for an mbarrier.

    The report has the layout of `runtime.kernel_reports.Report`.

    Args:
        scope: "" if the wait acquires what threads of the block have written, or ".acquire.cluster".
    """
    attempt = f"mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [$0], $1;"

    def typed(mbarrier: Any, parity: Any) -> Any:
        def emit(e: Emitter, mbarrier: Any, parity: Any) -> None:
            e.global_word(REPORT)
            _numba.when_loaded(e.context, partial(_connect, e.context.fndesc.qualname))
            text = f"""{{ .reg .pred done; .reg .u64 since, now, place; .reg .b32 x, y, z;
{attempt}
@done bra.uni OVER;
mov.u64 since, %globaltimer;
AGAIN: {attempt}
@done bra.uni OVER;
mov.u64 now, %globaltimer;
sub.u64 now, now, since;
setp.lt.u64 done, now, {WAIT_SECONDS}000000000;
@done bra.uni AGAIN;
ld.global.u64 place, [{REPORT}];
setp.eq.u64 done, place, 0;
@done trap;
st.volatile.global.v2.u32 [place+8], {{$0, $1}};
mov.u32 x, %tid.x; mov.u32 y, %tid.y; mov.u32 z, %tid.z;
st.volatile.global.u32 [place+16], x; st.volatile.global.u32 [place+20], y; st.volatile.global.u32 [place+24], z;
mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z;
st.volatile.global.u32 [place+28], x; st.volatile.global.u32 [place+32], y; st.volatile.global.u32 [place+36], z;
fence.sc.sys;
mov.u32 x, {e.line() or UNKNOWN_LINE}; st.volatile.global.u32 [place], x;
fence.sc.sys;
trap;
OVER: }}"""
            e.asm(text, [mbarrier, parity])

        return types.void(types.uint32, types.uint32), emit

    return typed


@generated(_waiting(""), literals=False)
def mbarrier_wait_parity(mbarrier: int, parity: int) -> None:
    """Wait until an mbarrier's phase of this parity is complete: 0 for the first phase, then 1, 0, ...

    A wait for 1 at a new mbarrier returns at once. After 4 seconds the kernel ends with an error, which names the
    kernel, the line of the wait, the mbarrier's address, the thread and the block.
    """
    _wait_parity(mbarrier, parity)


@generated(_waiting(".acquire.cluster"), literals=False)
def mbarrier_wait_parity_cluster(mbarrier: int, parity: int) -> None:
    """Wait as `mbarrier_wait_parity` does, and see what other blocks have written before they arrived.

    It pairs with `mbarrier_arrive_cluster`, and also empties the multiprocessor's L1 cache. Bytes that the copy engine
    brings, also by `tma_load_multicast`, and arrivals that publish nothing need only `mbarrier_wait_parity`.
    """
    block().acquire(_wait_parity(mbarrier, parity).seen)


def _wait_parity(mbarrier: Any, parity: Any) -> Mbarrier:
    """Wait until the phase of a parity is complete. Return the mbarrier."""
    barrier = block().mbarrier(local(mbarrier))
    wait_until(
        lambda: barrier.phase & 1 != int(parity),
        lambda: (
            f"at the mbarrier at {offset_of(mbarrier)} for phase {barrier.phase} (parity {int(parity)}) to complete: "
            f"{barrier.left} of {barrier.count} arrivals and {barrier.nbytes} bytes are missing"
        ),
    )
    barrier.land()
    return barrier


# ---------------------------------------------------------------- barriers of threads, and fences


def _named(name: int, threads: int) -> tuple[Mbarrier, int]:
    if int(threads) % 32 or not 0 <= int(name) < 16:
        raise ValueError(f"barrier {int(name)} of {int(threads)} threads: 16 barriers exist, and whole warps arrive")
    state = block()
    barrier = state.named.setdefault(int(name), Mbarrier(int(threads)))
    if barrier.left == barrier.count:
        barrier.count = barrier.left = int(threads)
    phase = barrier.phase
    barrier.change(1)
    state.changed()
    return barrier, phase


@ptx("bar.sync $0, $1;", "u32", "u32", since=(5, 0))
def bar_sync(name: int, threads: int) -> None:
    """Wait at one of the block's 16 barriers until `threads` threads have arrived. 0 is that of `cuda.syncthreads`."""
    barrier, phase = _named(name, threads)
    wait_until(
        lambda: barrier.phase != phase,
        lambda: f"at barrier {int(name)} for {barrier.left} more of {int(threads)} threads",
    )


@ptx("bar.arrive $0, $1;", "u32", "u32", since=(5, 0))
def bar_arrive(name: int, threads: int) -> None:
    """Arrive at a barrier of `bar_sync` without waiting."""
    _named(name, threads)


@ptx("fence.proxy.async.shared::cta;")
def fence_proxy_async() -> None:
    """Make the thread's writes to shared memory visible to the async proxy: to wgmma and to TMA stores."""
    state = block()
    state.unfenced[state.unfenced == thread().thread_id] = -1


@ptx("bar.warp.sync 0xffffffff;", since=(7, 0))
def bar_warp_sync() -> None:
    """Wait for all threads of the warp."""
    together(32, None, lambda values: values, "bar_warp_sync")


# ---------------------------------------------------------------- clusters


@ptx("mov.u32 $0, %cluster_ctarank;", result="u32", pure=True)
def cluster_ctarank() -> int:
    """Return the position of the block in its cluster."""
    return block().rank


@ptx("mov.u32 $0, %cluster_nctarank;", result="u32", pure=True)
def cluster_nctarank() -> int:
    """Return the number of blocks of the cluster."""
    return len(block().cluster)


@ptx("barrier.cluster.arrive.release.aligned;")
def cluster_arrive() -> None:
    """Arrive at the cluster's barrier; all threads of all its blocks do so."""
    state = block()
    state.phases[thread().thread_id] = state.together.phase
    state.release(state.together.seen)
    state.together.change(1)
    state.changed()


@ptx("barrier.cluster.wait.acquire.aligned;")
def cluster_wait() -> None:
    """Wait until all threads of the cluster have arrived at its barrier."""
    state = block()
    phase = state.phases[thread().thread_id]
    wait_until(lambda: state.together.phase != phase, lambda: "at the cluster's barrier")
    state.acquire(state.together.seen)


@ptx("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
def cluster_sync() -> None:
    """Wait for all threads of all blocks of the cluster."""
    state = block()
    phase = state.together.phase
    state.release(state.together.seen)
    state.together.change(1)
    state.changed()
    wait_until(lambda: state.together.phase != phase, lambda: "at the cluster's barrier")
    state.acquire(state.together.seen)


@ptx("mapa.shared::cluster.u32 $0, $1, $2;", "u32", "u32", result="u32", pure=True)
def mapa(shared: int, rank: int) -> int:
    """Return the address that shared memory of block `rank` has for the whole cluster."""
    if not 0 <= int(rank) < len(block().cluster):
        raise IndexError(f"rank {int(rank)}: the cluster has {len(block().cluster)} blocks")
    return local(shared) | int(rank) << RANK_SHIFT


@ptx(
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, $1, $2; ld.shared::cluster.u32 $0, [there]; }",
    "u32", "u32", result="u32",
)  # fmt: skip
def ld_shared_cluster_b32(shared: int, rank: int) -> int:
    """Load a 32-bit word from the shared memory of block `rank` of the cluster."""
    at, by = local(shared), block()
    return int(block().other(rank).read(slice(at, at + 4), "ld_shared_cluster_b32", by).view(np.uint32)[0])


@ptx(
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; st.shared::cluster.u32 [there], $2; }",
    "u32", "u32", "u32",
)  # fmt: skip
def st_shared_cluster_b32(shared: int, rank: int, word: int) -> None:
    """Store a 32-bit word to the shared memory of block `rank` of the cluster."""
    at, value = local(shared), np.array([int(word) & 0xFFFFFFFF], np.uint32).view(np.uint8)
    block().other(rank).write(slice(at, at + 4), value, thread().thread_id, "st_shared_cluster_b32", block())


# ---------------------------------------------------------------- warps


@ptx("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 $0, 1, 0, p; }", result="u32")
def elect_sync() -> int:
    """Return 1 in one thread of the warp, 0 in the others."""
    return int(thread().thread_id % 32 == 0)


@ptx("shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "u32", result="u32", since=(7, 0))
def warp_uniform(x: int) -> int:
    """Return the value of the warp's first thread, so that the compiler knows it is the same for the whole warp."""
    found: int = together(32, x, lambda values: [values[0]] * 32, "warp_uniform")
    return found


def _registers(name: str) -> Any:
    def typed(count: Any) -> Any:
        n = literal(count, "the number of registers", range(24, 257, 8))

        def emit(e: Emitter, _: Any) -> None:
            e.asm(f"setmaxnreg.{name}.sync.aligned.u32 {n};")

        return types.void(count), emit

    return typed


@generated(_registers("inc"), since=HOPPER)
def setmaxnreg_inc(count: int) -> None:
    """Wait until each thread of the warpgroup may use `count` registers, a constant multiple of 8 up to 256.

    The kernel needs `launch_bounds`.
    """


@generated(_registers("dec"), since=HOPPER)
def setmaxnreg_dec(count: int) -> None:
    """Release registers: each thread of the warpgroup keeps `count`, a constant multiple of 8 from 24 on."""
