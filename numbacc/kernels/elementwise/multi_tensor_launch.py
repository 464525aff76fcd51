"""The executable of operations on lists of arrays: one launch for all of them, in the order of their memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from ...base.dispatch import launcher_class, runtime
from ...base.layout import Layout, is_dense, overlap
from ...base.ownership import PLAN_INSTEAD, NotCopied
from ...errors import LayoutError
from ...runtime.launch_order import MAX_THREADS, LaunchOrder
from ..specs import compute_dtype, words_of
from .launch import LaunchExecutable
from .multi_tensor_spec import ListFormula, ListSpec
from .multi_tensor_tables import ListTables

_address, _storage = attrgetter("_address"), attrgetter("_storage")


class ListTask(NamedTuple):
    """Lists of arrays; those of one number belong together, and have one shape.

    Attributes:
        names: of the lists.
        layouts: of the arrays, list after list.
        rows: how many arrays a list has.
        operands: name of the dtype of each list's arrays.
        written: the numbers of the lists that are written, in the order of the formula's results.
        alone: True where each list stands for its one array.
    """

    names: tuple[str, ...]
    layouts: tuple[Layout, ...]
    rows: int
    operands: tuple[str, ...]
    written: tuple[int, ...]
    alone: bool = False

    @property
    def compute(self) -> str:
        """Name of the dtype that is computed in."""
        return compute_dtype(self.operands, [self.operands[k] for k in self.written])

    def is_written(self, number: int) -> bool:
        """True for the number of an array of a list that is written."""
        return number // self.rows in self.written

    def name(self, number: int) -> str:
        """What messages call an array."""
        name = self.names[number // self.rows]
        return name if self.alone else f"{name}[{number % self.rows}]"


class Work(NamedTuple):
    """What is done to lists.

    Attributes:
        formula: of their elements.
        scalars: names of the dtypes of scalar arguments.
        names: of the arrays of one element.
    """

    formula: ListFormula
    scalars: tuple[str, ...]
    names: tuple[str, ...] = ()


def is_flat(row: Sequence[Layout]) -> bool:
    """True if arrays of one shape fill memory without gaps and in one order, so that they can be taken as vectors."""
    first = row[0]
    steps = [[step // each.itemsize for n, step in zip(each.shape, each.strides, strict=True) if n > 1] for each in row]
    return bool(first.size) and all(map(is_dense, row)) and all(own == steps[0] for own in steps)


class Apart:
    """Whether what is written shares no bytes with anything else."""

    def __init__(self, task: ListTask):
        self._task = task
        self._low = np.array([each.low for each in task.layouts], np.int64)
        self._high = np.array([each.high for each in task.layouts], np.int64)

    def check(self, addresses: Sequence[int]) -> None:
        """Raise LayoutError where an array that is written shares bytes with another, given where they are."""
        starts = np.array(addresses, np.int64)
        low, high = starts + self._low, starts + self._high
        there = np.flatnonzero(high > low)
        order = there[np.argsort(low[there], kind="stable")]
        # Arrays that are apart, as nearly all are, are told so by their bounds.
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
        """Raise LayoutError where an array that is read shares bytes with one that is written."""
        starts, task = np.array(addresses, np.int64), self._task
        near = (starts + self._low < address + own.high) & (starts + self._high > address + own.low)
        for k in map(int, np.flatnonzero(near)):
            if task.is_written(k) and overlap(addresses[k], task.layouts[k], address, own):
                raise _shared(name, task.name(k))


def _shared(one: str, other: str) -> LayoutError:
    return LayoutError(f"{one} overlaps {other}: pass memory that shares nothing with it")


class ListExecutable(NotCopied):
    """Formulas of lists of arrays, ready for arrays laid out as the task says, wherever they start.

    Attributes:
        flat: the numbers of the rows that the kernel takes: of arrays without gaps, not empty.
        last: the kernel launched last, None at first.
    """

    _instead = PLAN_INSTEAD

    def __init__(self, task: ListTask, device: int):
        self.task, self._device = task, device
        self.last: LaunchExecutable | None = None
        self.apart = Apart(task)
        self.flat = [k for k in range(task.rows) if is_flat(task.layouts[k :: task.rows])]
        sizes = [task.layouts[k].size for k in self.flat]
        self.tables = ListTables(sizes, self._spec(Work(ListFormula("", tuple), ()), ()), device)
        #: Numbers of arrays and whether they are written; those that are come last, where one storage is of several.
        self._order = sorted(((k, task.is_written(k)) for k in range(len(task.layouts))), key=itemgetter(1))
        self._picked = [k + first for first in range(0, len(task.layouts), max(task.rows, 1)) for k in self.flat]
        self._kernels: dict[Any, LaunchExecutable] = {}

    def _spec(self, work: Work, singles: tuple[str, ...]) -> ListSpec:
        task = self.task
        return ListSpec(work.formula, task.operands, task.written, singles, task.compute, work.scalars)

    def kernel(self, work: Work, singles: tuple[str, ...], starts: Sequence[int]) -> LaunchExecutable:
        """What launches some work, given the dtypes and the addresses of its arrays of one element."""
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
                pointers=tuple((k, 0) for k in range(2 + len(singles))),
                constants=(tables.chunk,),
                pairs=(),
                words=words_of(work.scalars),
            )
        )
        launcher.algorithm = (
            f"list_maps, {len(self.flat)} of {self.task.rows} in chunks of {tables.chunk}, grid ({tables.blocks}, 1), "
            f"block ({MAX_THREADS}, 1)"
        )
        return LaunchExecutable(launcher)

    def run(self, work: Work, arrays: Sequence[Any], singles: Sequence[Any], stream: int, words: Sequence[int]) -> None:
        """Queue some work on arrays of the task's layouts.

        Args:
            work: what is done.
            arrays: list after list.
            singles: its arrays of one element.
            stream: a handle.
            words: its scalar arguments.

        Raises:
            LayoutError: an array that is written shares memory with another.
        """
        starts = [array._address for array in singles]
        addresses, storages = list(map(_address, arrays)), list(map(_storage, arrays))
        where = [*addresses, *starts]
        tables = self.tables.kept(stream, where)
        if tables is None:
            self.apart.check(addresses)
            for name, array in zip(work.names, singles, strict=True):
                self.apart.check_single(name, array._address, array._numbacc_layout, addresses)
        if not self.flat:
            return
        counters = [array._storage for array in singles]
        kernel = self.kernel(work, tuple([array.dtype.name for array in singles]), starts)
        if tables is not None:
            # The path where a tenth of a microsecond counts: for each of hundreds of arrays.
            used = [*storages, *counters]
            for storage in used:
                if storage.sole != stream:
                    break
            else:
                if not kernel.launch(stream, 0, (*tables.addresses, *starts), words):
                    for storage in used:
                        if storage.sole != stream:
                            # Another thread has begun to use the memory elsewhere meanwhile.
                            self._note(stream, arrays, singles)
                            break
                    return
        pairs = [(storage, False) for storage in counters]
        pairs += [(storages[k], is_written) for k, is_written in self._order]
        with runtime().using(stream, self._device, storages=pairs) as capture:
            if tables is None or capture is not None:
                tables = self.tables.make(stream, where, [addresses[k] for k in self._picked], capture)
            kernel.check(kernel.launch_unchecked(stream, 0, (*tables.addresses, *starts), words))

    def _note(self, stream: int, arrays: Sequence[Any], singles: Sequence[Any]) -> None:
        reads, writes = ([arrays[k] for k, is_written in self._order if is_written == own] for own in (False, True))
        runtime().note(stream, self._device, [*singles, *reads], writes)
