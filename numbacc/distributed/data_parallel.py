"""Data-parallel training: gradients are averaged over the ranks while the backward pass still computes others.

Gradients and parameters lie in flat arrays, which are divided into buckets. As soon as all gradients of a bucket are
queued, NCCL reduces it on a stream with a high priority. If the optimizer's state is sharded, each rank gets only its
share of the reduced bucket, updates its share of the parameters, and all ranks gather the new parameters.

NCCL's kernels take multiprocessors away from the backward pass. In registered memory, copy engines move each rank's
share to it instead, and a kernel of the update averages the shares of all ranks in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import elementwise
from ..arrays import operands
from ..base import checks
from ..base.dispatch import runtime
from ..base.layout import Layout, argument_of, check_writable, layout, read_only
from ..base.ownership import NotCopied
from ..errors import DeviceError, DTypeError, LayoutError, OptionError, ShapeError, shown
from ..runtime.streams import Stream, handle_of
from ..runtime.streams import stream as make_stream
from .communicator import Communicator

#: Parameters of `numbacc.nn` start at multiples of so many elements in their flat arrays. Shares of buckets do, too.
ALIGNMENT = 64
#: Bytes of a bucket, by default. Smaller ones take longer in all, larger ones start later.
BUCKET_BYTES = 2**25


#: Number of rows -> a kernel of their mean, in float32. With few rows a reduction takes three times as long.
_MEANS: dict[int, Any] = {
    2: elementwise.kernel(lambda a, b: (a + b) * 0.5),
    4: elementwise.kernel(lambda a, b, c, d: ((a + b) + (c + d)) * 0.25),
    8: elementwise.kernel(lambda a, b, c, d, e, f, g, h: (((a + b) + (c + d)) + ((e + f) + (g + h))) * 0.125),
}


class BucketPart(NamedTuple):
    """The elements that this rank's optimizer updates in one go.

    Attributes:
        whole: where they are in the flat arrays of gradients and parameters.
        local: where they are in this rank's own arrays of `state_size` elements: moments, float32 parameters.

    Example:
        >>> team = numbacc.distributed.init()
        >>> numbacc.distributed.DataParallel(team, np.zeros(256), bucket_bytes=1024).parts[1].whole
        slice(128, 256, None)
    """

    whole: slice
    local: slice


class _Bucket:
    """Elements that are reduced together.

    Attributes:
        start, stop: where they are in the flat arrays.
        is_shared: whether each rank gets a share of them only.
        part: the elements that this rank updates.
        left: the number of elements that are not ready yet.
        event: the point behind NCCL's work; None before it is queued, and on the CPU.
        pieces: all ranks' values of this rank's part, to be averaged after the event; None if NCCL averages.
    """

    def __init__(self, start: int, stop: int, is_shared: bool, part: BucketPart):
        self.start, self.stop, self.is_shared, self.part = start, stop, is_shared, part
        self.left = stop - start
        self.event: Any = None
        self.pieces: Any = None


class DataParallel(NotCopied):
    """Averages the gradients of all ranks in buckets, each as soon as it is ready.

    All ranks make it with arrays of one length and one dtype, and report gradients in the same order.

    Args:
        communicator: the ranks.
        gradients: contiguous array of rank 1 with all gradients: float32, float64, float16 or bfloat16.
        parameters: array of gradients' shape with the parameters that the forward pass reads. It is needed with
            `shard`, for all ranks to gather them.
        shard: True divides each bucket among the ranks: each updates its share, and keeps the optimizer's state of its
            share only.
        boundaries: indices of elements where an optimizer's options change, such as weight decay. No part crosses them.
        overlap: what computes while NCCL works. "backward": a bucket is reduced as soon as it is ready, while the
            backward pass goes on. "update": all buckets are reduced when the backward pass has ended, each while the
            parameters of others are updated.
        bucket_bytes: the size of a bucket.
        stream: the stream that NCCL works on; by default a new one with a high priority.

    Attributes:
        parts: the elements that this rank updates, as a tuple of `BucketPart`, in the order of the flat arrays.
        is_sharded: whether there is an element that only one rank updates.
        state_size: the number of these elements: the length of moments and of float32 parameters.

    Raises:
        ShapeError, LayoutError, DTypeError, DeviceError: an array does not fit.
        OptionError: shard=True without parameters, a boundary is out of range, or overlap is unknown.

    Example:
        >>> gradients, parameters = np.ones(256), np.zeros(256)
        >>> parallel = numbacc.distributed.DataParallel(numbacc.distributed.init(), gradients, parameters, shard=True)
        >>> for part in parallel.reduced():  # after the backward pass, which calls parallel.ready
        ...     parameters[part.whole] -= 0.5 * gradients[part.whole]
        >>> parameters[:2]
        array([-0.5, -0.5])
    """

    _instead = "make another"

    def __init__(
        self,
        communicator: Communicator,
        gradients: Any,
        parameters: Any = None,
        *,
        shard: bool = False,
        boundaries: Sequence[int] = (),
        overlap: str = "backward",
        bucket_bytes: int = BUCKET_BYTES,
        stream: Any = None,
    ):
        self._team = communicator
        handle = handle_of(None)
        self._gradients, own = _flat(gradients, "gradients", handle)
        self._parameters = None
        if parameters is not None:
            self._parameters, other = _flat(parameters, "parameters", handle)
            if other.shape != own.shape:
                raise ShapeError(f"parameters has shape {other.shape} and gradients {own.shape}")
            if other.device != own.device:
                raise DeviceError(
                    f"parameters is on {argument_of(other.device)} and gradients on {argument_of(own.device)}"
                )
        if checks.boolean(shard, "shard") and parameters is None:
            raise OptionError("shard=True needs parameters, which all ranks gather after each update: pass them")
        if overlap not in ("backward", "update"):
            raise OptionError(f'overlap={shown(overlap)} is unknown; pass "backward" or "update"')
        self._waits_for_the_end = overlap == "update"
        self._own, self._on_host = own, own.device < 0
        self._buckets = self._divide(shard, boundaries, checks.integer(bucket_bytes, "bucket_bytes", 1, 2**40))
        self._starts = np.array([each.start for each in self._buckets])
        self.is_sharded = any(each.is_shared for each in self._buckets)
        self.parts = tuple(each.part for each in self._buckets)
        self.state_size = sum(each.part.local.stop - each.part.local.start for each in self._buckets)
        #: Buckets that are ready, and buckets with a queued reduction, in this order.
        self._full: list[_Bucket] = []
        self._queued: list[_Bucket] = []
        self._works = communicator.world_size > 1 and own.size > 0
        self._stream: Stream | None = None
        #: Registered memory for the pieces that other ranks send; None if NCCL's kernels reduce.
        self._pieces: Any = None
        if self._works and not self._on_host:
            communicator._check_gpu(own)
            if shard and communicator._is_registered(self._gradients):
                self._pieces = communicator.registered_empty(own.size, own.dtype)
            self._stream = make_stream(device=own.device, priority=-1) if stream is None else make_stream(stream)

    def _divide(self, shard: bool, boundaries: Sequence[int], nbytes: int) -> list[_Bucket]:
        """Return the buckets: of about `nbytes` bytes, and between two boundaries each."""
        size, team = self._own.size, self._team
        edges = sorted({0, size, *(checks.integer(each, "boundaries", 0, size) for each in boundaries)})
        unit = team.world_size * ALIGNMENT
        step = max(nbytes // self._own.itemsize // unit, 1) * unit
        made: list[_Bucket] = []
        local = 0
        for first, last in pairwise(edges):
            stops = [*range(first + step, last, step), last]
            # A short rest is reduced with the bucket before it.
            if len(stops) > 1 and stops[-1] - stops[-2] < step // 4:
                del stops[-2]
            for start, stop in zip([first, *stops], stops, strict=False):
                divisible = start + (stop - start) // unit * unit if shard and team.world_size > 1 else start
                for low, high in ((start, divisible), (divisible, stop)):
                    if low < high:
                        is_shared = high == divisible
                        own = (high - low) // team.world_size if is_shared else high - low
                        begin = low + team.rank * own if is_shared else low
                        part = BucketPart(slice(begin, begin + own), slice(local, local + own))
                        made.append(_Bucket(low, high, is_shared, part))
                        local += own
        return made

    # ------------------------------------------------------------ in the backward pass

    def ready(self, start: Any, stop: int | None = None) -> None:
        """Report that the kernels that write some gradients are queued on the current stream.

        A bucket is reduced as soon as all its elements are reported; nothing may use them until `reduced` yields its
        part. Report each gradient once for each step. With several micro-batches, report it in the last one.

        Args:
            start, stop: the gradients' place in the flat array. Instead, `start` may be a slice, or a parameter of
                `numbacc.nn`, which has a slice as its attribute `span`; the padding after it is reported with it.

        Raises:
            OptionError: the place is out of range, or is reported twice.
            RankError: another rank has ended.
        """
        padding = 1
        if stop is None:
            if hasattr(start, "span"):
                start, padding = start.span, ALIGNMENT
            if not isinstance(start, slice):
                raise OptionError(f"start={shown(start)} must be a slice, or an index with stop= after it")
            start, stop, _ = start.indices(self._own.size)
        low = checks.integer(start, "start", 0, self._own.size)
        high = checks.integer(stop, "stop", low, self._own.size)
        high = min(-(-high // padding) * padding, self._own.size)
        number = int(np.searchsorted(self._starts, low, "right")) - 1
        while low < high:
            bucket = self._buckets[number]
            count = min(high, bucket.stop) - low
            if count > bucket.left:
                raise OptionError(
                    f"gradients {low} to {low + count} were reported twice: report each once, before reduced()"
                )
            bucket.left -= count
            if not bucket.left:
                self._full.append(bucket)
                if not self._waits_for_the_end:
                    self._reduce_all()
            low, number = low + count, number + 1

    def reduce(self) -> None:
        """Reduce all gradients, and make the current stream wait for them: for a norm of all, before `reduced`.

        Gradients that `ready` did not report are reduced, too.

        Raises:
            RankError: another rank has ended.
        """
        self._reduce_rest()
        for bucket in self._queued:
            self._complete(bucket)

    def counted(self) -> list[BucketPart]:
        """Return the parts that this rank contributes to a sum over all gradients: each element counts on one rank.

        Without `shard` every rank has all parts, and no sum over the ranks is needed.
        """
        mine = [each.part for each in self._buckets if each.is_shared or not self.is_sharded or not self._team.rank]
        return mine or [BucketPart(slice(0, 0), slice(0, 0))]

    def reduced(self) -> Iterator[BucketPart]:
        """Iterate over this rank's parts, in the order of their reductions.

        When a part comes, its gradients are the means over all ranks, for work on the current stream. Update its
        parameters, on the current stream, before the next part. With `shard`, all ranks then gather the bucket's
        parameters, while the next part is updated. At the end of the loop the stream has all parameters.

        Gradients that `ready` did not report are reduced first.

        Raises:
            RankError: another rank has ended.
        """
        self._reduce_rest()
        queued, self._queued = self._queued, []
        try:
            for bucket in queued:
                self._complete(bucket)
                yield bucket.part
                if bucket.is_shared and self._works:
                    self._gather(bucket)
        finally:
            for bucket in queued:
                bucket.left, bucket.event, bucket.pieces = bucket.stop - bucket.start, None, None
            self._join()

    # ------------------------------------------------------------ the optimizer's state

    def share(self, array: Any) -> Any:
        """Return this rank's elements of a flat array, as a new array of `state_size` elements.

        Args:
            array: array of the gradients' length, the same on all ranks: the float32 parameters at the start.

        Raises:
            ShapeError: it has another shape.
        """
        whole, own = _flat(array, "array", handle_of(None), written=False)
        if own.shape != self._own.shape:
            raise ShapeError(f"array has shape {own.shape} and gradients {self._own.shape}")
        made = _empty_like(own, self.state_size)
        for part in self.parts:
            made[part.local] = whole[part.whole]
        return made

    def unshare(self, array: Any) -> Any:
        """Return the flat array of all ranks' elements, the inverse of `share`: of moments, for a checkpoint.

        Args:
            array: array of `state_size` elements.

        Returns:
            array of the gradients' length, the same on all ranks.

        Raises:
            ShapeError: it has another shape. RankError: another rank has ended.
        """
        local, own = _flat(array, "array", handle_of(None), written=False)
        if own.shape != (self.state_size,):
            raise ShapeError(f"array has shape {own.shape}; it must have shape ({self.state_size},)")
        made = _empty_like(own, self._own.size)
        for bucket in self._buckets:
            place = slice(bucket.start, bucket.stop)
            if bucket.is_shared:
                self._team.all_gather(local[bucket.part.local], out=made[place])
            else:
                made[place] = local[bucket.part.local]
        return made

    # ------------------------------------------------------------ NCCL

    def _reduce_rest(self) -> None:
        """Queue the reductions of all buckets that are not queued yet."""
        for bucket in reversed(self._buckets):
            if bucket.left:
                bucket.left = 0
                self._full.append(bucket)
        self._reduce_all()

    def _reduce_all(self) -> None:
        """Queue the reductions of the buckets that are ready."""
        while self._full:
            self._reduce(self._full.pop(0))

    def _reduce(self, bucket: _Bucket) -> None:
        """Queue the reduction of a bucket whose gradients are queued on the current stream."""
        self._queued.append(bucket)
        if not self._works:
            return
        place = self._gradients[bucket.start : bucket.stop]
        if self._on_host:
            if bucket.is_shared:
                self._team.reduce_scatter(place, "mean", out=self._gradients[bucket.part.whole])
            else:
                self._team.all_reduce(place, "mean", out=place)
            return
        moves = bucket.is_shared and self._pieces is not None
        name = "all_to_all" if moves else "reduce_scatter" if bucket.is_shared else "all_reduce"
        self._team._note(f"{name}({place.dtype} {bucket.start}:{bucket.stop}, mean)")
        with self._beside(self._gradients) as stream:
            if moves:
                bucket.pieces = self._pieces[bucket.start : bucket.stop]
                self._team._exchange_parts(place, bucket.pieces, stream)
            else:
                self._team._reduce_mean(place, self._gradients[bucket.part.whole], bucket.is_shared, stream)
            bucket.event = runtime().DriverEvent(self._own.device)
            bucket.event.record(stream)

    def _complete(self, bucket: _Bucket) -> None:
        """Make the current stream wait for a bucket, and average the pieces that other ranks have sent."""
        if bucket.event is not None:
            bucket.event.wait(handle_of(None), self._own.device)
            bucket.event = None
        if bucket.pieces is not None:
            _mean(bucket.pieces.reshape((self._team.world_size, -1)), self._gradients[bucket.part.whole])
            bucket.pieces = None

    def _gather(self, bucket: _Bucket) -> None:
        """Queue the gathering of a bucket's parameters, which the current stream has updated."""
        assert self._parameters is not None
        own, whole = self._parameters[bucket.part.whole], self._parameters[bucket.start : bucket.stop]
        if self._on_host:
            self._team.all_gather(own, out=whole)
            return
        self._team._note(f"all_gather({own.dtype} {bucket.start}:{bucket.stop})")
        with self._beside(self._parameters) as stream:
            self._team._gather_parts(own, whole, stream)

    def _beside(self, array: Any) -> _Beside:
        assert self._stream is not None
        return _Beside(self._stream.handle, handle_of(None), self._own.device, array, self._team._nccl)

    def _join(self) -> None:
        """Make the current stream wait for everything that NCCL's stream has, and note that in the memory's order."""
        if self._stream is None:
            return
        current, device = handle_of(None), self._own.device
        arrays = [each for each in (self._gradients, self._parameters, self._pieces) if each is not None]
        with runtime().using(current, device, writes=arrays):
            runtime().wait(current, self._stream.handle, device)


class _Beside:
    """Work on one part of an array on NCCL's stream, while the current stream uses other parts.

    The memory's history has one entry for the whole array. With NCCL's stream in it, kernels that write other parts
    would wait for NCCL. So NCCL's stream waits for the current one here, and `_join` makes the current one wait for it.
    Until then the array's memory is kept.
    """

    def __init__(self, stream: int, current: int, device: int, array: Any, library: Any):
        self._stream, self._current, self._device = stream, current, device
        self._array, self._library = array, library
        self._using = runtime().using(current, device, writes=(array,))

    def __enter__(self) -> int:
        capture = self._using.__enter__()
        if capture is not None:
            capture.keep(self._library)
            capture.count(self._library)
        self._is_captured = capture is not None
        runtime().wait(self._stream, self._current, self._device)
        return self._stream

    def __exit__(self, *error: Any) -> None:
        if not self._is_captured:
            behind = runtime().DriverEvent(self._device)
            behind.record(self._stream)
            runtime().keep_until(behind, self._array._storage)
        self._using.__exit__(*error)


def _flat(array: Any, name: str, handle: int, *, written: bool = True) -> tuple[Any, Layout]:
    """Return a contiguous array of floats of rank 1, and its layout."""
    found = operands.as_array(array, name, handle)
    own = operands.layout_of(found)
    if len(own.shape) != 1:
        raise ShapeError(f"{name} has shape {own.shape}; it must have rank 1")
    if own.dtype.name not in ("float32", "float64", "float16", "bfloat16"):
        raise DTypeError(f"{name} has dtype {own.dtype}; it must have float32, float64, float16 or bfloat16")
    if own.size > 1 and own.strides != (own.itemsize,):
        raise LayoutError(f"{name} has strides {own.strides}; it must be contiguous")
    check_writable(own, name)
    if written and not (found.flags.writeable if isinstance(found, np.ndarray) else not found._readonly):
        raise read_only(name)
    return found, own


def _mean(rows: Any, out: Any) -> None:
    """Write the mean of the rows of a matrix."""
    kernel = _MEANS.get(rows.shape[0])
    if kernel is None:
        elementwise.mean(rows, axis=0, out=out)
    else:
        kernel(*rows, out=out)


def _empty_like(own: Layout, size: int) -> Any:
    made = layout((size,), (own.itemsize,), own.dtype, own.device)
    return operands.empty_host(made) if own.device < 0 else operands.empty_device(made, handle_of(None))
