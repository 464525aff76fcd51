"""The plan of a matrix product: it chooses the library's algorithm, and the kernels of numbacc that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from ..arrays import creation, operands
from ..base.codes import ALIGNED
from ..base.dispatch import runtime
from ..base.dtypes import dtype, info
from ..base.layout import Layout, layout, row_major_strides, same_layout
from ..errors import LayoutError, OptionError, UnsupportedError
from ..libraries.products import bits
from ..plan.base import Plan, Result
from ..runtime import workspace
from ..runtime.operation import Trial
from ..runtime.steps import Scratch, Step, Steps, ZeroBytes
from ..runtime.streams import handle_of
from .alignment import check_layouts
from .arguments import (
    WithAux,
    WithBiasGrad,
    array_or_number,
    as_given,
    bias_grad_out,
    checked_number,
    is_pair,
)
from .compose import steps_of
from .epilogue import Epilogue
from .executables import Alone, CallOperands, LibraryCall, assembled, map_steps, padded
from .hardware import check_hardware
from .host import HostProduct
from .lowering import BIAS, LoweredProduct, c_fits
from .problem import NUMBER, SCALES, GemmCall, GemmProblem, resolve
from .selection import Selector, c_is_out


class MatmulPlan(Plan[Result]):
    """A plan of a product. `matmul.plan` makes one; call it with arrays that have the layouts it was made for.

    Args:
        call: the call before its checks.
        without_product: True if alpha is 0, so that a and b are not read.
    """

    per_thread = True
    backend = "cublasLt"

    def __init__(self, call: GemmCall, without_product: bool = False):
        problem = self.problem = resolve(call)
        inputs, outputs = _inputs(problem), _outputs(problem)
        op = f"gemm.matmul.{problem.epilogue.value}"
        super().__init__(op, (*inputs, *outputs), tuple(inputs.values()), tuple(outputs.values()))
        self.math_dtype, self.accumulator_dtype = problem.compute, problem.types.accumulator
        self.tunes = call.tune
        self._scale = {"int32": "int32", "float64": "float64"}.get(problem.types.accumulator, "float32")
        self._is_empty = not problem.matrix_out.size
        self.empty = self._is_empty and len(outputs) == 1 + problem.epilogue.produces_aux
        copies_c = call.has_beta and not c_fits(problem)
        # If no C is read, the library gets D instead; a float8 D is invalid as C.
        narrow = problem.out.itemsize == 1
        if copies_c and narrow:
            raise LayoutError("with a float8 out, c must be stored as out is, both row by row or both column by column")
        self._call_operands = CallOperands(self.names, "" if narrow else "out", copies_c)
        #: The layouts of zero matrices that replace a and b if nothing is multiplied.
        self._zeros: tuple[Layout, ...] = ()
        if (without_product or not problem.k) and not self._is_empty:
            self._zeros = _zeros(problem)
            call = call._replace(a=self._zeros[0], b=self._zeros[1])
        self._selector = Selector(resolve(call) if self._zeros else problem, copies_c)
        #: The names of the scales that are numbers.
        self._numbers = [name for name in SCALES if getattr(problem.call, name) == NUMBER]
        if self.device < 0:
            self._host = HostProduct(problem)
        else:
            check_hardware(problem)
            check_layouts(problem)

    # ------------------------------------------------------------ choosing

    def _key(self, addresses: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self._call_operands.key(addresses)

    def _make(self, key: tuple[tuple[int, ...], tuple[int, ...]], trial: Trial | None) -> Any:
        call_operands, (alignment, loose) = self._call_operands, key
        options: dict[str, Any] = {"close": self.close, "fits": lambda addresses: call_operands.key(addresses) == key}
        if self._is_empty:
            return Steps(
                self._sums_of_empty(), Scratch(), **options, backend="kernel", algorithm="sums over empty results"
            )
        if self._zeros:
            alignment = (ALIGNED, ALIGNED, *alignment[2:])
        scales = [int(k in loose) for k in range(len(SCALES) + 1)]
        tried = None if trial is None else (trial.stream, self._tried(trial, options))
        selected = self._selector.prepare(alignment, tried, scales)
        kernels, text = list(selected.steps), selected.text
        if self._zeros:
            text = f"zeros instead of a and b; {text}"
            if self.problem.k and self.problem.epilogue in (Epilogue.BGRADA, Epilogue.BGRADB):
                kernels = steps_of(self.problem, Epilogue.NONE)  # alpha is not a factor of these sums
        if selected.direct and not self._zeros:
            unseen = [pair for pair in self.close if self.names[pair[1]] == "amax_d"]
            return Alone(selected.runner, text, self._scale, call_operands, selected.plain, unseen)
        call = LibraryCall(selected.runner, text, self._scale)
        name = call.backend + "+kernel" * bool(kernels)
        return self._assembled(selected.lowered, call, kernels, False, backend=name, algorithm=text, **options)

    def _assembled(
        self, lowered: LoweredProduct, call: LibraryCall, kernels: Any, measured: bool, **options: Any
    ) -> Steps:
        zeros = [array.nbytes for array in self._zeros]
        return assembled(self.problem, self._call_operands, lowered, call, kernels, zeros, measured, **options)

    def _tried(self, trial: Trial, options: Mapping[str, Any]) -> Callable[[LoweredProduct, Any], Callable[[], None]]:
        """Return a function that prepares trials of a product and its runner, with scratch memory for the results."""
        kept: list[Any] = []
        moved, first = list(trial.addresses), len(self.inputs)

        def prepared(lowered: LoweredProduct, runner: Any) -> Callable[[], None]:
            for number, written in enumerate(self.outputs if not kept else (), first):
                nbytes, start = padded(trial.addresses[number], written.low, written.high)
                kept.append(runtime().allocate(nbytes, self.device, trial.stream))
                moved[number] = kept[-1].address + start
            call = LibraryCall(runner, "", self._scale)
            found = self._assembled(lowered, call, (), True, backend="cublasLt", algorithm="a trial", **options)

            def launch(scratch: int) -> None:
                found.launch_unchecked(trial.stream, scratch, moved, trial.scalars)

            return partial(workspace.run, launch, found.workspace_bytes, self.device, trial.stream)

        return prepared

    def _sums_of_empty(self) -> list[Step]:
        """Return the steps for an empty `out`: sums and largest values over no elements are 0.

        Raises:
            UnsupportedError: the sum is in float8.
        """
        problem, numbers, steps = self.problem, self._call_operands.numbers, []
        if problem.epilogue.produces_bias_grad:
            if info(problem.call.a.dtype).is_scaled:
                raise UnsupportedError("bias_grad of an empty float8 product is not supported")
            for each in steps_of(problem, Epilogue.NONE):
                grad = self.outputs[1]
                if BIAS in each.writes and grad.size:
                    steps.append(Step(ZeroBytes(grad.nbytes, self.device), (numbers[BIAS],)))
                    if each.plan.inputs[0].size:
                        steps += map_steps([each], numbers)
        if "amax_d" in self.names:
            steps.append(Step(ZeroBytes(self.outputs[-1].nbytes, self.device), (numbers[-1],)))
        return steps

    # ------------------------------------------------------------ overlap, results, NumPy

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        in_place = self.names[i] == "c" and self.names[j] == "out" and c_is_out(self.problem)
        return in_place and source == target

    def _shares(self, i: int, j: int) -> str:
        only = "; only c may be out itself (in place)" if self.names[j] == "out" else ""
        return f"{self.names[j]} shares memory with {self.names[i]}: pass a separate array{only}"

    def _memory(self, made: Layout, stream: int) -> Any:
        whole = self.problem.second_storage
        if made is not self.problem.second or made is whole or whole is None:
            return operands.empty_device(made, stream)
        # The rows of aux are padded in memory.
        memory = operands.empty_device(whole, stream)
        return type(memory)(made, memory._address, memory._storage)

    def _answer(self, outs: Sequence[Any]) -> Any:
        kind = self.problem.epilogue
        if kind.produces_aux:
            return WithAux(outs[0], outs[1])
        return WithBiasGrad(outs[0], outs[1]) if kind.produces_bias_grad else outs[0]

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        results = self._host(dict(zip(self.names, inputs, strict=False)), *(scalars or (1.0, 0.0, {})))
        for number, out in enumerate(outs):
            if out is not None:
                out[...] = results[number]
                results[number] = out
        return results

    # ------------------------------------------------------------ running it

    def prepare_for(self, given: Mapping[str, Any]) -> None:
        """Choose and load everything that a run on these arrays needs, so that the run only launches."""
        arrays = [given.get(name) for name in self.names]
        # Scales that are numbers are later copied to aligned memory.
        self.prepare([None if isinstance(array, float) else array for array in arrays])

    def __call__(  # type: ignore[override]
        self,
        a: Any,
        b: Any,
        *,
        c: Any = None,
        bias: Any = None,
        aux: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        scale_a: Any = None,
        scale_b: Any = None,
        scale_c: Any = None,
        scale_d: Any = None,
        amax_d: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Result:
        """Run on arrays with the layouts that the plan was made for. Arguments and result are the same as for `matmul`.

        Raises:
            LayoutError: an array has another layout, is missing, or the plan was made without it. OptionError: the plan
                was made for beta = 0 and beta is not 0, or the other way round.
        """
        handle = handle_of(stream)
        arguments = (a, b, c, bias, aux, out[0] if is_pair(out) else out, scale_a, scale_b, scale_c, scale_d, amax_d)
        found = {}
        for name, value in zip(GemmCall._fields[: len(arguments)], arguments, strict=True):
            found[name] = array = array_or_number(value, name, handle)
            one = NUMBER if isinstance(array, float) else None if array is None else operands.layout_of(array)
            wanted = getattr(self.problem.call, name)
            if one != wanted and not (
                isinstance(one, Layout) and isinstance(wanted, Layout) and same_layout(one, wanted)
            ):
                raise LayoutError(
                    f"this plan was made for {name} = {wanted}; it was called with {one}. Make a new plan for these "
                    "arrays, or call matmul, which makes one"
                )
        alpha, beta = (
            checked_number(each, name, self.problem.types) for each, name in ((alpha, "alpha"), (beta, "beta"))
        )
        if (beta != 0) != self.problem.call.has_beta:
            raise OptionError(f"beta={beta}, but this plan was made for beta {'!=' if beta == 0 else '=='} 0")
        if is_pair(out):
            found["bias_grad"] = bias_grad_out(self.problem, out[1], handle)
        result: Result = as_given(self.run_on(found, alpha, beta, handle), out, aux)
        return result

    def run_on(self, given: Mapping[str, Any], alpha: float, beta: float, stream: int) -> Any:
        """Run the plan on arrays, and on scales that are numbers, given by name."""
        plan, scalars = self, ()  # type: tuple[MatmulPlan, tuple[Any, ...]]
        numbers = {name: given[name] for name in self._numbers} if self._numbers else {}
        if self.device < 0:
            scalars = alpha, beta, numbers
        else:
            if numbers:
                alpha *= numbers.get("scale_a", 1.0) * numbers.get("scale_b", 1.0)
                beta *= numbers.get("scale_c", 1.0)
            if "scale_d" in numbers:
                where = {"device": self.device, "stream": stream}
                given = {**given, "scale_d": creation.full((1,), numbers["scale_d"], **where)}
            # An alpha that rounds to 0 in the scale type counts as 0. Some of cuBLASLt's kernels then do not write
            # `out`, even with a C or a bias.
            if not bits(abs(alpha), self._scale) and not self._is_empty and not self._zeros:
                plan = self._without_product
            if plan._zeros:
                alpha = 1.0
            if alpha != 1 or beta:
                scalars = bits(alpha, self._scale), bits(beta, self._scale)
        first = len(plan.inputs)
        inputs, outs = [given[name] for name in plan.names[:first]], [given.get(name) for name in plan.names[first:]]
        return plan.run(inputs, outs, None, stream, scalars)

    @cached_property
    def _without_product(self) -> MatmulPlan:
        return MatmulPlan(self.problem.call, without_product=True)


def _inputs(problem: GemmProblem) -> dict[str, Layout]:
    """Return the arrays that a product reads, by name."""
    call, kind = problem.call, problem.epilogue
    found = {"a": call.a, "b": call.b, "c": call.c if call.has_beta else None, "bias": call.bias}
    found["aux"] = call.aux if kind.uses_aux else None
    found |= {name: getattr(call, name) for name in SCALES}
    if call.scale_d == NUMBER:
        found["scale_d"] = layout((1,), (4,), dtype("float32"), call.a.device)
    return {name: array for name, array in found.items() if isinstance(array, Layout)}


def _outputs(problem: GemmProblem) -> dict[str, Layout]:
    """Return the arrays that a product writes, by name."""
    call, kind = problem.call, problem.epilogue
    found: dict[str, Any] = {"out": problem.out}
    if kind.produces_aux:
        found["aux"] = call.aux or problem.second
    if kind.produces_bias_grad:
        found["bias_grad"] = problem.second
    return found if call.amax_d is None else {**found, "amax_d": call.amax_d}


def _zeros(problem: GemmProblem) -> tuple[Layout, Layout]:
    """Return matrices that replace a and b, with the smallest k that the library supports; b is column-major."""
    a, b, k = problem.call.a, problem.call.b, problem.types.multiple
    left = (*a.shape[:-1], k)
    right = (*b.shape[:-2], problem.n, k) if b.ndim > 1 else (k,)
    steps = row_major_strides(right, b.itemsize)
    if b.ndim > 1:
        right, steps = (*right[:-2], k, problem.n), (*steps[:-2], steps[-1], steps[-2])
    return (
        layout(left, row_major_strides(left, a.itemsize), a.dtype, a.device),
        layout(right, steps, b.dtype, b.device),
    )
