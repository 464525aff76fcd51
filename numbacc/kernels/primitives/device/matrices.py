"""Matrix instructions: of a warp (ldmatrix, stmatrix, mma.sync), and of a warpgroup of 128 threads (wgmma)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ....base._numba import types
from .block_state import RANK_SHIFT, BlockState, block, local, thread, together
from .emitting import HOPPER, Emitter, generated, literal, tuple_type
from .fragments import BF16, E4M3, E5M2, F16, Fragment
from .tma import swizzled

__all__ = [
    "ldmatrix_x1", "ldmatrix_x1_trans", "ldmatrix_x2", "ldmatrix_x2_trans", "ldmatrix_x4", "ldmatrix_x4_trans",
    "ldmatrix_x4_trans_xor", "ldmatrix_x4_xor", "mma_bf16", "mma_e4m3", "mma_e5m2", "mma_f16", "mma_s8", "mma_tf32",
    "mma_u8", "stmatrix_x1", "stmatrix_x1_trans", "stmatrix_x2", "stmatrix_x2_trans", "stmatrix_x4",
    "stmatrix_x4_trans", "stmatrix_x4_trans_xor", "stmatrix_x4_xor", "wgmma_bf16", "wgmma_descriptor", "wgmma_e4m3",
    "wgmma_e5m2", "wgmma_f16", "wgmma_s8", "wgmma_tf32", "wgmma_u8", "wgmma_wait_group",
]  # fmt: skip


class FactorKind(NamedTuple):
    """What the tensor cores multiply.

    Attributes:
        name: PTX's name of a factor's type.
        total: PTX's name of a sum's type, and ours.
        depth: how many columns of A one instruction multiplies: 32 bytes.
        numpy: the factors' dtype.
    """

    name: str
    total: str
    sums: str
    depth: int
    numpy: Any


KINDS = {
    "bf16": FactorKind("bf16", "f32", "f32", 16, BF16),
    "f16": FactorKind("f16", "f32", "f32", 16, F16),
    "tf32": FactorKind("tf32", "f32", "f32", 8, np.dtype(np.float32)),
    "e4m3": FactorKind("e4m3", "f32", "f32", 32, E4M3),
    "e5m2": FactorKind("e5m2", "f32", "f32", 32, E5M2),
    "s8": FactorKind("s8", "s32", "i32", 32, np.dtype(np.int8)),
    "u8": FactorKind("u8", "s32", "i32", 32, np.dtype(np.uint8)),
}


# ---------------------------------------------------------------- ldmatrix and stmatrix


def _place(e: Emitter, address: Any, offset: int, toggles: bool) -> Any:
    return e.builder.xor(address, e.constant(offset)) if toggles and offset else address


def _registers(many: int, first: int) -> str:
    """Return the operands $first, $(first + 1), ... of `many` registers."""
    return "{" + ",".join(f"${first + k}" for k in range(many)) + "}"


def _ldmatrix(transposed: str, toggles: bool, many: int = 4) -> Any:
    def typed(address: Any, count: Any, step: Any) -> Any:
        n, apart = literal(count, "count"), literal(step, "step")
        result = tuple_type("u32", many * n)

        def emit(e: Emitter, address: Any, *_: Any) -> Any:
            items = []
            for k in range(n):
                offset = 0 if toggles else k * apart
                text = f"ldmatrix.sync.aligned.m8n8.x{many}{transposed}.shared.b16 {_registers(many, 0)}, "
                text += f"[${many}+{offset}];"
                items += e.asm_many(text, [_place(e, address, k * apart, toggles)], e.i32, many)
            return e.tuple(result, items)

        return result(types.uint32, count, step), emit

    return typed


def _stmatrix(transposed: str, toggles: bool, many: int = 4) -> Any:
    def typed(address: Any, words: Any, step: Any) -> Any:
        apart = literal(step, "step")
        if len(words) % many:
            raise ValueError(f"words has {len(words)} registers: stmatrix_x{many} stores {many} at a time")

        def emit(e: Emitter, address: Any, value: Any, _: Any) -> None:
            items = e.items(value)
            for k in range(len(items) // many):
                offset = 0 if toggles else k * apart
                text = (
                    f"stmatrix.sync.aligned.m8n8.x{many}{transposed}.shared.b16 [$0+{offset}], {_registers(many, 1)};"
                )
                e.asm(text, [_place(e, address, k * apart, toggles), *items[many * k : many * k + many]])

        return types.void(types.uint32, words, step), emit

    return typed


def _row_places(addresses: Any, offset: int, toggles: bool) -> np.ndarray[Any, Any]:
    """Return the addresses of the bytes of rows of 16 bytes, one row for each address."""
    starts = np.array([local(each) ^ offset if toggles else local(each) + offset for each in addresses])
    if (starts % 16).any():
        raise ValueError(f"lane {int(np.argmax(starts % 16 > 0))} has an address that is not a multiple of 16")
    return starts[:, None] + np.arange(16)


def _loaded(address: Any, count: int, step: int, transposed: bool, toggles: bool, what: str, many: int = 4) -> Fragment:
    def work(addresses: list[Any]) -> list[Any]:
        state, found = block(), []
        for k in range(count):
            places = _row_places(addresses[: 8 * many], k * step, toggles)
            state.watch(what, "read", places[:, 0], 16)
            matrices = state.read(places.ravel(), what).view(np.uint16).reshape(many, 8, 8)
            if transposed:
                matrices = matrices.swapaxes(1, 2)
            found.append(np.ascontiguousarray(matrices).view(np.uint32).reshape(many, 32))
        return [tuple(int(x) for x in each) for each in np.concatenate(found).T]

    found: Fragment = together(32, address, work, what)
    return found


def _stored(
    address: Any, words: Fragment, step: int, transposed: bool, toggles: bool, what: str, many: int = 4
) -> None:
    def work(given: list[Any]) -> list[Any]:
        state, first = block(), thread().thread_id // 32 * 32
        for k in range(len(words) // many):
            places = _row_places([each[0] for each in given[: 8 * many]], k * step, toggles)
            state.watch(what, "write", places[:, 0], 16)
            registers = np.array([[int(x) for x in each[1][many * k : many * k + many]] for each in given], np.uint32)
            rows = np.ascontiguousarray(registers.T).view(np.uint16).reshape(many, 8, 8)
            if transposed:
                rows = np.ascontiguousarray(rows.swapaxes(1, 2))
            for lane, row in enumerate(rows.reshape(8 * many, 8)):
                state.write(places[lane], row.view(np.uint8), first + lane, what)
        return [None] * 32

    together(32, (address, words), work, what)


@generated(_ldmatrix("", False), since=(7, 5))
def ldmatrix_x4(address: int, count: int, step: int) -> Fragment:
    """Load 4 `count` matrices of 8 x 8 16-bit numbers to a warp's registers: 4 `count` words for each thread.

    Thread 8 m + r has the address of row r of matrix m, 16 bytes; the thread then holds of each matrix columns
    2 (lane % 4) and the next of row lane / 4. The k-th four matrices lie at address + k step; `count` and `step` are
    constants.
    """
    return _loaded(address, count, step, False, False, "ldmatrix")


@generated(_ldmatrix("", True), since=(7, 5))
def ldmatrix_x4_xor(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4` does, the k-th four from address ^ (k step): columns of swizzled rows."""
    return _loaded(address, count, step, False, True, "ldmatrix")


@generated(_ldmatrix(".trans", False), since=(7, 5))
def ldmatrix_x4_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4` does, transposed."""
    return _loaded(address, count, step, True, False, "ldmatrix")


@generated(_ldmatrix(".trans", True), since=(7, 5))
def ldmatrix_x4_trans_xor(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4_xor` does, transposed."""
    return _loaded(address, count, step, True, True, "ldmatrix")


@generated(_ldmatrix("", False, 1), since=(7, 5))
def ldmatrix_x1(address: int, count: int, step: int) -> Fragment:
    """Load `count` matrices one at a time: `count` words for each thread. Threads 0 to 7 have the rows' addresses."""
    return _loaded(address, count, step, False, False, "ldmatrix", 1)


@generated(_ldmatrix(".trans", False, 1), since=(7, 5))
def ldmatrix_x1_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x1` does, transposed."""
    return _loaded(address, count, step, True, False, "ldmatrix", 1)


@generated(_ldmatrix("", False, 2), since=(7, 5))
def ldmatrix_x2(address: int, count: int, step: int) -> Fragment:
    """Load 2 `count` matrices, two at a time, as `ldmatrix_x4` loads four. Threads 0 to 15 have the rows' addresses."""
    return _loaded(address, count, step, False, False, "ldmatrix", 2)


@generated(_ldmatrix(".trans", False, 2), since=(7, 5))
def ldmatrix_x2_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x2` does, transposed."""
    return _loaded(address, count, step, True, False, "ldmatrix", 2)


@generated(_stmatrix("", False))
def stmatrix_x4(address: int, words: Fragment, step: int) -> None:
    """Store a warp's registers as matrices of 8 x 8 16-bit numbers, four at a time: the reverse of `ldmatrix_x4`.

    The k-th four lie at address + k step; `step` is a constant.
    """
    _stored(address, words, step, False, False, "stmatrix")


@generated(_stmatrix("", True))
def stmatrix_x4_xor(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4` does, the k-th four to address ^ (k step)."""
    _stored(address, words, step, False, True, "stmatrix")


@generated(_stmatrix(".trans", False))
def stmatrix_x4_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4` does, transposed."""
    _stored(address, words, step, True, False, "stmatrix")


@generated(_stmatrix(".trans", True))
def stmatrix_x4_trans_xor(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4_xor` does, transposed."""
    _stored(address, words, step, True, True, "stmatrix")


@generated(_stmatrix("", False, 1))
def stmatrix_x1(address: int, words: Fragment, step: int) -> None:
    """Store matrices one at a time, the reverse of `ldmatrix_x1`."""
    _stored(address, words, step, False, False, "stmatrix", 1)


@generated(_stmatrix(".trans", False, 1))
def stmatrix_x1_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x1` does, transposed."""
    _stored(address, words, step, True, False, "stmatrix", 1)


@generated(_stmatrix("", False, 2))
def stmatrix_x2(address: int, words: Fragment, step: int) -> None:
    """Store matrices two at a time, the reverse of `ldmatrix_x2`."""
    _stored(address, words, step, False, False, "stmatrix", 2)


@generated(_stmatrix(".trans", False, 2))
def stmatrix_x2_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x2` does, transposed."""
    _stored(address, words, step, True, False, "stmatrix", 2)


# ---------------------------------------------------------------- mma.sync


def _mma(kind: FactorKind) -> Any:
    text = f"mma.sync.aligned.m16n8k{kind.depth}.row.col.{kind.total}.{kind.name}.{kind.name}.{kind.total}"
    text += " {$0,$1,$2,$3}, {$8,$9,$10,$11}, {$12,$13}, {$0,$1,$2,$3};"

    def typed(sums: Any, a: Any, b: Any) -> Any:
        rows, columns = len(a) // 4, len(b) // 2
        if len(sums) != 4 * rows * columns:
            raise ValueError(f"sums has {len(sums)} numbers; {len(a)} of a and {len(b)} of b make {4 * rows * columns}")
        result = tuple_type(kind.sums, len(sums))

        def emit(e: Emitter, *args: Any) -> Any:
            old, left, right = map(e.items, args)
            number = e.llvm(result.dtype)
            new = []
            for i in range(rows):
                for j in range(columns):
                    at = 4 * (i * columns + j)
                    factors = [*left[4 * i : 4 * i + 4], *right[2 * j : 2 * j + 2]]
                    new += e.asm_many(text, factors, number, 4, tied=old[at : at + 4], pure=True)
            return e.tuple(result, new)

        words = tuple_type("u32", len(a)), tuple_type("u32", len(b))
        return result(result, *words), emit

    return typed


def numbers(values: np.ndarray[Any, Any], kind: FactorKind) -> np.ndarray[Any, Any]:
    """Return factors as the numbers that are multiplied, in float32 or int32."""
    if kind.sums == "i32":
        return values.astype(np.int32)
    if kind.name == "tf32":  # the tensor cores ignore the lowest 13 bits
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(np.float32)


def _registers_of_a(words: Any, kind: FactorKind) -> np.ndarray[Any, Any]:
    """Return the matrices of A that a warp holds, from the words of each lane: (tile of 16 rows, 16, depth)."""
    per_word = 4 // kind.numpy.itemsize
    parts = np.array([[int(x) & 0xFFFFFFFF for x in each] for each in words], np.uint32)
    parts = parts.view(kind.numpy).reshape(32, -1, 4, per_word)
    lane, tile, which, part = np.indices(parts.shape)
    found = np.empty((parts.shape[1], 16, kind.depth), kind.numpy)
    found[tile, lane // 4 + which % 2 * 8, lane % 4 * per_word + part + which // 2 * (kind.depth // 2)] = parts
    return numbers(found, kind)


def _registers_of_b(words: Any, kind: FactorKind) -> np.ndarray[Any, Any]:
    """Return the transposed matrix of B that a warp holds: (columns, depth)."""
    per_word = 4 // kind.numpy.itemsize
    parts = np.array([[int(x) & 0xFFFFFFFF for x in each] for each in words], np.uint32)
    parts = parts.view(kind.numpy).reshape(32, -1, 2, per_word)
    lane, tile, which, part = np.indices(parts.shape)
    found = np.empty((8 * parts.shape[1], kind.depth), kind.numpy)
    found[tile * 8 + lane // 4, lane % 4 * per_word + part + which * (kind.depth // 2)] = parts
    return numbers(found, kind)


def _places_of_sums(count: int, columns: int) -> tuple[Any, Any, Any]:
    """Return (tile of 16 rows, row in it, column) of each lane's numbers: arrays with an axis for lanes."""
    lane, k = np.indices((32, count))
    return k // (4 * columns), lane // 4 + k % 4 // 2 * 8, k // 4 % columns * 8 + lane % 4 * 2 + k % 2


def _multiplied(kind: FactorKind, sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    def work(given: list[Any]) -> list[Any]:
        left, right = (
            _registers_of_a([each[1] for each in given], kind),
            _registers_of_b([each[2] for each in given], kind),
        )
        old = np.array([each[0] for each in given])
        with np.errstate(all="ignore"):
            product = (left @ right.T)[_places_of_sums(len(sums), len(b) // 2)]
            return [tuple(each) for each in old + product]

    found: Fragment = together(32, (sums, a, b), work, f"mma_{kind.name}")
    return found


@generated(_mma(KINDS["bf16"]), literals=False, since=(8, 0))
def mma_bf16(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of bfloat16 factors and float32 sums.

    `a` has four registers for each 16 rows of A, of 16 columns; `b` two for each 8 rows of B, of 16 columns. Both as
    `ldmatrix_x4` loads them: a row of A is contiguous, and so is one of B (a column of the second factor).
    """
    return _multiplied(KINDS["bf16"], sums, a, b)


@generated(_mma(KINDS["f16"]), literals=False, since=(8, 0))
def mma_f16(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float16 factors and float32 sums, as `mma_bf16` does."""
    return _multiplied(KINDS["f16"], sums, a, b)


@generated(_mma(KINDS["tf32"]), literals=False, since=(8, 0))
def mma_tf32(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float32 factors, whose lowest 13 bits are ignored; A and B have 8 columns."""
    return _multiplied(KINDS["tf32"], sums, a, b)


@generated(_mma(KINDS["e4m3"]), literals=False, since=(8, 9))
def mma_e4m3(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float8_e4m3fn factors and float32 sums; A and B have 32 columns.

    Hopper converts the factors and multiplies them as float16: use `wgmma_e4m3` there.
    """
    return _multiplied(KINDS["e4m3"], sums, a, b)


@generated(_mma(KINDS["e5m2"]), literals=False, since=(8, 9))
def mma_e5m2(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float8_e5m2 factors, as `mma_e4m3` does."""
    return _multiplied(KINDS["e5m2"], sums, a, b)


@generated(_mma(KINDS["s8"]), literals=False, since=(8, 0))
def mma_s8(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of int8 factors and int32 sums; A and B have 32 columns."""
    return _multiplied(KINDS["s8"], sums, a, b)


@generated(_mma(KINDS["u8"]), literals=False, since=(8, 0))
def mma_u8(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of uint8 factors and int32 sums, as `mma_s8` does."""
    return _multiplied(KINDS["u8"], sums, a, b)


# ---------------------------------------------------------------- wgmma

_LAYOUTS = {128: 1, 64: 2, 32: 3, 0: 0}
#: The descriptors that this process has made, without addresses. The simulator looks a product's descriptors up here.
_made: set[int] = set()


def wgmma_descriptor(swizzle: int = 128, leading: int = 16, stride: int = 1024) -> int:
    """Return the descriptor of a matrix at shared address 0, as int64. Add `address >> 4` of the matrix to it.

    Call it on the host; kernels use the result as a constant. In a cluster add `(address & 0x3ffff) >> 4`: a descriptor
    has no room for the higher bits of addresses in blocks other than the first.

    Args:
        swizzle: of the matrix, 128, 64, 32 or 0 bytes; tiles start at multiples of 8 times that.
        leading, stride: distances in bytes. For swizzled rows of K numbers, `stride` is 8 rows and `leading` is
            ignored. Without a swizzle the matrix consists of bricks of 8 rows of 16 bytes: `leading` to the next brick
            along K, `stride` along the rows. For a transposed matrix with the swizzle of 128 bytes (rows of 64 numbers
            of M or N): `leading` to the next 64 of M or N, `stride` to the next 8 of K.
    """
    bits = (_LAYOUTS[swizzle] << 62) | (stride // 16 << 32) | (leading // 16 << 16)
    _made.add(bits)
    return (bits + 2**63) % 2**64 - 2**63


def _wgmma(kind: FactorKind) -> Any:
    def typed(sums: Any, a: Any, b: Any, steps: Any, a_step: Any, b_step: Any, a_trans: Any, b_trans: Any) -> Any:
        in_registers, is_new = isinstance(a, types.BaseTuple), not isinstance(sums, types.BaseTuple)
        size, count = literal(sums, "sums") if is_new else len(sums), literal(steps, "steps")
        forward = literal(a_step, "a_step"), literal(b_step, "b_step")
        left_down, down = literal(a_trans, "a_trans", (0, 1)), literal(b_trans, "b_trans", (0, 1))
        if (left_down or down) and kind.depth != 16:
            raise ValueError(f"wgmma_{kind.name} multiplies rows of K only: a_trans and b_trans must be 0")
        if in_registers and (left_down or len(a) != 4 * count):
            raise ValueError(f"a has {len(a)} registers: it needs 4 for each of {count} steps, and a_trans=0")
        if size % 4 or not 4 <= size <= 128:
            raise ValueError(f"sums has {size} numbers: a thread holds 4 for each 8 columns, of up to 256")
        flags = ", 1, 1" if kind.sums == "f32" else ""
        if kind.depth == 16:
            flags += f", {down}" if in_registers else f", {left_down}, {down}"
        result = tuple_type(kind.sums, size)

        def emit(e: Emitter, sums: Any, a: Any, b: Any, *_: Any) -> Any:
            left, tied = e.items(a) if in_registers else [a], [] if is_new else e.items(sums)
            place = [f"${size + len(tied) + k}" for k in range(len(left) + 1)]
            totals = ",".join(f"${k}" for k in range(size))
            what = f"wgmma.mma_async.sync.aligned.m64n{2 * size}k{kind.depth}.{kind.total}.{kind.name}.{kind.name}"
            lines = ["{ .reg .pred on; .reg .b64 da, db;", f"setp.ne.b32 on, {0 if is_new else 1}, 0;"]
            lines.append("wgmma.fence.sync.aligned;")
            for k in range(count):
                if is_new and k == 1:
                    lines.append("setp.ne.b32 on, 1, 0;")
                lines.append(f"add.u64 db, {place[-1]}, {k * forward[1]};")
                if in_registers:
                    first = "{" + ",".join(place[4 * k : 4 * k + 4]) + "}"
                else:
                    lines.append(f"add.u64 da, {place[0]}, {k * forward[0]};")
                    first = "da"
                lines.append(f"{what} {{{totals}}}, {first}, db, on{flags};")
            lines.append("wgmma.commit_group.sync.aligned; }")
            number = e.llvm(result.dtype)
            return e.tuple(result, e.asm_many("\n".join(lines), [*left, b], number, size, tied=tied))

        first = tuple_type("u32", len(a)) if in_registers else types.int64
        given = sums if is_new else result
        return result(given, first, types.int64, steps, a_step, b_step, a_trans, b_trans), emit

    return typed


class _Group:
    """A wgmma group that was begun: its products are computed when it is waited for."""

    def __init__(self, work: Any, places: list[Any], state: BlockState):
        self.work, self.found, self.places, self.state = work, None, places, state
        for each in places:
            np.add.at(state.read_by_wgmma, each, 1)

    def finish(self) -> None:
        if self.found is None:
            self.found = self.work()
            for each in self.places:
                np.add.at(self.state.read_by_wgmma, each, -1)


class Unfinished:
    """A thread's sums while the tensor cores still add to them."""

    def __init__(self, group: _Group, lane: int, count: int):
        self.group, self.lane, self.count = group, lane, count

    def now(self) -> Fragment:
        assert self.group.found is not None
        found: Fragment = self.group.found[self.lane]
        return found

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        raise RuntimeError("a thread reads wgmma's sums before it has waited for them: call wgmma_wait_group first")

    def __getitem__(self, index: Any) -> Any:
        return iter(self)


def _swizzle_of(descriptor: int) -> int:
    """Return the bytes of a descriptor's swizzle."""
    return {code: nbytes for nbytes, code in _LAYOUTS.items()}[int(descriptor) % 2**64 >> 62]


def _check_descriptor(bits: int) -> None:
    """Raise if a descriptor holds the rank of a block, which is in the higher bits of its shared addresses."""
    rank, fields = block().rank, bits >> 16 << 16
    if rank and fields not in _made and fields - (rank << RANK_SHIFT >> 4) in _made:
        raise RuntimeError(
            f"a descriptor of wgmma was made of a shared address of block {rank} of the cluster, whose higher bits "
            "change the descriptor's leading bytes: add (address & 0x3ffff) >> 4 and not address >> 4"
        )


def _matrix_places(descriptor: int, lines: int, kind: FactorKind, transposed: int) -> np.ndarray[Any, Any]:
    """Return the addresses of the bytes of a matrix (lines, depth, itemsize) that a descriptor names."""
    bits, size = int(descriptor) % 2**64, kind.numpy.itemsize
    _check_descriptor(bits)
    start, leading, stride = (16 * (bits >> each & 0x3FFF) for each in (0, 16, 32))
    swizzle = _swizzle_of(bits)
    line, depth = np.mgrid[:lines, : kind.depth]
    if transposed:
        if swizzle != 128:
            raise NotImplementedError("the simulator knows transposed operands with the swizzle of 128 bytes only")
        places = start + line // 64 * leading + depth // 8 * stride + depth % 8 * 128 + line % 64 * size
    elif swizzle:
        places = start + line // 8 * stride + line % 8 * swizzle + depth * size
    else:
        per_row = 16 // size
        places = start + line // 8 * stride + depth // per_row * leading + line % 8 * 16 + depth % per_row * size
    found: np.ndarray[Any, Any] = swizzled(places, swizzle)[..., None] + np.arange(size)
    return found.reshape(lines, -1)


def _matrix(state: BlockState, places: Any, kind: FactorKind, what: str, descriptor: int) -> np.ndarray[Any, Any]:
    flat = places.ravel()
    state.check_fenced(flat, what)
    state.check_swizzle(flat, _swizzle_of(descriptor), what)
    values = np.ascontiguousarray(state.read(flat, what)).view(kind.numpy)
    return numbers(values.reshape(places.shape[0], -1), kind)


def _group(
    kind: FactorKind, sums: Any, a: Any, b: Any, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    if not isinstance(sums, (tuple, Unfinished)):
        sums = ((np.float32 if kind.sums == "f32" else np.int32)(0),) * sums
    size, what, in_registers = len(sums), f"wgmma_{kind.name}", isinstance(a, tuple)

    def work(given: list[Any]) -> list[Any]:
        state, columns = block(), size // 4
        rights = [_matrix_places(int(b) + k * b_step, 2 * size, kind, b_trans) for k in range(steps)]
        lefts = [] if in_registers else [_matrix_places(int(a) + k * a_step, 64, kind, a_trans) for k in range(steps)]

        def factors() -> Iterator[tuple[Any, Any]]:
            for k in range(steps):
                right = _matrix(state, rights[k], kind, what, b)
                if in_registers:
                    warps = [given[32 * w : 32 * w + 32] for w in range(4)]
                    parts = [_registers_of_a([each[1][4 * k : 4 * k + 4] for each in w], kind)[0] for w in warps]
                    yield np.concatenate(parts), right
                else:
                    yield _matrix(state, lefts[k], kind, what, a), right

        begun = list(factors())

        def finish() -> list[Any]:
            before = [each[0].now() if isinstance(each[0], Unfinished) else each[0] for each in given]
            new = np.array(before).reshape(4, 32, -1)
            _, row, column = _places_of_sums(size, columns)
            with np.errstate(all="ignore"):
                for left, right in begun:
                    product = (left @ right.T).reshape(4, 16, -1)
                    for warp in range(4):
                        new[warp] += product[warp][row, column]
            return [tuple(each) for each in new.reshape(128, -1)]

        group = _Group(finish, [np.unique(each) for each in (*rights, *lefts)], state)
        state.products[thread().thread_id // 128].append(group)
        return [Unfinished(group, lane, size) for lane in range(128)]

    found: Fragment = together(128, (sums, a), work, what)
    return found


@generated(_wgmma(KINDS["bf16"]), since=HOPPER)
def wgmma_bf16(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a warpgroup's sums + A B^T of bfloat16 factors and float32 sums, as one wgmma group; return the sums.

    Nobody may read the sums, nor write what is multiplied, before `wgmma_wait_group`. A has 64 rows, B has as many as
    the sums have columns: a thread holds 4 sums for each 8 of them. A warp has 16 rows of the sums.

    Args:
        sums: the sums, or how many a thread has (a constant) if they begin as 0.
        a: the descriptor of A in shared memory (`wgmma_descriptor`), or its registers, 4 for each step.
        b: the descriptor of B.
        steps: how many instructions follow each other, each for 32 bytes along K; a constant like all that follow.
        a_step, b_step: added to the descriptors for each step, in units of 16 bytes: 2 for swizzled rows of K numbers.
        a_trans, b_trans: 1 if the matrix lies transposed in shared memory, with M or N contiguous.
    """
    return _group(KINDS["bf16"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["f16"]), since=HOPPER)
def wgmma_f16(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of float16 factors and float32 sums, as `wgmma_bf16` does."""
    return _group(KINDS["f16"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["tf32"]), since=HOPPER)
def wgmma_tf32(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of float32 factors without their lowest 13 bits, as `wgmma_bf16` does; both `trans` are 0."""
    return _group(KINDS["tf32"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["e4m3"]), since=HOPPER)
def wgmma_e4m3(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of float8_e4m3fn factors and float32 sums, as `wgmma_bf16` does; both `trans` are 0."""
    return _group(KINDS["e4m3"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["e5m2"]), since=HOPPER)
def wgmma_e5m2(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of float8_e5m2 factors and float32 sums, as `wgmma_bf16` does; both `trans` are 0."""
    return _group(KINDS["e5m2"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["s8"]), since=HOPPER)
def wgmma_s8(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of int8 factors and int32 sums, as `wgmma_bf16` does; both `trans` are 0."""
    return _group(KINDS["s8"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


@generated(_wgmma(KINDS["u8"]), since=HOPPER)
def wgmma_u8(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int
) -> Fragment:
    """Begin a product of uint8 factors and int32 sums, as `wgmma_bf16` does; both `trans` are 0."""
    return _group(KINDS["u8"], sums, a, b, steps, a_step, b_step, a_trans, b_trans)


def _wgmma_wait_group(sums: Any, pending: Any) -> Any:
    n = literal(pending, "pending")

    def emit(e: Emitter, value: Any, _: Any) -> Any:
        number = e.llvm(sums.dtype)
        text = f"wgmma.wait_group.sync.aligned {n};"
        return e.tuple(sums, e.asm_many(text, [], number, len(sums), tied=e.items(value)))

    return sums(sums, pending), emit


@generated(_wgmma_wait_group, since=HOPPER)
def wgmma_wait_group(sums: Fragment, pending: int) -> Fragment:
    """Wait until at most `pending` (a constant) of the warpgroup's newest wgmma groups are unfinished; return `sums`.

    Use the returned sums from then on: the compiler then reads none of them before.
    """
    begun = block().products[thread().thread_id // 128]
    for group in begun[: len(begun) - pending]:
        group.finish()
    del begun[: max(len(begun) - pending - 8, 0)]
    if isinstance(sums, Unfinished) and sums.group.found is not None:
        return sums.now()
    return sums
