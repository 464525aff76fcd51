"""Compiled steps: functions of arrays that are recorded into a CUDA graph, which later calls launch.

`compiled` is a thin layer over `numbacc.graph`. It finds the arrays among a call's arguments, and the graph for their
shapes; it copies arguments into the graph's memory, launches the graph, and returns the results.
"""

from __future__ import annotations

import copy as copying
import functools
import sys
import threading
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from .arrays import creation, operands
from .base import checks
from .base.dispatch import has_gpu, runtime
from .base.layout import dense_like, is_dense
from .base.ownership import NotCopied
from .errors import CompiledWarning, Error, OptionError, UnsupportedError, shown
from .runtime.graphs import graph
from .runtime.streams import handle_of, named, target_of

P = ParamSpec("P")
R = TypeVar("R")

# ---------------------------------------------------------------- trees: arrays inside tuples, lists and dicts

#: Stand for an array, and for any other object, in the structure of a tree.
_ARRAY, _VALUE = "array", "value"


@functools.lru_cache(maxsize=256)
def _is_array(kind: Any) -> bool:
    """Return whether objects of a class are arrays, of any library."""
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__")


def _split(tree: Any, arrays: list[Any], others: list[Any]) -> Any:
    """Append a tree's arrays and its other objects to two lists, and return its structure, which is hashable."""
    kind: Any = type(tree)
    if _is_array(kind):
        arrays.append(tree)
        return _ARRAY
    if kind is tuple or kind is list or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return kind, tuple([_split(each, arrays, others) for each in tree])
    if kind is dict or kind is OrderedDict:
        return kind, tuple(tree), tuple([_split(each, arrays, others) for each in tree.values()])
    # In some libraries, the object has this attribute and its class does not.
    is_array = kind.__hash__ is object.__hash__ and hasattr(tree, "__cuda_array_interface__")
    (arrays if is_array else others).append(tree)
    return _ARRAY if is_array else _VALUE


def _joined(structure: Any, arrays: Iterator[Any], others: Iterator[Any]) -> Any:
    """Return the tree that `_split` has split, with these arrays and objects."""
    if structure is _ARRAY:
        return next(arrays)
    if structure is _VALUE:
        return next(others)
    kind, *keys, parts = structure
    made = [_joined(each, arrays, others) for each in parts]
    if keys:
        return kind(zip(keys[0], made, strict=True))
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


def _paths(structure: Any, path: str, wanted: str) -> Iterator[str]:
    """Yield the path to each array, or to each other object, in a tree of arguments, as code."""
    if isinstance(structure, str):
        if structure is wanted:
            yield path
        return
    _, *keys, parts = structure
    for key, part in zip(keys[0] if keys else range(len(parts)), parts, strict=True):
        yield from _paths(part, f"{path}[{key!r}]", wanted)


def _identity(value: Any, forget: Callable[[Any], None]) -> Any:
    """Return a hashable key of an object that is not an array: its type and value, or else its identity.

    The key does not keep an object alive that is compared by identity. When such an object ends, `forget` is called.
    """
    kind: Any = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 and -0.0 differ, and NaN equals itself
    if kind.__hash__ is not object.__hash__:
        try:
            hash(value)
            return kind, value
        except TypeError:
            pass
    return kind, _SameObject(value, forget)


class _SameObject:
    """A key that equals only keys of the same object."""

    __slots__ = ("_hash", "_refer")

    def __init__(self, value: Any, forget: Callable[[Any], None]):
        self._hash = id(value)
        try:
            self._refer: Callable[[], Any] = weakref.ref(value, forget)
        except TypeError:  # objects of some classes cannot be referred to weakly
            self._refer = lambda: value

    def __eq__(self, other: object) -> bool:
        own = self._refer()
        return self is other or (isinstance(other, _SameObject) and own is not None and other._refer() is own)

    def __hash__(self) -> int:
        return self._hash


# ---------------------------------------------------------------- calls


class _Arguments:
    """The arguments of one call.

    Attributes:
        arrays: its arrays, as NumPy arrays or device arrays.
        are_own: for each array, whether it is one of numbacc's, rather than another library's or NumPy's.
        device: the GPU of the device arrays; without device arrays, the GPU for the graph.
        structure: the tree of the arguments, `(args, kwargs)`.
        others: the objects among the arguments that are not arrays.
        forms: shape and dtype of each array.
    """

    __slots__ = ("are_own", "arrays", "device", "forms", "others", "structure")

    def __init__(self, args: Any, kwargs: Any, device: int | str | None, handle: int):
        given: list[Any] = []
        self.others: list[Any] = []
        self.structure = _split((args, kwargs), given, self.others)
        self.arrays = [self._array(k, each, handle) for k, each in enumerate(given)]
        self.are_own = [
            each is array and type(each) is not np.ndarray for each, array in zip(given, self.arrays, strict=True)
        ]
        on_gpu = [each for each in self.arrays if type(each) is not np.ndarray]
        self.device = on_gpu[0]._numbacc_layout.device if on_gpu else target_of(device)
        self.forms = tuple([(each.shape, each.dtype) for each in self.arrays])

    def _array(self, k: int, given: Any, handle: int) -> Any:
        """Return an argument as an array, without a copy."""
        try:
            return operands.as_array(given, "", handle)
        except Error:
            return operands.as_array(given, self.name(k), handle)  # with its name in the message

    def signature(self, forget: Callable[[Any], None]) -> Any:
        """Return everything that a graph depends on, as a hashable key."""
        others = tuple([_identity(each, forget) for each in self.others])
        return self.structure, others, self.forms, self.device, self._repeated()

    def _repeated(self) -> tuple[int, ...]:
        """Return for each array the first one that is the same; () if all differ."""
        if len(self.arrays) < 2:
            return ()
        first: dict[Any, int] = {}
        found = tuple([first.setdefault(_memory(each), k) for k, each in enumerate(self.arrays)])
        return found if len(first) < len(found) else ()

    def name(self, k: int, kind: str = _ARRAY) -> str:
        """Return the k-th array, or the k-th other object, among the arguments, as code."""
        _, (args, kwargs) = self.structure
        return [*_paths(args, "args", kind), *_paths(kwargs, "kwargs", kind)][k]

    def seen(self) -> list[Any]:
        """Return a key of each array's memory, valid while that exists; None for other libraries' arrays."""
        pairs = zip(self.arrays, self.are_own, strict=True)
        return [(weakref.ref(each._storage), *_memory(each)) if own else None for each, own in pairs]

    def run(self, step: Callable[..., Any], arrays: Sequence[Any]) -> Any:
        """Call the step with these arrays instead of the given ones."""
        args, kwargs = _joined(self.structure, iter(arrays), iter(self.others))
        return step(*args, **kwargs)

    def difference(self, own: Any, before: Any) -> str:
        """Describe in words where this call, with the signature `own`, differs from the call before."""
        if before[0] != own[0]:
            return "The arguments are nested differently from those of the call before"
        for k, (now, then) in enumerate(zip(own[1], before[1], strict=True)):
            if now != then:
                name, value = self.name(k, _VALUE), self.others[k]
                if isinstance(value, (int, float, complex, np.number)) and not isinstance(value, bool):
                    return (
                        f"{name} is {shown(value)} now, and was {then[1]} in the call before: pass a number that "
                        f"changes as an array, numbacc.asarray({shown(value)})"
                    )
                kind = type(value).__name__
                return f"{name} is another {kind} than in the call before: pass the same object in each call"
        for k, (now, then) in enumerate(zip(own[2], before[2], strict=True)):
            if now != then:
                return f"{self.name(k)} is {now[1]} of shape {now[0]} now, and was {then[1]} of shape {then[0]} before"
        return "The arguments share memory in another way than those of the call before"


def _memory(array: Any) -> Any:
    """Return a key of an array's memory and layout."""
    if type(array) is np.ndarray:
        return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
    return array._address, array._numbacc_layout


# ---------------------------------------------------------------- graphs


def _copy_on_gpu(source: Any, target: Any, handle: int) -> None:
    from .kernels.elementwise.copy import copy  # on a machine without a GPU, numbacc does not load kernels

    copy(source, target, handle)


class _Input:
    """An array that a graph reads an argument from.

    Args:
        given: the argument at the recording.
        device: the graph's GPU.
        is_direct: whether the graph reads the argument's own memory, because the call before had the same argument.
        handle: the stream of the call.

    Attributes:
        array: the array that the step gets.
        is_written: whether the step writes to it.
    """

    __slots__ = ("_target", "array", "is_direct", "is_written")

    def __init__(self, given: Any, device: int, is_direct: bool, handle: int):
        self.is_direct, self.is_written = is_direct, False
        if is_direct:
            self.array = self._target = given
        elif type(given) is np.ndarray:
            self.array = self._target = creation.array(given, device=device, stream=handle)
        else:
            # The address modulo 16 stays the same: for another one, a capture may have to use a slower kernel.
            made, skip = dense_like(given._numbacc_layout, given.shape), given._address % 16
            storage = runtime().allocate(made.nbytes + skip, device, handle)
            new = operands.device_array()
            self.array, self._target = (new(made, storage.address + skip, storage) for _ in range(2))
            self.array._readonly = given._readonly
            _copy_on_gpu(given, self._target, handle)

    def holds(self, given: Any) -> bool:
        """Return whether an argument is this memory."""
        own = self.array
        return (
            type(given) is not np.ndarray
            and given._address == own._address
            and given._numbacc_layout is own._numbacc_layout
        )

    def fill(self, given: Any, handle: int) -> None:
        """Copy an argument into this memory, unless it is this memory."""
        if self.holds(given):
            return
        target = self._target
        if type(given) is not np.ndarray:
            _copy_on_gpu(given, target, handle)
        elif given.strides != target.strides or given.dtype != target.dtype or not given.size:
            target._assign(given, handle)
        else:
            with runtime().using(handle, target.device, writes=(target,)):
                runtime().copy_from_host(target._storage, target._address, given, handle)

    def give_back(self, given: Any, handle: int) -> None:
        """Copy what the step has written into the argument."""
        if self.is_written and type(given) is not np.ndarray and not self.holds(given):
            _copy_on_gpu(self._target, given, handle)


#: Rules for each object in the step's result: return it, return a copy of this array, or return an argument.
_ITSELF, _COPY, _ARGUMENT = range(3)


class _Recorded(NotCopied):
    """A step that was recorded for one signature: its graph, inputs and results.

    Args:
        step: the function.
        call: the call to record.
        is_direct: for each array, whether the graph reads the argument's own memory.
        copies: whether results that are made inside are copied.
        handle: the stream of the call.
    """

    _instead = "it belongs to a compiled function"

    def __init__(
        self, step: Callable[..., Any], call: _Arguments, is_direct: Sequence[bool], copies: bool, handle: int
    ):
        self._lock = threading.Lock()
        made: dict[Any, _Input] = {}
        for given, direct in zip(call.arrays, is_direct, strict=True):
            if _memory(given) not in made:
                made[_memory(given)] = _Input(given, call.device, direct, handle)
        self._inputs = [made[_memory(given)] for given in call.arrays]
        self._graph = graph(device=call.device)
        try:
            with self._graph:
                result = call.run(step, [each.array for each in self._inputs])
        except UnsupportedError as error:
            raise _unrecordable(step, error) from error
        for each in self._inputs:
            each.is_written = self._graph.writes(each.array._storage)
        found: list[Any] = []
        others: list[Any] = []
        self._structure = _split(result, found, others)
        self._results = [self._rule(each, copies) for each in found]
        self._sources = [each for rule, each in self._results if rule == _COPY]
        self._layouts = [dense_like(each._numbacc_layout, each.shape) for each in self._sources]
        #: (_ITSELF, object), or (_ARGUMENT, number of the argument): a method's graph does not keep its object alive.
        self._others = [
            next(((_ARGUMENT, k) for k, given in enumerate(call.others) if each is given), (_ITSELF, each))
            for each in others
        ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded, because the step computes on the CPU."""
        return self._graph.is_empty

    def _rule(self, result: Any, copies: bool) -> tuple[int, Any]:
        """Return what a call returns for an array in the step's result."""
        if type(result) is np.ndarray or not hasattr(result, "_numbacc_layout"):
            return _ITSELF, result
        for k, each in enumerate(self._inputs):
            if each.holds(result):
                return _ARGUMENT, k
        own = [each.array._storage.block for each in self._inputs if not each.is_direct]
        # Memory of the graph belongs to a block, which other arrays of the graph may share.
        is_made = result._storage.block is not result._storage or any(result._storage is each for each in own)
        return (_COPY if copies and is_made else _ITSELF), result

    def moved(self, call: _Arguments) -> set[int]:
        """Return the arrays that are not the memory that the graph reads, although it reads arguments' own memory."""
        pairs = enumerate(zip(self._inputs, call.arrays, strict=True))
        return {k for k, (each, given) in pairs if each.is_direct and not each.holds(given)}

    def launch(self, call: _Arguments, handle: int) -> Any:
        """Copy the arguments into the graph's memory, launch it, and return the results."""
        self._check_apart(call)
        with self._lock:
            for each, given in zip(self._inputs, call.arrays, strict=True):
                each.fill(given, handle)
            self._graph.launch(handle)
            for each, given in zip(self._inputs, call.arrays, strict=True):
                each.give_back(given, handle)
            copies = iter(self._copied(handle))
            found = [
                each if rule == _ITSELF else next(copies) if rule == _COPY else self._argument(each, call, handle)
                for rule, each in self._results
            ]
        others = [each if rule == _ITSELF else call.others[each] for rule, each in self._others]
        return _joined(self._structure, iter(found), iter(others))

    def _copied(self, handle: int) -> list[Any]:
        """Return copies of the results that the function has made. All wait for the launch together."""
        made = [operands.empty_device(layout, handle) for layout in self._layouts]
        if not made:
            return made
        gpu, device = runtime(), made[0]._numbacc_layout.device
        with gpu.using(handle, device, self._sources, made):
            for source, copy in zip(self._sources, made, strict=True):
                if copy.size and is_dense(source._numbacc_layout):
                    gpu.copy_on_device(copy._address, source._address, copy.nbytes, device, handle)
        for source, copy in zip(self._sources, made, strict=True):
            if not is_dense(source._numbacc_layout):
                _copy_on_gpu(source, copy, handle)
        return made

    def _argument(self, k: int, call: _Arguments, handle: int) -> Any:
        """Return the k-th argument: the caller's own array, or a copy on the GPU if it is a NumPy array."""
        given = call.arrays[k]
        return self._inputs[k].array._compact(handle, row_major=False) if type(given) is np.ndarray else given

    def _check_apart(self, call: _Arguments) -> None:
        """Raise UnsupportedError if the step writes to an argument whose memory another one shares in part."""
        for k, each in enumerate(self._inputs):
            if each.is_written and not each.is_direct:
                for j, other in enumerate(call.arrays):
                    if (
                        other is not call.arrays[k]
                        and self._inputs[j] is not each
                        and operands.overlap(call.arrays[k], other)
                    ):
                        raise UnsupportedError(
                            f"{call.name(k)}, which the step writes to, shares memory with {call.name(j)}, and the "
                            "graph has a copy of each: pass arrays that share no memory, or use them in the step "
                            "without passing them"
                        )


def _unrecordable(step: Callable[..., Any], error: UnsupportedError) -> UnsupportedError:
    """Return the error for a step that cannot be recorded, with the line of the user's code."""
    import traceback  # many programs do not need it

    package = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith((package, "<numbacc"))]
    name = getattr(step, "__qualname__", type(step).__name__)
    where = f" line {own[-1].lineno} of {own[-1].filename}, `{own[-1].line}`:" if own else ""
    return UnsupportedError(
        f"{name} cannot be recorded into a CUDA graph:{where} {error}. Return arrays and read their values after the "
        "call, or call the function without numbacc.compiled"
    )


# ---------------------------------------------------------------- the function


class CompiledInfo(NamedTuple):
    """The state of a compiled function, with the names of `functools.lru_cache`.

    Attributes:
        hits: calls that launched a graph.
        misses: calls that ran the function, including those that recorded it.
        maxsize, currsize: the most graphs, and the current number.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class _Signature:
    """The history of the calls with one signature.

    Attributes:
        calls: how many calls ran plainly.
        seen: the memory of the arrays of the last plain call.
        moved: the arrays whose memory has changed between calls.
        recorded: the graph.
        is_plain: whether nothing is recorded, since the step computes on the CPU.
    """

    __slots__ = ("calls", "is_plain", "moved", "recorded", "seen")

    def __init__(self) -> None:
        self.calls, self.is_plain = 0, False
        self.seen: list[Any] = []
        self.moved: set[int] = set()
        self.recorded: _Recorded | None = None


class Compiled(Generic[P, R]):
    """A function whose calls launch CUDA graphs. `numbacc.compiled` makes it, and describes it.

    Copies (shallow or deep) and unpickled objects have no graphs, and begin anew.

    Attributes:
        __wrapped__: the function.

    Example:
        >>> step = numbacc.compiled(lambda x: gated.forward(x, "reglu"))
        >>> y = step(np.ones((2, 4), "float32"))
        >>> step.cache_info().misses
        1
    """

    def __init__(
        self,
        step: Callable[P, R],
        warmup: int = 1,
        maxsize: int = 8,
        copy: bool = True,
        device: int | str | None = None,
    ):
        if not callable(step):
            raise OptionError(f"step={shown(step)} is not a function")
        self.__wrapped__: Callable[P, R] = step
        functools.update_wrapper(self, step, updated=())
        self._warmup = checks.integer(warmup, "warmup", 1)
        self._maxsize = checks.integer(maxsize, "maxsize", 1)
        self._copies = checks.boolean(copy, "copy")
        self._device, self._is_on_cpu = device, (named(device) or 0) < 0
        self._start()

    def _start(self) -> None:
        self._lock = threading.RLock()
        self._known: OrderedDict[Any, _Signature] = OrderedDict()
        self._hits = self._misses = self._signatures = 0
        self._last: Any = None
        self._has_warned = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, or launch its graph for such arguments. It raises the function's errors.

        Raises:
            UnsupportedError: the function does something that a graph cannot hold, such as reading a value on the host.
                The message names the line. The next call tries again.
        """
        if self._is_on_cpu or not has_gpu():
            self._misses += 1
            return self._run_on_cpu(args, kwargs)
        handle = handle_of(None)
        call = _Arguments(args, kwargs, self._device, handle)
        # New arrays of the step lie on this GPU in plain calls, too.
        with runtime().on_device(call.device):
            return self._run_on_gpu(call, handle)

    def _run_on_gpu(self, call: _Arguments, handle: int) -> R:
        """Run the function, or launch its graph, while the call's GPU is the current one."""
        step: Any = self.__wrapped__
        result: R
        if runtime().is_capturing(handle):
            result = call.run(step, self._arrays(call, handle))  # it becomes part of that graph
            return result
        found = self._found(call)
        if found.is_plain or (found.recorded is None and found.calls < self._warmup):
            self._misses += 1
            result = call.run(step, self._arrays(call, handle))
            found.seen = call.seen()
            found.calls += 1
            return result
        recorded = found.recorded
        if recorded is None or recorded.moved(call):
            with self._lock:
                recorded = found.recorded
                moved = set() if recorded is None else recorded.moved(call)
                if recorded is None or moved:
                    found.moved |= moved
                    found.recorded = None
                    self._misses += 1
                    recorded = self._record(found, call, handle)
                    if recorded.is_empty:
                        found.is_plain = True
                    else:
                        found.recorded = recorded
        else:
            self._hits += 1
        result = recorded.launch(call, handle)
        return result

    def _run_on_cpu(self, args: Any, kwargs: Any) -> R:
        device = self._device if self._is_on_cpu else None
        call = _Arguments(args, kwargs, device, 0)
        result: R = call.run(self.__wrapped__, [creation.asarray(each, device=device) for each in call.arrays])
        return result

    def _arrays(self, call: _Arguments, handle: int) -> list[Any]:
        """Return the arrays of a plain call on a GPU."""
        return [
            creation.asarray(each, device=call.device, stream=handle) if type(each) is np.ndarray else each
            for each in call.arrays
        ]

    def _record(self, found: _Signature, call: _Arguments, handle: int) -> _Recorded:
        pairs = enumerate(zip(call.seen(), found.seen, strict=True))
        is_direct = [now is not None and now == before and k not in found.moved for k, (now, before) in pairs]
        return _Recorded(self.__wrapped__, call, is_direct, self._copies, handle)

    def _found(self, call: _Arguments) -> _Signature:
        """Return what is known about calls like this one."""
        keys: list[Any] = []
        known = self._known

        def forget(ended: Any) -> None:
            """Drop the graph of an argument that has ended."""
            for key in keys:
                known.pop(key, None)

        signature = call.signature(forget)
        with self._lock:
            found = known.get(signature)
            if found is None:
                keys.append(signature)
                self._make_room(call, signature)
                found = known[signature] = _Signature()
            else:
                known.move_to_end(signature)
            self._last = signature
        return found

    def _make_room(self, call: _Arguments, signature: Any) -> None:
        """Make room for another signature; warn once if there are more than graphs."""
        self._signatures += 1
        while len(self._known) >= self._maxsize:
            # Signatures that were seen only now and then go first.
            oldest = next((key for key, each in [*self._known.items()] if each.recorded is None), None)
            if oldest is None:
                self._known.popitem(last=False)
            else:
                self._known.pop(oldest, None)
        if self._signatures > self._maxsize and not self._has_warned:
            self._has_warned = True
            name = getattr(self, "__qualname__", "this compiled function")
            warnings.warn(
                f"{name} has had {self._signatures} kinds of arguments. Each needs a graph of its own, and calls with "
                f"new ones run without a graph. {call.difference(signature, self._last)}. If so many kinds are needed, "
                f"pass a larger maxsize= than {self._maxsize}",
                CompiledWarning,
                stacklevel=5,
            )

    def cache_info(self) -> CompiledInfo:
        """Return the numbers of calls with and without a graph, and the number of graphs."""
        with self._lock:
            count = sum(each.recorded is not None for each in [*self._known.values()])
        return CompiledInfo(self._hits, self._misses, self._maxsize, count)

    def cache_clear(self) -> None:
        """Drop all graphs and their memory. Later calls begin anew."""
        with self._lock:
            self._start()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return a bound method. Each instance has its own graphs, which end with it."""
        return self if instance is None else types.MethodType(self, instance)

    def _again(self, step: Callable[P, R]) -> Compiled[P, R]:
        return Compiled(step, self._warmup, self._maxsize, self._copies, self._device)

    def __copy__(self) -> Compiled[P, R]:
        return self._again(self.__wrapped__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled[P, R]:
        return self._again(copying.deepcopy(self.__wrapped__, memo))

    def __reduce__(self) -> Any:
        # A decorated function is found by its name, as functions are.
        name: Any = getattr(self, "__qualname__", None)
        module = sys.modules.get(str(getattr(self, "__module__", None)))
        if name and getattr(module, name, None) is self:
            return name
        return Compiled, (self.__wrapped__, self._warmup, self._maxsize, self._copies, self._device)

    def __repr__(self) -> str:
        count = self.cache_info().currsize
        return f"<numbacc.compiled {getattr(self, '__qualname__', shown(self.__wrapped__))}: {count} graphs>"


@overload
def compiled(
    step: Callable[P, R], *, warmup: int = 1, maxsize: int = 8, copy: bool = True, device: int | str | None = None
) -> Compiled[P, R]: ...
@overload
def compiled(
    step: None = None, *, warmup: int = 1, maxsize: int = 8, copy: bool = True, device: int | str | None = None
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...
def compiled(
    step: Any = None, *, warmup: int = 1, maxsize: int = 8, copy: bool = True, device: int | str | None = None
) -> Compiled[..., Any] | Callable[[Callable[..., Any]], Compiled[..., Any]]:
    """Make a function whose calls are recorded into a CUDA graph once, and then launch the graph.

    The first call with arguments of given shapes runs the function. The next one records it, and later ones launch the
    graph: the host queues one piece of work for all kernels. Without a GPU each call runs the function on NumPy.

    Args:
        step: a function of arrays; None returns a decorator. Its array arguments may be of any library, also inside of
            tuples, lists and dicts. The function gets them as `numbacc.asarray` returns them: NumPy arrays are copied
            to the GPU.
        warmup: how many calls run before one is recorded. They compile kernels and make plans.
        maxsize: the most graphs. Each combination of shapes, dtypes and other arguments needs one.
        copy: True returns copies of the arrays that the function makes. False returns the graph's own arrays, which the
            next call with such arguments overwrites.
        device: the GPU for NumPy arguments, by default the current one; or "cpu" to run on NumPy always. The GPU of the
            arguments is the current one during a call.

    Returns:
        Compiled, to be called like step. Its `cache_info()` counts calls and graphs, and `cache_clear()` drops them.

    Raises:
        OptionError: an argument is invalid.
        DeviceError: device does not name a device.

    An array that is the same memory as in the calls before is used in place, so weights and optimizer states may be
    arguments. Other arrays are copied into the graph's own inputs. If the function writes to these, the new values are
    copied back, except into NumPy arrays.

    Numbers and other objects are fixed in a graph. To change a rate, pass an array. Python code in the function runs
    only in calls without a graph: prints, counters, conditions. docs/order.md has details.

    Example:
        >>> @numbacc.compiled
        ... def step(x, rate):
        ...     return x - rate * x
        >>> numbacc.asnumpy(step(np.ones(3), np.array(0.5)))
        array([0.5, 0.5, 0.5])
    """
    if step is None:
        # An example of a function raises the errors of wrong options at once.
        return Compiled(compiled, warmup, maxsize, copy, device)._again
    return Compiled(step, warmup, maxsize, copy, device)
