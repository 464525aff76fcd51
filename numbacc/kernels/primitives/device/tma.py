"""Copies by the copy engine (TMA): of contiguous bytes, and of boxes of arrays that a tensor map describes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import _numba
from ....base._numba import types
from .block_state import BlockState, block, global_bytes, local, thread
from .emitting import Emitter, addresses, generated, literal, ptx

__all__ = [
    "cp_async_bulk_commit_group", "cp_async_bulk_load", "cp_async_bulk_store", "cp_async_bulk_wait_group",
    "cp_async_bulk_wait_group_read", "fence_tensormap", "prefetch_tensormap", "tma_load",
    "tma_load_multicast", "tma_reduce_add", "tma_store",
]  # fmt: skip


def swizzled(places: Any, swizzle: int) -> Any:
    """Return addresses in shared memory after the swizzle of 128, 64, 32 or 0 bytes."""
    return places ^ (((places >> 7) & (swizzle // 16 - 1)) << 4) if swizzle else places


# ---------------------------------------------------------------- contiguous bytes


@ptx(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
    "u32", "i64", "u32", "u32",
)  # fmt: skip
def cp_async_bulk_load(shared: int, source: int, nbytes: int, mbarrier: int) -> None:
    """Begin a copy of `nbytes` from global to shared memory. Their arrival counts at the mbarrier.

    The addresses and `nbytes` are multiples of 16. One thread calls this.
    """
    _check_16(shared, source, nbytes)
    at = local(shared)
    places = np.arange(at, at + int(nbytes))
    block().arriving(places, global_bytes(source, int(nbytes)), local(mbarrier), "cp_async_bulk_load")


@ptx("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", "i64", "u32", "u32")
def cp_async_bulk_store(target: int, shared: int, nbytes: int) -> None:
    """Begin a copy of `nbytes` from shared to global memory, as part of the thread's bulk group.

    The addresses and `nbytes` are multiples of 16. `fence_proxy_async` and a barrier come before, as for `tma_store`.
    """
    _check_16(shared, target, nbytes)
    at = local(shared)
    places = np.arange(at, at + int(nbytes))
    block().check_fenced(places, "cp_async_bulk_store")
    block().watch_engine("cp_async_bulk_store", "read", places)
    values = block().read(places, "cp_async_bulk_store")
    _storing(places, values)
    global_bytes(target, int(nbytes))[:] = values


def _storing(places: Any, values: Any) -> None:
    """Note that a store of this thread reads shared memory until the thread waits for it."""
    block().stores[thread().thread_id][-1].append((places, values.copy()))


def _stored(pending: int) -> None:
    """Wait for the thread's bulk groups but the newest `pending`.

    Raises:
        RuntimeError: what a store read has changed before it was waited for.
    """
    state = block()
    groups = state.stores[thread().thread_id]
    while len(groups) - 1 > pending:
        for places, values in groups.pop(0):
            if not np.array_equal(state.memory[places], values):
                raise RuntimeError(
                    "shared memory was overwritten while a bulk store could still read it: call "
                    "cp_async_bulk_wait_group_read, and a barrier, before the next writes"
                )


def _check_16(*numbers: Any) -> None:
    for number in numbers:
        if int(number) % 16:
            raise ValueError(f"a bulk copy needs addresses and sizes that are multiples of 16, and not {int(number)}")


# ---------------------------------------------------------------- boxes


def _box(text: str, order: str) -> Any:
    """Return the typing of a copy of a box.

    Args:
        text: PTX with the fields {rank}, {map} (a tensor map's address and the coordinates) and, by name, the others.
        order: names of the parameters, of which "tensor_map" and "coordinates" are one each.
    """
    names = order.split()

    def typed(*kinds: Any) -> Any:
        at = names.index("coordinates")
        given = kinds[at]
        if not isinstance(given, types.BaseTuple) or not 1 <= len(given) <= 5:
            raise TypeError("coordinates must be a tuple of 1 to 5 integers, the innermost axis first")
        rank = len(given)
        expected = [types.uint32] * len(names)
        expected[at] = given
        place = names.index("tensor_map")
        expected[place] = _numba.TENSOR_MAP if kinds[place] == _numba.TENSOR_MAP else types.int64

        def emit(e: Emitter, *args: Any) -> None:
            operands: list[Any] = []
            fields: dict[str, Any] = {"rank": rank}
            for name, value, kind in zip(names, args, expected, strict=True):
                if name == "coordinates":
                    numbers = [
                        e.context.cast(e.builder, item, each, types.int32)
                        for item, each in zip(e.items(value), given, strict=True)
                    ]
                    fields[name] = ", ".join(f"${len(operands) + k}" for k in range(rank))
                    operands += numbers
                else:
                    fields[name] = f"${len(operands)}"
                    operands += addresses(e, [kind], [value])
            fields["map"] = f"[{fields['tensor_map']}, {{{fields['coordinates']}}}]"
            e.asm(text.format(**fields), operands)

        return types.void(*expected), emit

    return typed


_LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"


def _in_box(tensor_map: Any, coordinates: Any, shared: Any) -> tuple[Any, Any, Any, Any]:
    """Return (places in shared memory, addresses in global memory, which elements exist, the map's fields).

    The arrays have an axis for the elements of a box, and one for the bytes of an element.
    """
    fields = getattr(tensor_map, "fields", tensor_map)
    if isinstance(fields, (int, np.integer)):
        raise NotImplementedError(
            "tensor maps in global memory work on a GPU only: pass the result of device.tensor_map to the kernel"
        )
    if int(shared) % 128:
        raise ValueError(f"a box needs a shared address that is a multiple of 128, and not {int(shared)}")
    if len(coordinates) != len(fields.shape):
        raise ValueError(f"{len(coordinates)} coordinates for a tensor map with {len(fields.shape)} axes")
    if int(coordinates[0]) * fields.itemsize % 16:
        raise ValueError(
            f"a box begins at element {int(coordinates[0])} of {fields.itemsize} bytes along the innermost axis: this "
            "must be a multiple of 16 bytes"
        )
    outer_first = np.indices(fields.box[::-1]).reshape(len(fields.box), -1)[::-1]
    exists, addresses_ = np.ones(outer_first.shape[1], bool), np.full(outer_first.shape[1], fields.address)
    for axis, (first, length, step) in enumerate(zip(coordinates, fields.shape, fields.strides, strict=True)):
        index = outer_first[axis] + int(first)
        exists &= (index >= 0) & (index < length)
        addresses_ = addresses_ + index * step
    places = local(shared) + np.arange(exists.size)[:, None] * fields.itemsize + np.arange(fields.itemsize)
    return swizzled(places, fields.swizzle), addresses_, exists, fields


def _read_box(tensor_map: Any, coordinates: Any, shared: Any) -> tuple[Any, Any, int]:
    """Return (places in shared memory, values, swizzle) of the bytes of a box. Elements outside of the array are 0."""
    places, where, exists, fields = _in_box(tensor_map, coordinates, shared)
    values = np.zeros((exists.size, fields.itemsize), np.uint8)
    if exists.any():
        first, last = int(where[exists].min()), int(where[exists].max())
        whole = global_bytes(first, last + fields.itemsize - first)
        values[exists] = whole[where[exists][:, None] - first + np.arange(fields.itemsize)]
    return places.ravel(), values.ravel(), fields.swizzle


@generated(_box(_LOAD + " [{shared}], {map}, [{mbarrier}];", "shared tensor_map coordinates mbarrier"))
def tma_load(shared: int, tensor_map: Any, coordinates: tuple[int, ...], mbarrier: int) -> None:
    """Begin to copy a box of an array to shared memory. Its bytes count at the mbarrier.

    One thread calls this, after `mbarrier_arrive_expect_tx` with the box's bytes. Elements outside of the array are 0,
    and count, too.

    Args:
        shared: a multiple of 128; with a swizzle of n bytes, a multiple of 8 n.
        tensor_map: from `device.tensor_map`.
        coordinates: the box's first element: a tuple, the innermost axis first. Along that axis it lies a multiple of
            16 bytes from the array's beginning, and may lie before it, as along all axes.
    """
    places, values, swizzle = _read_box(tensor_map, coordinates, shared)
    block().arriving(places, values, local(mbarrier), "tma_load", swizzle)


@generated(
    _box(
        "{{ .reg .b16 mask; cvt.u16.u32 mask, {mask}; "
        + _LOAD
        + ".multicast::cluster [{shared}], {map}, [{mbarrier}], mask; }}",
        "shared tensor_map coordinates mbarrier mask",
    )
)
def tma_load_multicast(shared: int, tensor_map: Any, coordinates: tuple[int, ...], mbarrier: int, mask: int) -> None:
    """Begin to copy a box to the same place of several blocks of the cluster, and count it at each block's mbarrier.

    Args:
        mask: a bit for each block, by its rank.
    """
    places, values, swizzle = _read_box(tensor_map, coordinates, shared)
    for rank in range(len(block().cluster)):
        if int(mask) >> rank & 1:
            block().other(rank).arriving(places, values, local(mbarrier), "tma_load_multicast", swizzle)


def _written(tensor_map: Any, coordinates: Any, shared: Any, what: str) -> tuple[Any, Any, Any]:
    """Return (values, addresses, fields) of the elements that a store writes."""
    if any(int(each) < 0 for each in coordinates):
        raise ValueError(f"{what} at {tuple(map(int, coordinates))}: a store begins inside of the array's axes")
    places, where, exists, fields = _in_box(tensor_map, coordinates, shared)
    state: BlockState = block()
    state.check_fenced(places.ravel(), what)
    state.watch_engine(what, "read", places.ravel())
    values = state.read(places, what)
    _storing(places, values)
    return values[exists], where[exists], fields


def _global_elements(where: Any, itemsize: int) -> tuple[Any, Any]:
    first = int(where.min())
    return global_bytes(first, int(where.max()) + itemsize - first), where[:, None] - first + np.arange(itemsize)


@generated(
    _box(
        "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group {map}, [{shared}];", "tensor_map coordinates shared"
    )
)
def tma_store(tensor_map: Any, coordinates: tuple[int, ...], shared: int) -> None:
    """Begin to copy a box from shared memory to an array, as part of the thread's bulk group.

    One thread calls this. Before, each thread that wrote the bytes calls `fence_proxy_async`, and all meet at a
    barrier. Elements beyond the array's end are skipped; unlike those of loads, coordinates are not negative.
    """
    values, where, fields = _written(tensor_map, coordinates, shared, "tma_store")
    if where.size:
        whole, places = _global_elements(where, fields.itemsize)
        whole[places] = values


@generated(
    _box(
        "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.bulk_group {map}, [{shared}];",
        "tensor_map coordinates shared",
    )
)
def tma_reduce_add(tensor_map: Any, coordinates: tuple[int, ...], shared: int) -> None:
    """Begin to add a box of shared memory to an array, element by element; like `tma_store` otherwise."""
    values, where, fields = _written(tensor_map, coordinates, shared, "tma_reduce_add")
    if where.size:
        kind = _numpy_dtype(fields.dtype)
        whole, places = _global_elements(where, fields.itemsize)
        before = np.ascontiguousarray(whole[places]).view(kind)
        whole[places] = (before + np.ascontiguousarray(values).view(kind)).astype(kind).view(np.uint8)


def _numpy_dtype(name: str) -> Any:
    from ....base.dtypes import TABLE

    return TABLE[name].numpy if name in TABLE else np.dtype(name)


# ---------------------------------------------------------------- groups and maps


@ptx("cp.async.bulk.commit_group;")
def cp_async_bulk_commit_group() -> None:
    """End a bulk group: the thread's bulk and box stores since the last group."""
    block().stores[thread().thread_id].append([])


def _wait(how: str) -> Any:
    def typed(pending: Any) -> Any:
        n = literal(pending, "pending")

        def emit(e: Emitter, _: Any) -> None:
            e.asm(f"cp.async.bulk.wait_group{how} {n};")

        return types.void(pending), emit

    return typed


@generated(_wait(""))
def cp_async_bulk_wait_group(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the thread's newest bulk groups are unfinished."""
    _stored(pending)


@generated(_wait(".read"))
def cp_async_bulk_wait_group_read(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the newest bulk groups still read shared memory."""
    _stored(pending)


@ptx("prefetch.tensormap [$0];", "map")
def prefetch_tensormap(tensor_map: Any) -> None:
    """Bring a tensor map into the cache of the copy engine."""
    thread()


@ptx("fence.proxy.tensormap::generic.acquire.sys [$0], 128;", "map", in_memory=True)
def fence_tensormap(tensor_map: Any) -> None:
    """Make a tensor map in global memory visible to the copy engine. Maps that are parameters do not need this."""
    thread()
