"""Compile a kernel for the CPU, and run it on a pool of threads."""

from __future__ import annotations

import ast
import copy
import functools
import gc
import hashlib
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llvmlite
import numba
import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError
from numba.np.numpy_support import from_dtype, map_layout

from ...base.garbage import no_collections
from ...base.observing import observable
from ...errors import KernelError
from ...runtime import disk_cache, host_cache
from . import arithmetic, half
from .analysis import Facts
from .arguments import offset
from .by_address import with_arrays
from .checks import AddressChecks, AliasedChecks, Checks, explain
from .host import cores
from .inference import infer
from .loops import STOP, by_index, goes_on, hide_trips, interruptible, make_stoppable, without_flat
from .normalize import Normalize, constants, free_numbers
from .phases import RAISED, Masks, Phases
from .reached import LaunchMemory, spans_of
from .short_cuts import short_cuts
from .source import Source, as_written
from .stamps import ALIASED, ERRORS, RACE, has_stamps, header, is_followed
from .syntax import PREFIX, SHAPE, assignment, duplicate, expression, function, meets, named, returns, statements, walk
from .variables import empty, zeros
from .versions import split, unite

if TYPE_CHECKING:
    from .accesses import Accesses
    from .meter import Meter

#: Launches of fewer threads than this run on the calling thread, unless they may never end and must be stoppable.
_SMALL = 1 << 14
#: How many pieces a launch is divided into for each worker.
_PIECES = 8


@dataclass
class _Compiled:
    """A kernel compiled for one combination of argument types.

    Attributes:
        run: (first block, last block, block's shape, grid's shape, dynamic bytes, errors, checks ..., arguments ...)
        dispatcher: keeps the machine code alive.
        checks: translates the numbers in errors into names.
        serial: whether one call must run all blocks.
        waits: whether it has a `while`, so that it may never end.
        arrays: the arguments that are arrays.
        contiguous: whether all of these are in C order.
        converts: whether an argument is float16 or bfloat16, which compiled code takes as its bits.
        stamped: the arrays whose elements have stamps in checked mode.
        follows: whether checked mode follows accesses to some of the arguments by their addresses.
        by_address: whether the kernel accesses memory by addresses, with functions of `numbacc.device`.
    """

    run: Callable[..., None]
    dispatcher: Any
    checks: Callable[[], Checks | None]
    serial: bool
    waits: bool
    arrays: list[int]
    contiguous: bool
    converts: bool
    stamped: list[int]
    follows: bool
    by_address: bool


class Kernel:
    """A kernel for the CPU.

    Args:
        kernel: the Python function, or what `cuda.jit` made of it.
        kinds: the types of its arguments, where they do not follow from the arguments.
        memory: returns the memory that addresses in its arguments may refer to: the address of each allocation -> its
            bytes. Needed to check a kernel whose arguments hold addresses.
        identity: a text that changes whenever the code of its intrinsics and scalar functions does. A
            kernel with such functions is kept on disk only if there is a text.

    Attributes:
        checked: whether accesses are checked.
        traced: whether accesses are checked and counted. A launch then needs `observe`.
        contract: whether a product and a sum may become one operation, as on a GPU.
        seconds: how long the last compilation took.
    """

    def __init__(
        self,
        kernel: Any,
        *,
        checked: bool = False,
        contract: bool = True,
        traced: bool = False,
        kinds: tuple[types.Type, ...] | None = None,
        identity: str = "",
        memory: Callable[[], Mapping[int, Any]] | None = None,
    ):
        self._kinds, self._identity, self._memory = kinds, identity, memory
        self.checked, self.contract, self.traced = checked or traced, contract, traced
        self.seconds = 0.0
        self.source = Source(kernel)
        self.name = self.source.name
        self._options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "pipeline_class": arithmetic.Compiler,
            "no_cfunc_wrapper": True,
        }
        self._options["fastmath"] = {"contract"} if contract else False
        self._compiled: dict[Any, _Compiled] = {}
        self._built: dict[Any, _Compiled] = {}
        self._lock = threading.Lock()
        self._normal: Normalize | None = None
        self._body: list[ast.stmt] = []
        self._typed = sorted(self.source.typed())
        self._special = False
        self._specials: dict[Any, Kernel] = {}
        self._aliased = False

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_bytes: int,
        arguments: tuple[Any, ...],
        workers: int | None = None,
        observe: Callable[[Accesses], Meter] | None = None,
        given: Sequence[Any] | None = None,
    ) -> None:
        """Run the kernel.

        Args:
            grid: the number of blocks along x, y and z.
            block: the number of threads of a block along x, y and z.
            dynamic_bytes: the bytes of dynamic shared memory.
            arguments: NumPy arrays, scalars, records and tuples of these.
            workers: the number of CPU threads; by default one for each core.
            observe: returns the meter of a traced launch, given the kernel's accesses.
            given: the arguments as the user passed them; None if they are the same.

        Raises:
            KernelError: the kernel made a mistake.
            UnsupportedError: the kernel cannot be compiled.
        """
        if self._typed and not self._special:
            self._specialized(arguments).launch(grid, block, dynamic_bytes, arguments, workers, observe, given)
            return
        axes = 3 if block[2] > 1 else 2 if block[1] > 1 else 1
        key: Any = (axes,)
        if self._kinds is None:
            key = axes, *map(_fingerprint, arguments)
        compiled = self._compiled.get(key) or self._build_once(key, arguments)
        offsets = None
        if self.checked and not (compiled.contiguous and (given is None or given is arguments)):
            offsets = [offset((given or arguments)[k], arguments[k]) for k in compiled.arrays]
        if compiled.converts:
            arguments = tuple(map(half.argument, arguments))
        blocks = grid[0] * grid[1] * grid[2]
        shadows: Any = ()
        if not self.checked or observe:
            error = np.zeros(ERRORS, np.int64)
        else:
            stamped = [arguments[k] for k in compiled.stamped]
            followed: Any = LaunchMemory.of(arguments, self._aliased) if compiled.follows else None
            held = followed.address if followed else 0
            error = header(stamped, len(compiled.arrays), offsets, held)
            if followed:
                workers = 1
        if observe:
            with self._lock:
                accesses: Any = compiled.checks()
            meter, workers = observe(accesses), 1
            meter.error = error
            shadows = (meter.header,)
        if self.checked and (self._memory or compiled.by_address):
            if self._memory:
                memory = LaunchMemory(self._memory(), error)
            else:
                memory = LaunchMemory.of_launch(arguments, given or arguments, error)
            workers, shadows = 1, (*shadows, memory.address)
        tail = (*block, *grid, dynamic_bytes, error, *shadows, *arguments)
        workers = workers or cores()
        small = blocks * block[0] * block[1] * block[2] < _SMALL
        alone = compiled.serial or workers == 1 or blocks == 1 or small
        try:
            if not (alone and small) or (self.checked and (compiled.waits or self._memory)):
                if alone:
                    run = functools.partial(compiled.run, 0, blocks, *tail)
                else:
                    run = functools.partial(_share, compiled.run, blocks, min(workers, blocks), tail)
                if self.checked:
                    interruptible(run, error, alone and small and not self._memory)
                else:
                    run()
            else:
                compiled.run(0, blocks, *tail)
        except IndexError:  # an empty array
            if not error[0]:
                raise
        if not error[0]:
            return
        if error[0] == ALIASED:
            self._of_aliased().launch(grid, block, dynamic_bytes, arguments, workers, observe, given)
            return
        if error[0] == RAISED:
            raise raised(error, self._normalized().raised, block, grid)
        with self._lock:
            checks: Any = compiled.checks()
        if observe:
            checks.located(error, meter)
        names, lines = (checks.arrays, checks.lines) if checks else ([], [])
        found = explain(error, [*map(self._written, names)], lines, self.source, block, grid, compiled.serial)
        if self._aliased and error[0] == RACE:
            found["message"] += self._sharing(arguments)
        raise KernelError(found.pop("message"), **found)

    # ------------------------------------------------------------ compilation

    def _specialized(self, arguments: tuple[Any, ...]) -> Kernel:
        """Return the kernel specialized for the dtypes that shared or local arrays use."""
        given = dict(zip(self.source.parameters, arguments, strict=False))
        dtypes = {n: getattr(given.get(n), "dtype", None) for n in self._typed}
        key = tuple(dtypes.values())
        with self._lock:
            if key not in self._specials:
                made = self._copied()
                made._special = True
                made.source = Source(self.source.function)
                made.source.constants.update({n: SimpleNamespace(dtype=d) for n, d in dtypes.items()})
                self._specials[key] = made
            return self._specials[key]

    def _copied(self) -> Kernel:
        """Return a copy that is not compiled yet."""
        made = copy.copy(self)
        made._lock, made._normal = threading.Lock(), None
        made._compiled, made._built, made._specials = {}, {}, {}
        return made

    def _of_aliased(self) -> Kernel:
        """Return the kernel for checked launches whose arguments share memory."""
        with self._lock:
            if "aliased" not in self._specials:
                self._specials["aliased"] = made = self._copied()
                made._aliased = True
            return self._specials["aliased"]

    def _sharing(self, arguments: tuple[Any, ...]) -> str:
        """Return the end of the message of a race: which arguments share memory."""
        spans = {n: [*spans_of([each], True)] for n, each in zip(self.source.parameters, arguments, strict=True)}
        found: dict[str, None] = {}
        for (a, first), (b, second) in itertools.combinations(spans.items(), 2):
            if any(max(p[0], q[0]) < min(p[1], q[1]) for p in first for q in second):
                found.update({a: None, b: None})
        return f". {' and '.join(found)} share memory" if found else ""

    @observable("setup")
    def _build_once(self, key: Any, arguments: tuple[Any, ...]) -> _Compiled:
        with self._lock, no_collections:
            if key not in self._compiled:
                converted = arguments if self._kinds else tuple(map(half.argument, arguments))
                kinds = self._kinds or tuple(map(_kind, converted))
                same = key[0], kinds  # several keys may mean the same types
                if same not in self._built:
                    started = time.perf_counter()
                    try:
                        with short_cuts():
                            self._built[same] = self._build(kinds, key[0])
                    except NumbaError as error:
                        raise self.source.uncompiled(error, self._written) from error
                    gc.collect(0)  # frees the compiler's objects, which refer to each other
                    self.seconds = time.perf_counter() - started
                made = self._built[same]
                made.converts = any(a is not b for a, b in zip(arguments, converted, strict=True))
                self._compiled[key] = made
            return self._compiled[key]

    def _written(self, text: str) -> str:
        """Return a text with the names of variables as in the user's code."""
        known = self._normal.written if self._normal else {}
        return re.sub(rf"{PREFIX}\w+", lambda found: known.get(found[0], found[0]), as_written(text))

    def text(self, kinds: tuple[types.Type, ...]) -> str:
        """Return the Python code that the kernel is translated to, for reading."""
        return ast.unparse(self._tree(kinds, 3)[0])

    def _function(self, tree: ast.Module, name: str, space: dict[str, Any], source: Source) -> Any:
        """Return a tree's function. It keeps the kernel's line numbers, so that errors name the right lines."""
        # Numba imports the module of a cached function by name. A generated function belongs to no module, so use this
        # one.
        helpers = {"_nb_np": np, "_nb_empty": empty, "_nb_zeros": zeros}
        names = {**arithmetic.NAMES, **helpers, **space, "__name__": __name__}
        exec(compile(tree, source.file, "exec"), names)
        return names[name]

    def _device(self, tree: ast.Module, name: str, space: dict[str, Any], source: Source) -> Any:
        return njit(forceinline=True, no_cpython_wrapper=True, **self._options)(
            self._function(tree, name, space, source)
        )

    @property
    def _checks(self) -> type[Checks]:
        if self._memory or self._normalized().by_address:
            return AddressChecks
        if self._aliased:
            return AliasedChecks
        if not self.traced:
            return Checks
        from .accesses import Accesses  # takes a while to import

        return Accesses

    def _normalized(self) -> Normalize:
        if self._normal is None:
            normal = Normalize(self.source, self._device, inlines=self.checked, options=self._options)
            self._body = normal.block(duplicate(self.source.body))
            free_numbers(self._body, normal.space)
            self._body = with_arrays(self._body, normal.addressed) if normal.by_address else self._body
            if normal.by_address and self.traced:
                raise self.source.unsupported(self.source.line, "an access by address in a trace")
            self._normal = normal
        return self._normal

    def _build(self, kinds: tuple[types.Type, ...], axes: int) -> _Compiled:
        if len(kinds) != len(self.source.parameters):
            raise TypeError(f"{self.name} takes {len(self.source.parameters)} arguments, but {len(kinds)} were given")
        normal = self._normalized()
        arrays = [k for k, t in enumerate(kinds) if isinstance(t, types.Array)]
        shadows = self._checks.kinds() if self.checked else []
        numbers = [types.int64] * (2 + len(SHAPE) + 1)
        signature = (*numbers, types.Array(types.int64, 1, "C"), *shadows, *kinds)

        run, dispatcher, made = self._run(kinds, axes, signature)

        @functools.cache
        def checks() -> Checks | None:
            return made or self._tree(kinds, axes)[1]

        waits = any(isinstance(n, ast.While) for n in walk(self._body))
        contiguous = all(kinds[k].layout == "C" for k in arrays)
        stamped = [k for k in arrays if has_stamps(kinds[k]) and not self._aliased]
        follows = self._aliased or (self.checked and not self.traced and any(map(is_followed, kinds)))
        kept = normal.grid, waits, arrays, contiguous, False, stamped, follows, normal.by_address
        return _Compiled(run, dispatcher, checks, *kept)

    def _run(
        self, kinds: tuple[types.Type, ...], axes: int, signature: tuple[types.Type, ...]
    ) -> tuple[Any, Any, Checks | None]:
        """Return the function that runs blocks, loaded from the disk cache if possible, its dispatcher and its checks.

        The checks are None if the function was loaded.

        Its name holds a digest of everything that its machine code depends on. Numba's own key lacks constants and
        globals, and the machine code of several kernels is linked together. The cache lookup uses a function without a
        body, because it needs no type inference.
        """
        normal = self._normalized()
        parts = [_versions(), "\n".join(map(ast.unparse, self._body)), constants(named(self._body), normal.space)]
        if self.checked:  # errors contain the lines of accesses
            parts.append(repr([n.lineno for n in walk(self._body) if isinstance(n, (ast.stmt, ast.Subscript))]))
        how = self.checked, self.traced, self._aliased, self._options
        parts += [self._identity, *normal.texts, repr((kinds, axes, normal.shared, normal.local, *how))]
        name = f"_nb_run_{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}"
        empty = self._function(function(name, [f"_nb_{k}" for k in range(len(signature))], []), name, {}, self.source)
        cache = None
        if self._identity or not normal.opaque:
            try:
                empty.kept_in = disk_cache.directory() / "simulate" / _versions()[:16]
                cache = host_cache.Cache(empty)
            except OSError as error:
                disk_cache.warn_of(error)
        dispatcher = njit(**self._options)(empty)
        kept = cache.load_overload(signature, dispatcher.targetctx) if cache else None
        if kept is not None:
            dispatcher.add_overload(kept)
            return kept.entry_point, dispatcher, None
        tree, checks = self._tree(kinds, axes)
        tree.body[0].name = name  # type: ignore[attr-defined]
        dispatcher = njit(**self._options)(self._function(tree, name, normal.space, self.source))
        if cache:
            dispatcher._cache = cache
        return dispatcher.compile(signature), dispatcher, checks

    def _tree(self, kinds: tuple[types.Type, ...], axes: int) -> tuple[ast.Module, Checks | None]:
        """Return the tree of the function that runs blocks, for one combination of argument types."""
        normal, source = self._normalized(), self.source
        plain, of = split(self._body, {*source.parameters})
        found = unite(plain, of, infer(normal, source.parameters, plain, kinds, self._function))
        plain = without_flat(plain, found)
        plain = by_index(plain, found, normal.space) if self.checked else plain
        facts = Facts(normal, plain, found)
        arrays = [p for p, t in zip(source.parameters, kinds, strict=True) if isinstance(t, types.Array)]
        checks = self._checks(source, normal, facts, plain, arrays) if self.checked else None
        shadows = checks.parameters() if checks else []
        carried: set[str] | None = None
        several = dead = True
        leaves, peels = returns(plain), meets(plain)
        while True:
            emit = Phases(normal, facts, leaves and dead, checks, carried, several, axes, peels)
            body = emit.block(duplicate(plain), Masks())
            needed = (emit.needed & facts.assigned) - {*facts.again}
            if (needed, emit.runs > 1, emit.dead) == (carried, several, dead):
                break
            carried, several, dead = needed, emit.runs > 1, emit.dead
        emit.line = source.line
        whole = self._whole(emit, body, carried or set(), checks)
        names = ["_nb_first", "_nb_last", *SHAPE, "_nb_bytes", "_nb_error", *shadows, *source.parameters]
        hide_trips(whole, normal.space)
        if checks:
            make_stoppable(whole, "0" if normal.grid else "_nb_block")
            normal.space.update(checks.space(), _nb_goes_on=goes_on)
        return function("_nb_run", names, whole), checks

    def _whole(self, emit: Phases, body: list[ast.stmt], carried: set[str], checks: Checks | None) -> list[ast.stmt]:
        """Return the body of the function that runs blocks, from the body of one block."""
        normal, facts, line = emit.normal, emit.facts, emit.line
        head = list(emit.heads)
        for name in sorted(carried):
            head += emit.variable(name).head(line, normal.space)
        for name, (shape, dtype) in normal.shared.items():
            blocks = "(_nb_last, " if normal.grid else "("
            target = f"_nb_all_{name}" if normal.grid else name
            if 0 in shape:
                size = dtype.itemsize
                whole = f"_nb_bytes // {size} * {size}"
                part = f"_nb_dynamic[:, :{whole}]" if normal.grid else f"_nb_dynamic[:{whole}]"
                head += emit.make(f"{target} = {part}.view(_nb_dtype_{name})")
            else:
                sizes = ", ".join(map(str, shape))
                head += emit.make(f"{target} = _nb_empty({blocks}{sizes},), _nb_dtype_{name})")
        for name, (shape, _) in normal.local.items():
            sizes = ", ".join(map(str, shape))
            threads = "_nb_slots" if emit.several else "1"
            head += emit.make(f"_nb_all_{name} = _nb_empty(({threads}, {sizes},), _nb_dtype_{name})")
        start: list[ast.stmt] = []
        if emit.returning:
            head += emit.make("_nb_alive = _nb_empty(_nb_slots, _nb_np.uint8)")
            start += emit.make("_nb_alive[:] = 1\n_nb_living = _nb_slots")
        if checks:
            head += checks.head(line)
            start += checks.start(line)
        for name, value in facts.again.items():
            if facts.uniform(value):
                start.append(assignment(name, duplicate(value)))
        slots = "_nb_T * _nb_last" if normal.grid else "_nb_T"
        dynamic = "(_nb_last, _nb_bytes)" if normal.grid else "_nb_bytes"
        frame = f"""
            AXES
            _nb_T = _nb_Dx * _nb_Dy * _nb_Dz
            _nb_slots = {slots}
            _nb_dynamic = _nb_empty({dynamic}, _nb_np.uint8)
            HEAD
            """
        if normal.grid:  # one iteration for all blocks
            frame += """
            for _nb_once in range(1):
                START
                BODY
            END
            """
        else:
            frame += """
            for _nb_block in range(_nb_first, _nb_last):
                _nb_bx = _nb_block % _nb_Gx
                _nb_by = _nb_block // _nb_Gx % _nb_Gy
                _nb_bz = _nb_block // (_nb_Gx * _nb_Gy)
                START
                BODY
                if _nb_error[0] != 0 or _nb_error[STOP] != 0: return
            END
            """
        axes = [s for a in "yz"[emit.axes - 1 :] for s in emit.make(f"_nb_t{a}, _nb_D{a} = 0, 1")]
        end = checks.end(line) if checks else []
        stop = expression(str(STOP), line)
        return statements(frame, line, AXES=axes, HEAD=head, START=start, BODY=body, END=end, STOP=stop)


def raised(error: Any, exceptions: list[Any], block: tuple[int, ...], grid: tuple[int, ...]) -> KernelError:
    """Return the error for an exception that a thread raised: a KernelError that also has the exception's class.

    Args:
        error: the array of errors.
        exceptions: as in `Normalize.raised`.
    """
    kind, given, file, line = exceptions[error[2]]
    thread, at = (
        (k % sizes[0], k // sizes[0] % sizes[1], k // (sizes[0] * sizes[1]))
        for k, sizes in ((int(error[3]), block), (int(error[4]), grid))
    )
    said = ": " + ", ".join(map(str, given)) if given else ""
    text = f"{os.path.basename(file)}:{line}: thread {thread} of block {at} raised {kind.__name__}{said}"
    try:
        names = {"__module__": kind.__module__, "__reduce__": KernelError.__reduce__}
        both = type(kind.__name__, (KernelError, kind), names)
        made: KernelError = both(text, file=file, line=line, thread=thread, block=at)
        if str(made) == text:
            return made
    except TypeError:  # this class cannot be combined
        pass
    return KernelError(text, file=file, line=line, thread=thread, block=at)


@functools.cache
def _versions() -> str:
    """Return a digest of the simulator's own sources and of the versions of Python, Numba and NumPy."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__} {np.__version__}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _kind(argument: Any) -> types.Type:
    """Return the type of an argument in compiled code."""
    if type(argument) is np.ndarray and argument.dtype.kind in "biufc":  # numba.typeof would import numpy.ma
        readonly = not argument.flags.writeable
        return types.Array(from_dtype(argument.dtype), argument.ndim, map_layout(argument), readonly=readonly)
    return numba.typeof(argument)


def _fingerprint(argument: Any) -> Any:
    """Return everything that determines an argument's type in compiled code."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return type(argument), *map(_fingerprint, argument)
    if isinstance(argument, np.generic):
        return argument.dtype
    if type(argument) in (int, float, complex, bool):
        return type(argument)
    return numba.typeof(argument)


def _share(run: Callable[..., None], blocks: int, workers: int, tail: tuple[Any, ...]) -> None:
    """Run the pieces of a launch on several threads. The calling thread is one of them."""
    pieces = min(blocks, _PIECES * workers)
    bounds = [blocks * k // pieces for k in range(pieces + 1)]
    todo = itertools.count()

    def work() -> None:
        while (k := next(todo)) < pieces:
            run(bounds[k], bounds[k + 1], *tail)

    others = [_pool().submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for each in others:
            each.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "numbacc-simulate")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
