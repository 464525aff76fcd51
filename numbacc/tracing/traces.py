"""The trace that `numbacc.trace()` returns: its records, counts, races and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import KernelError, OptionError
from ..simulator.compiled.launches import device_observers
from . import counting
from .device_accesses import DeviceAccesses
from .recording import ACCESSES, SHARED, Named, Recorder, SourceLine
from .simulators import interprets
from .tables import Counts, Table, total

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .compile_errors import CompileError

#: The default limit of threads per launch in Numba's simulator.
MOST_INTERPRETED = 65_536
#: How many races a table lists one by one.
_NAMED = 3


class Race(NamedTuple):
    """Two accesses of one element by different threads without a barrier between them. At least the first one writes.

    Attributes:
        kernel, array: the names.
        element: the element's index.
        blocks, threads, accesses, lines: for both accesses: the block in the grid, the thread in its block, the kind of
            access, and the source line.
    """

    kernel: str
    array: str
    element: tuple[int, ...]
    blocks: tuple[int, int]
    threads: tuple[int, int]
    accesses: tuple[str, str]
    lines: tuple[int, int]

    def __str__(self) -> str:
        where = [f"thread {t} of block {b}" for t, b in zip(self.threads, self.blocks, strict=True)]
        does = [{"read": "reads", "write": "writes", "atomic": "updates"}[each] for each in self.accesses]
        element = f"{self.array}[{', '.join(map(str, self.element))}]"
        order = "no barrier lies between" if self.blocks[0] == self.blocks[1] else "nothing orders blocks"
        return (
            f"race in {self.kernel}: {where[0]} {does[0]} {element} in line {self.lines[0]}, "
            f"{where[1]} {does[1]} it in line {self.lines[1]}, and {order}"
        )


def _of_records(work: Callable[[Trace], Any]) -> Any:
    """Return a property that is cached until the trace has more records."""

    def found(trace: Trace) -> Any:
        count = len(trace._recorder), len(trace._recorder.counted[False])
        if trace._worked_out.get("count") != count:
            trace._worked_out = {"count": count}
        if work.__name__ not in trace._worked_out:
            trace._worked_out[work.__name__] = work(trace)
        return trace._worked_out[work.__name__]

    return property(found)


class Trace:
    """The memory accesses of the kernels launched inside `with numbacc.trace() as t:`.

    Example:
        >>> numbacc.trace().counts().bytes
        0
    """

    def __init__(self, max_threads: int | None, max_accesses: int):
        for name, value in (("max_threads", max_threads), ("max_accesses", max_accesses)):
            if name == "max_threads" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise OptionError(f"{name}={value!r}: it must be a whole number of at least 1")
        self._max_threads = None if max_threads is None else int(max_threads)
        self._recorder = Recorder(int(max_accesses))
        self._device = DeviceAccesses()
        self._inside: ExitStack | None = None
        self._worked_out: dict[str, Any] = {}

    def __enter__(self) -> Trace:
        with ExitStack() as stack:
            if interprets():
                from .launches import watching

                stack.enter_context(watching(self._recorder, self._max_threads or MOST_INTERPRETED))
            else:
                from .compiled import counting_launches

                stack.enter_context(counting_launches(self._recorder, self._max_threads))
            device_observers.append(self._device.begin)
            stack.callback(device_observers.remove, self._device.begin)
            self._inside = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._inside is not None
        self._inside.close()

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    # ---------------------------------------------------------------- records

    @_of_records
    def _columns(self) -> dict[str, np.ndarray[Any, Any]]:
        return self._recorder.columns()

    @_of_records
    def _is_shared(self) -> np.ndarray[Any, Any]:
        spaces = np.array([named.space == SHARED for named in self._recorder.arrays], bool)
        return spaces[self._columns["array"]] if spaces.size else np.zeros(0, bool)

    @_of_records
    def _requests(self) -> counting.Requests:
        return counting.requests(self._columns, self._is_shared)

    @_of_records
    def _races(self) -> counting.Races:
        if self._recorder.counted[False] and not any(row.races for row in self._recorder.counted[False]):
            return counting.Races(np.zeros(len(self._recorder), bool), [])
        return counting.races(self._columns, self._is_shared)

    @property
    def launches(self) -> list[Any]:
        """The launches, in order. Each has `kernel`, `grid` and `block`."""
        return list(self._recorder.launches)

    @property
    def arrays(self) -> list[Named]:
        """The arrays of the launches. Each has `launch`, `name`, `space`, `address`, `shape`, `strides`, `itemsize`."""
        return list(self._recorder.arrays)

    @property
    def records(self) -> np.ndarray[Any, Any]:
        """The accesses of all threads, as a structured array.

        The fields are launch, block, thread, array (an index of `arrays`), address, nbytes, access (0 read, 1 write,
        2 atomic), instruction, step, phase and line. If the kernels were compiled, only the first `max_accesses`
        accesses are kept."""
        columns = {**self._columns, "line": self._lines}
        table = np.empty(self._lines.size, [(name, np.int64) for name in columns])
        for name, values in columns.items():
            table[name] = values
        return table

    @property
    def _lines(self) -> np.ndarray[Any, Any]:
        lines = np.array([place.line for place in self._recorder.places], np.int64)
        return lines[self._columns["instruction"]] if lines.size else lines

    def elements(self, array: str, access: str | None = None, *, thread: int | None = None, block: int = 0) -> Any:
        """Return the indices of an array's elements that were accessed, in order, by all threads or by one.

        Args:
            array: the array's name.
            access: "read", "write" or "atomic"; None means all three.
            thread, block: the number of the thread in its block, and of the block; None means all.
        """
        chosen = self._chosen(array, access, None)
        if thread is not None:
            chosen &= (self._columns["thread"] == thread) & (self._columns["block"] == block)
        where = zip(self._columns["array"][chosen], self._columns["address"][chosen], strict=True)
        return [self._recorder.arrays[number].index_of(int(address)) for number, address in where]

    # ---------------------------------------------------------------- counts

    def counts(self, array: str | None = None, access: str | None = None, *, kernel: str | None = None) -> Counts:
        """Return the summed counts of one array, kind of access or kernel, or of the whole trace.

        Args:
            array: a name: the kernel's parameter, or the variable of shared memory.
            access: "read", "write" or "atomic".
            kernel: a kernel's name.

        Raises:
            OptionError: the trace has no array, access or kernel of that name.

        Example:
            >>> import numbacc
            >>> numbacc.trace().counts().sectors
            0
        """
        rows = self._rows(False)
        own = self._device.rows(False)
        self._check("array", array, {named.name for named in self._recorder.arrays} | {row.array for row in own})
        self._check("access", access, set(ACCESSES))
        kernels = {launch.kernel for launch in self._recorder.launches} | {row.kernel for row in own}
        self._check("kernel", kernel, kernels)
        wanted = {"array": array, "access": access, "kernel": kernel}
        return total([r for r in rows if all(v in (None, getattr(r, name)) for name, v in wanted.items())])

    @staticmethod
    def _check(option: str, value: str | None, known: set[str]) -> None:
        if value is not None and value not in known:
            raise OptionError(
                f"{option}={value!r} is unknown to this trace, which has {', '.join(sorted(known)) or 'none'}"
            )

    def table(self, *, by_line: bool = False) -> Table:
        """Return a table of the accesses, with a row for each kernel, array and kind of access.

        Args:
            by_line: make a row for each line of the source.
        """
        return Table(self._rows(by_line), self._notes())

    def _rows(self, by_line: bool) -> list[Counts]:
        return self._rows_of_arrays(by_line) + self._device.rows(by_line)

    def _rows_of_arrays(self, by_line: bool) -> list[Counts]:
        counted = self._recorder.counted[by_line]
        if counted:
            rows: dict[tuple[Any, ...], list[Counts]] = {}
            for row in counted:
                rows.setdefault((row.kernel, row.array, row.memory, row.access, row.line), []).append(row)
            return [total(same) for same in rows.values()]
        return self._rows_of_records(by_line)

    def _rows_of_records(self, by_line: bool) -> list[Counts]:
        columns, grouped, racing = self._columns, self._requests, self._races.records
        kernels = np.array([launch.kernel for launch in self._recorder.launches], object)
        found: dict[tuple[Any, ...], list[int]] = {}
        lines = self._lines if by_line else np.zeros_like(columns["launch"])
        for record, (launch, array, access, line) in enumerate(
            zip(columns["launch"], columns["array"], columns["access"], lines, strict=True)
        ):
            found.setdefault((launch, array, access, line), []).append(record)
        rows: dict[tuple[Any, ...], list[Counts]] = {}
        for (launch, array, access, line), members in found.items():
            named = self._recorder.arrays[array]
            requests = np.unique(grouped.of[members])
            raced = np.array(members)[racing[members]]
            blocks = columns["block"][raced] * (named.space == SHARED)
            key = (kernels[launch], named.name, named.space, ACCESSES[access], int(line))
            rows.setdefault(key, []).append(
                Counts(
                    *key,
                    accesses=len(members),
                    requests=len(requests),
                    bytes=int(columns["nbytes"][members].sum()),
                    sectors=int(grouped.sectors[requests].sum()),
                    used_bytes=int(grouped.used[requests].sum()),
                    conflicts=int(grouped.conflicts[requests].sum()),
                    races=len(set(zip(blocks.tolist(), columns["address"][raced].tolist(), strict=True))),
                )
            )
        return [total(same) for same in rows.values()]

    # ---------------------------------------------------------------- what is wrong

    @property
    def races(self) -> list[Race]:
        """The races that were found, one for each element: two accesses without a barrier between, one a write.

        Between blocks, only barriers of the grid, atomics and fences impose an order. The tracer follows the barriers.
        """
        return [self._race(*pair) for pair in self._races.pairs]

    def _race(self, *pair: int) -> Race:
        column = {name: [int(values[k]) for k in pair] for name, values in self._columns.items()}
        named = self._recorder.arrays[column["array"][0]]
        places = [self._recorder.places[k] for k in column["instruction"]]
        return Race(
            self._recorder.launches[column["launch"][0]].kernel, named.name, named.index_of(column["address"][0]),
            _two(column["block"]), _two(column["thread"]), _two([ACCESSES[k] for k in column["access"]]),
            _two([place.line for place in places]),
        )  # fmt: skip

    @property
    def unwritten(self) -> list[KernelError]:
        """The reads of shared memory that no thread of the block had written, one for each line of the source.

        Only compiled kernels find them. In Numba's simulator, such memory holds NaN.
        """
        return list(self._recorder.unwritten)

    @property
    def split_barriers(self) -> list[tuple[SourceLine, int, int, int]]:
        """Barriers that only some threads reach: (source line, block, threads that reached it, threads of the
        block)."""
        found = []
        for (launch, block, _, place), came in self._recorder.barriers.items():
            threads = int(np.prod(self._recorder.launches[launch].block))
            if came != threads:
                found.append((place, block, came, threads))
        return found

    @property
    def compile_errors(self) -> list[CompileError]:
        """The errors of the GPU compiler in the traced kernels, each with `kernel`, `line` and `words`, or [].

        The simulator runs any Python, such as lists and `np.dot`. This property compiles the kernels with Numba, for
        arguments of the same types. It needs no GPU, and takes some seconds for the first kernel. numbacc's own kernels
        are left out.

        Raises:
            UnsupportedError: Numba's CUDA compiler is not installed, or a kernel refers to an object that cannot be
                sent to the compiler's process.
        """
        from .compile_errors import errors_of

        return errors_of(self._recorder.kernels)

    def _notes(self) -> list[str]:
        notes = [str(race) for race in self.races[:_NAMED]]
        if len(self._races.pairs) > _NAMED:
            notes.append(f"and {len(self._races.pairs) - _NAMED} more races: t.races lists all")
        notes += map(str, self.unwritten[:_NAMED])
        for place, block, came, threads in self.split_barriers[:1]:
            notes.append(
                f"barrier in line {place.line}: {came} of the {threads} threads of block {block} reach it. All must "
                "reach it, or the result is undefined: move it out of the branch"
            )
        return notes

    def _chosen(self, array: str | None, access: str | None, launch: int | None) -> np.ndarray[Any, Any]:
        """Return a mask of the records of an array, a kind of access and a launch."""
        self._check("array", array, {named.name for named in self._recorder.arrays})
        self._check("access", access, set(ACCESSES))
        chosen = np.ones(self._columns["array"].size, bool)
        if array is not None:
            numbers = [k for k, named in enumerate(self._recorder.arrays) if named.name == array]
            chosen &= np.isin(self._columns["array"], numbers)
        if access is not None:
            chosen &= self._columns["access"] == ACCESSES.index(access)
        if launch is not None:
            chosen &= self._columns["launch"] == launch
        return chosen

    def plot(self, *arrays: str, launch: int = -1, threads: int | None = None) -> Figure:
        """Draw which elements the threads access.

        An array of two dimensions has a panel for each kind of access, which shows rows and columns. The elements of
        the first warp are coloured by thread, and the sectors that it requests are outlined: four for a coalesced
        access, up to 32 for a strided one. In a loop, elements of later rounds are small.

        Other arrays have one panel each, of threads against addresses. Elements of a loop's later rounds are hollow.

        Args:
            arrays: the arrays' names; without any, all arrays of the launch.
            launch: the index of the launch; by default the last one.
            threads: how many of the threads to draw; None draws all.

        Returns:
            A matplotlib figure.

        Raises:
            ImportError: matplotlib is not installed: `pip install "numbacc[notebooks]"`.
            OptionError: the array or the launch does not exist.
        """
        from .plots import draw

        return draw(self, arrays, launch, threads)


def _two(values: Sequence[Any]) -> Any:
    first, second = values
    return first, second
