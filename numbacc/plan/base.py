"""Plans: decisions that follow from shapes, strides, dtypes and options, made once and cached.

`Plan` is the base of every operation's plan. It handles the checks of arguments and writability, empty results,
overlap, streams and their order, allocation, NumPy, and `info`. A family adds the methods that `Operation` requires,
the choice of an executable by the arrays' addresses, and the meaning in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from ..arrays import operands
from ..base import html
from ..base.layout import PORTABLE, Layout, check_same_device, name_of, read_only, same_layout
from ..base.observing import observable
from ..base.views import memory_order
from ..errors import DeviceError, DTypeError, LayoutError, ShapeError
from ..runtime.operation import Operation
from ..runtime.streams import handle_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The result of a plan's call: an array, or a tuple of arrays.
    Result = TypeVar("Result", covariant=True, default=Any)
else:
    from typing import TypeVar

    Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True)
class PlanInfo:
    """The decisions of a plan.

    Attributes:
        op: the operation.
        dtypes: dtype name of each argument, inputs first.
        backend: "numpy", "kernel" or "simulator"; or the library, "cublasLt", "cufft", "cuRAND", with "+kernel" if
            numbacc's kernels do part of the work.
        algorithm: which kernel, and how it is launched; or the library's algorithm.
        workspace_bytes: scratch memory in addition to arguments and results.
        math_dtype: dtype of the arithmetic.
        accumulator_dtype: dtype of sums; None if nothing is summed.
        deterministic: True if the same inputs give the same bits on every run on one GPU model.
    """

    op: str
    dtypes: tuple[str, ...]
    backend: str
    algorithm: str
    workspace_bytes: int
    math_dtype: str
    accumulator_dtype: str | None
    deterministic: bool

    def _repr_html_(self) -> str:
        return html.table((), [*self._decisions(), ("dtypes", ", ".join(self.dtypes))], self.op)

    def _decisions(self) -> list[tuple[str, str]]:
        """Return (name, text) of everything but the operation and its arrays."""
        found = {
            "backend": self.backend,
            "algorithm": self.algorithm,
            "workspace": f"{self.workspace_bytes:,} bytes",
            "math dtype": self.math_dtype,
            "accumulator dtype": self.accumulator_dtype or "",
            "deterministic": "yes" if self.deterministic else "no",
        }
        return [(name, text) for name, text in found.items() if text]


def plan_html(plan: Any, arrays: Sequence[tuple[str, Layout]]) -> str:
    """Return a plan for a notebook: its decisions, and the names and layouts of its arrays, if there are any.

    An error, such as that of a GPU that can no longer be used, is shown instead of the decisions.
    """
    where = "NumPy" if plan.device < 0 else name_of(plan.device)
    try:
        decisions = plan.info._decisions()
    except Exception as error:
        decisions = [("error", f"{type(error).__name__}: {error}")]
    shown = html.table((), [("runs on", where), *decisions], f"plan of {plan.op}")
    if arrays:
        rows = [(name, each.dtype, each.shape, memory_order(each)) for name, each in arrays]
        shown += "\n" + html.table(["array", "dtype", "shape", "layout"], rows)
    return shown


class Plan(Operation, Generic[Result]):
    """A planned operation. Call it with arrays of the layouts that it was made for.

    Attributes:
        out_given: True if results are written to the user's arrays, False if each call allocates them.
        backend: the backend that runs it, if that does not depend on addresses.
        math_dtype, accumulator_dtype: as in `PlanInfo`.
        used: when it was last used, by the clock of its cache.
        cache: the cache that holds it, or None.
        of_tensors: what runs it on torch's tensors without importing them; see `plan.tensors`.
    """

    out_given = False
    backend = "kernel"
    math_dtype = ""
    accumulator_dtype: str | None = None
    used = 0
    cache: Any = None
    of_tensors: Any = None

    # ------------------------------------------------------------ what a family defines, in addition to `Operation`

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        """Return the results in NumPy: written to `outs`, or in new arrays where `outs` has None."""
        raise NotImplementedError

    def _targets(self, outs: Sequence[Any]) -> list[Any]:
        """Return NumPy arrays for the results: those in `outs`, and new ones where `outs` has None."""
        pairs = zip(self.outputs, outs, strict=True)
        return [operands.empty_layout(made) if out is None else out for made, out in pairs]

    _memory: Any = staticmethod(operands.empty_device)

    def _grown(self) -> None:
        if self.cache is not None:
            self.cache.trim()

    # ------------------------------------------------------------ its decisions

    def prepare(self, inputs: Sequence[Any], outs: Sequence[Any] | None = None) -> None:
        """Compile, load and create everything that a run on these arrays needs, so that the run itself only launches.

        This prepares runs in the current thread.
        """
        if self.device >= 0:
            given = [*inputs, *(outs or ())]
            self.ready([0 if array is None else array._address for array in given])

    @property
    def info(self) -> PlanInfo:
        """The plan's decisions; before its first run on a GPU, for arrays that start at multiples of 256 bytes."""
        name, algorithm, nbytes, deterministic = "numpy", "reference", 0, True
        if self.device >= 0:
            name, algorithm = self.backend, "no launch: the result is empty"
            if not self.empty:
                found = self.last or self.choose([0] * (len(self.inputs) + len(self.outputs)))
                name, algorithm = found.backend, found.algorithm
                nbytes, deterministic = found.workspace_bytes, found.deterministic
        return PlanInfo(
            op=self.op,
            dtypes=tuple(array.dtype.name for array in (*self.inputs, *self.outputs)),
            backend=name,
            algorithm=algorithm,
            workspace_bytes=nbytes,
            math_dtype=self.math_dtype,
            accumulator_dtype=self.accumulator_dtype,
            deterministic=deterministic,
        )

    def __repr__(self) -> str:
        first = len(self.inputs)
        inputs, outputs = (
            ", ".join(f"{name}{array.dtype} {array.shape}" for name, array in zip(names, arrays, strict=True))
            for names, arrays in (
                ([f"{name} " for name in self.names[:first]], self.inputs),
                ([f"{name} " if k else "" for k, name in enumerate(self.names[first:])], self.outputs),
            )
        )
        where = "NumPy" if self.device < 0 else f"{(self.last or self).backend} on cuda:{self.device}"
        arrow = f"{inputs} -> " if inputs else "-> "
        return f"<plan of {self.op}: {arrow}{outputs}, {where}>"

    def _repr_html_(self) -> str:
        return plan_html(self, [*zip(self.names, (*self.inputs, *self.outputs), strict=True)])

    # ------------------------------------------------------------ calling it

    @observable("call", ".op")
    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None) -> Result:
        """Run on arrays with the layouts that the plan was made for.

        Args:
            arguments: the arguments of the function that made the plan.
            out: the output, if the plan was made with `out`.
            stream: the stream to run on; the default stream if None.

        Returns:
            the result, or `out` if given; a tuple if there are several.

        Raises:
            LayoutError: an array has a different layout.
        """
        handle = handle_of(stream)
        if (out is not None) != self.out_given:
            how = "with" if self.out_given else "without"
            raise LayoutError(f"this plan of {self.op} was made {how} out: call it {how} out, too")
        arrays, scalars = self._split(arguments)
        outs: Sequence[Any] | None = out if out is None or type(out) is tuple else (out,)
        if not self._are_own(arrays, outs):
            arrays, outs = self._arrays(arrays, handle), outs_of(out, handle)
            self._check_fit(arrays, outs)
        result: Result = self.run(arrays, outs, out, handle, scalars)
        return result

    def _are_own(self, inputs: Sequence[Any], outs: Sequence[Any] | None) -> bool:
        """Return whether these are device arrays with exactly the plan's layouts, by one fast comparison."""
        try:
            found = [array._numbacc_layout for array in (inputs if outs is None else (*inputs, *outs))]
        except Exception:  # NumPy arrays lack such a layout, and attributes of foreign arrays may raise anything
            return False
        return found == [*self.inputs, *(() if outs is None else self.outputs)]

    def _split(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return (the arrays, the scalars for `run`) of a call's arguments."""
        return arguments, ()

    def _arrays(self, arguments: Sequence[Any], handle: int) -> list[Any]:
        """Return arguments as arrays; pairs are flattened if the plan's names are such as dy, x[0], x[1]."""
        names = self.names[: len(self.inputs)]
        flat: list[Any] = []
        for argument in arguments:
            pair = len(flat) < len(names) and names[len(flat)].endswith("[0]") and isinstance(argument, (tuple, list))
            flat += argument if pair else (argument,)
        if len(flat) != len(names):
            raise LayoutError(
                f"this plan of {self.op} was made for {', '.join(names)}; it was called with {len(flat)} arrays"
            )
        return [operands.as_input(array, name, handle) for array, name in zip(flat, names, strict=True)]

    def _check_fit(self, inputs: Sequence[Any], outs: Sequence[Any] | None) -> None:
        """Raise LayoutError unless arrays have the layouts that the plan was made for."""
        found = [operands.layout_of(array) for array in (*inputs, *(outs or ()))]
        wanted = [*self.inputs, *(self.outputs if outs else ())]
        if len(found) != len(wanted) or not all(map(same_layout, found, wanted)):
            raise LayoutError(
                f"this plan of {self.op} was made for {wanted}; it was called with {found}. Make a plan for these "
                "arrays, or call the function, which does"
            )

    def _run_numpy(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        if self.device == PORTABLE:
            return operands.on_hosts(self._run_hosts, inputs, outs, scalars)
        return self._run_hosts(inputs, outs, scalars)

    def _run_hosts(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        for number, array in enumerate(outs):
            if array is not None:
                if not array.flags.writeable:
                    raise read_only(self.names[len(inputs) + number])
                if not (inputs or number):
                    continue  # it is the only array
                # Nearly all arrays are disjoint, which their bounds show.
                others = (*inputs, *[other for other in outs[:number] if other is not None])
                if any(np.may_share_memory(array, other) for other in others):
                    self.check_overlap([None if each is None else each.ctypes.data for each in (*inputs, *outs)])
        if self.overwritten:
            self._check_overwritten(inputs)
        try:
            return self._compute(inputs, outs, scalars)
        except MemoryError as error:
            raise DeviceError(f"out of host memory: {error}") from None


def outs_of(out: Any, handle: int) -> list[Any] | None:
    """Return `out` as a list of arrays, with the names out[0] and out[1] for a pair; None if it is None."""
    if isinstance(out, (tuple, list)):
        return [operands.as_array(a, f"out[{k}]", handle) for k, a in enumerate(out)]
    return None if out is None else [operands.as_array(out, "out", handle)]


def check_out(outs: Sequence[Layout], wanted: Sequence[Layout], names: Sequence[str]) -> None:
    """Raise the fitting error unless each given output has the shape, dtype and device of the result."""
    if len(outs) != len(wanted):
        raise ShapeError(
            f"out must be {'one array' if len(wanted) == 1 else f'a pair of {len(wanted)} arrays'}; got {len(outs)}"
        )
    for given, result, name in zip(outs, wanted, names, strict=True):
        check_same_device(given, "out", result, "the inputs")
        if given.shape != result.shape:
            raise ShapeError(f"{name} has shape {given.shape}; the result has shape {result.shape}")
        if given.dtype != result.dtype:
            raise DTypeError(f"{name} has dtype {given.dtype}; the result has dtype {result.dtype}")
