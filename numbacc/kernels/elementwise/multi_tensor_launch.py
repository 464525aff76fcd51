"""The executable of operations on lists of arrays: one launch for all of them, in the order of their memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from ...base.dispatch import launcher_class, runtime
from ...base.layout import Layout, is_dense, overlap
from ...base.observing import observable
from ...base.ownership import PLAN_INSTEAD, NotCopied
from ...errors import LayoutError
from ...runtime.launch_order import MAX_THREADS, LaunchOrder
from ..specs import compute_dtype, words_of
from .launch import LaunchExecutable
from .multi_tensor_spec import ListFormula, ListSpec, ListSumSpec
from .multi_tensor_tables import ListTables

_address, _storage = attrgetter("_address"), attrgetter("_storage")


class ListTask(NamedTuple):
    """Lists of arrays. Arrays at the same position of each list form a row and have one shape.

    Attributes:
        names: names of the lists.
        layouts: the arrays' layouts, list after list.
        rows: number of arrays in each list.
        operands: name of the dtype of each list's arrays.
        written: the numbers of the lists that are written, in the order of the formula's results.
        reads: number of lists, counted from the first, that are read.
        alone: True if each list stands for a single array.
        sums: name of the dtype of sums; "" if nothing is summed.
    """

    names: tuple[str, ...]
    layouts: tuple[Layout, ...]
    rows: int
    operands: tuple[str, ...]
    written: tuple[int, ...]
    reads: int
    alone: bool = False
    sums: str = ""

    @property
    def compute(self) -> str:
        """Name of the dtype that the formula computes in."""
        return self.sums or compute_dtype(self.operands, [self.operands[k] for k in self.written])

    def is_written(self, number: int) -> bool:
        """Return True if the array of this number belongs to a list that is written."""
        return number // self.rows in self.written

    def name(self, number: int) -> str:
        """Return the name of an array in messages."""
        name = self.names[number // self.rows]
        return name if self.alone else f"{name}[{number % self.rows}]"


class Work(NamedTuple):
    """The computation on lists of arrays.

    Attributes:
        formula: the formula for their elements.
        scalars: names of the dtypes of scalar arguments.
        names: names of the single-element arrays.
        is_sum: True if the formula, a `Formula`, is summed: each block writes a sum to an output.
    """

    formula: Any
    scalars: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    is_sum: bool = False


def is_flat(row: Sequence[Layout]) -> bool:
    """Return True if arrays of one shape are dense and in the same memory order, so that they can be flattened."""
    first = row[0]
    steps = [[step // each.itemsize for n, step in zip(each.shape, each.strides, strict=True) if n > 1] for each in row]
    return bool(first.size) and all(map(is_dense, row)) and all(own == steps[0] for own in steps)


class Apart:
    """A check that outputs share no memory with any other array."""

    def __init__(self, task: ListTask):
        self._task = task
        self._low = np.array([each.low for each in task.layouts], np.int64)
        self._high = np.array([each.high for each in task.layouts], np.int64)

    def check(self, addresses: Sequence[int]) -> None:
        """Raise LayoutError if a written array overlaps another array, given all addresses."""
        starts = np.array(addresses, np.int64)
        low, high = starts + self._low, starts + self._high
        there = np.flatnonzero(high > low)
        order = there[np.argsort(low[there], kind="stable")]
        # Nearly all arrays are disjoint, which their bounds show.
        if (high[order[:-1]] <= low[order[1:]]).all():
            return
        task = self._task
        near: list[int] = []
        for j in map(int, order):
            near = [i for i in near if high[i] > low[j]]
            for i in near:
                is_written = task.is_written(i) or task.is_written(j)
                if is_written and overlap(addresses[i], task.layouts[i], addresses[j], task.layouts[j]):
                    one, other = sorted((i, j))
                    raise _shared(task.name(other), task.name(one))
            near.append(j)

    def check_single(self, name: str, address: int, own: Layout, addresses: Sequence[int]) -> None:
        """Raise LayoutError if a single-element array that is read overlaps an array that is written."""
        starts, task = np.array(addresses, np.int64), self._task
        near = (starts + self._low < address + own.high) & (starts + self._high > address + own.low)
        for k in map(int, np.flatnonzero(near)):
            if task.is_written(k) and overlap(addresses[k], task.layouts[k], address, own):
                raise _shared(name, task.name(k))


def _shared(one: str, other: str) -> LayoutError:
    return LayoutError(f"{one} overlaps {other}: pass memory that does not overlap it")


class ListExecutable(NotCopied):
    """Formulas on lists of arrays, ready for arrays with the task's layouts at any address.

    Attributes:
        flat: the numbers of the rows that the kernel processes: non-empty rows of dense arrays.
        last: the most recently launched kernel, None at first.
    """

    _instead = PLAN_INSTEAD

    def __init__(self, task: ListTask, device: int):
        self.task, self._device = task, device
        self.last: LaunchExecutable | None = None
        self.apart = Apart(task)
        self.flat = [k for k in range(task.rows) if is_flat(task.layouts[k :: task.rows])]
        sizes = [task.layouts[k].size for k in self.flat]
        self.tables = ListTables(sizes, self._spec(Work(ListFormula("", tuple), ()), ()), device)
        #: Numbers of arrays, and whether they are written; written ones come last, in case several arrays share a
        #: storage.
        self._order = sorted(((k, task.is_written(k)) for k in range(len(task.layouts))), key=itemgetter(1))
        self._picked = [k + first for first in range(0, len(task.layouts), max(task.rows, 1)) for k in self.flat]
        self._kernels: dict[Any, LaunchExecutable] = {}

    def _spec(self, work: Work, singles: tuple[str, ...]) -> Any:
        task = self.task
        if work.is_sum:
            return ListSumSpec(work.formula, task.operands, task.compute)
        return ListSpec(work.formula, task.operands, task.written, singles, task.compute, work.scalars, task.reads)

    def kernel(self, work: Work, singles: tuple[str, ...], starts: Sequence[int]) -> LaunchExecutable:
        """Return the executable for a computation.

        Args:
            work: the computation.
            singles: the dtypes of its single-element arrays.
            starts: the addresses of these and of its outputs.
        """
        key = work, singles, tuple([start % 16 for start in starts])
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = self._make(*key)
        self.last = found
        return found

    def _make(self, work: Work, singles: tuple[str, ...], alignment: tuple[int, ...]) -> LaunchExecutable:
        tables = self.tables
        launcher = launcher_class()(
            LaunchOrder(
                kernel=self._spec(work, singles),
                device=self._device,
                grid=(tables.blocks, 1),
                block=(MAX_THREADS, 1),
                alignment=(0, 0, *alignment),
                pointers=tuple((k, 0) for k in range(2 + len(alignment))),
                constants=(tables.chunk,),
                pairs=(),
                words=words_of(work.scalars),
            )
        )
        name, count = "list_sums" if work.is_sum else "list_maps", f"{len(self.flat)} of {self.task.rows}"
        launcher.algorithm = (
            f"{name}, {count} in chunks of {tables.chunk}, grid ({tables.blocks}, 1), block ({MAX_THREADS}, 1)"
        )
        return LaunchExecutable(launcher)

    @observable("lists")
    def run(
        self,
        work: Work,
        arrays: Sequence[Any],
        singles: Sequence[Any],
        stream: int,
        words: Sequence[int],
        own: Sequence[int] = (),
        outs: Sequence[Any] = (),
    ) -> None:
        """Queue a computation on arrays with the task's layouts.

        Args:
            work: the computation.
            arrays: the arrays, list after list.
            singles: its single-element arrays.
            stream: a stream handle.
            words: its scalar arguments.
            own: for each row, the word of its own scalar; () if rows have none.
            outs: new arrays for the blocks' sums.

        Raises:
            LayoutError: a written array shares memory with another array.
        """
        starts = [array._address for array in singles]
        addresses, storages = list(map(_address, arrays)), list(map(_storage, arrays))
        where = [*addresses, *starts, *own]
        tables = self.tables.kept(stream, where)
        if tables is None:
            self.apart.check(addresses)
            for name, array in zip(work.names, singles, strict=True):
                self.apart.check_single(name, array._address, array._numbacc_layout, addresses)
        if not self.flat:
            return
        counters, sums = [array._storage for array in singles], [array._storage for array in outs]
        starts = [*starts, *[array._address for array in outs]]
        kernel = self.kernel(work, tuple([array.dtype.name for array in singles]), starts)
        if tables is not None:
            # This loop runs for each of hundreds of arrays, so a tenth of a microsecond matters here.
            used = [*storages, *counters, *sums]
            for storage in used:
                if storage.sole != stream:
                    break
            else:
                if not kernel.launch(stream, 0, (*tables.addresses, *starts), words):
                    for storage in used:
                        if storage.sole != stream:
                            # Meanwhile another thread has started to use the memory on another stream.
                            self._note(stream, arrays, singles, outs)
                            break
                    return
        pairs = [(storage, False) for storage in counters]
        pairs += [(storages[k], is_written) for k, is_written in self._order]
        pairs += [(storage, True) for storage in sums]
        with runtime().using(stream, self._device, storages=pairs) as capture:
            if tables is None or capture is not None:
                picked = [addresses[k] for k in self._picked], [own[k] for k in self.flat] if own else ()
                tables = self.tables.make(stream, where, *picked, capture)
            kernel.check(kernel.launch_unchecked(stream, 0, (*tables.addresses, *starts), words))

    def _note(self, stream: int, arrays: Sequence[Any], singles: Sequence[Any], outs: Sequence[Any]) -> None:
        reads, writes = ([arrays[k] for k, is_written in self._order if is_written == own] for own in (False, True))
        runtime().note(stream, self._device, [*singles, *reads], [*writes, *outs])
