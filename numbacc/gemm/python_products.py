"""Products whose epilogue is a Python function: the call after its checks, and its plan.

`EpiloguePlan` runs one kernel where numbacc has one (`kernels.gemm`). Elsewhere it runs the library's product, in the
dtype of its sums, and one elementwise kernel. Both apply the function to unrounded sums, and round its results once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from .._version import __version__
from ..arrays import operands as arrays_of
from ..base.casts import cast
from ..base.codes import CAPTURING, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from ..base.dispatch import launcher_class, runtime, simulated, tensor_launcher_class
from ..base.dtypes import dtype, info, words
from ..base.layout import (
    Layout,
    check_same_device,
    check_writable,
    layout,
    row_major_strides,
    same_layout,
    view,
)
from ..errors import DTypeError, Error, LayoutError, OptionError, ShapeError, shown, unknown
from ..kernels.elementwise.launch import MapTask
from ..kernels.gemm.launch import (
    Card,
    KernelProduct,
    MatrixView,
    Tile,
    library_is_faster,
    order_of,
    steps_of,
    tiles_for,
)
from ..kernels.gemm.spec import COLUMNS
from ..kernels.reduce.functions import REDUCTIONS as REDUCTION_FORMULAS
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..libraries.choices import Algorithm, Choices, Proposals, gpu_model
from ..libraries.products import bits
from ..plan.base import Plan, Result, check_out
from ..plan.tasks import MapPlan
from ..runtime import contexts, workspace
from ..runtime.operation import Trial
from ..runtime.steps import Scratch, Step, Steps
from ..runtime.streams import handle_of
from .arguments import checked_number, parsed
from .epilogue_plans import quick_products
from .executables import padded
from .plan import MatmulPlan
from .problem import NUMBER, SCALES, TYPES, GemmCall
from .python_epilogue import PythonEpilogue, outside_of, python_epilogue

#: Arguments of `matmul` that a Python function replaces -> what to do instead.
_INSTEAD = {
    "bias": "pass it in operands",
    "aux": "return another result from the function",
    "scale_d": "multiply in the function",
    "amax_d": "return the absolute value as another result",
}


#: The measured tiles of the kernel.
_choices = Choices("numbacc's Hopper kernel")
#: The reductions of a result's rows, in NumPy.
REDUCTIONS: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


class EpilogueCall(NamedTuple):
    """Everything that a plan depends on.

    Attributes:
        product: the product, in the dtype of its sums and without an epilogue.
        epilogue: the function.
        operands: for each operand, its layout, or `NUMBER`.
        outs: the layouts of the arrays for the results, if given.
        out_dtypes: the dtypes of the results, where they were given.
        reduces: for each result "", or the reduction of its rows. () for none.
    """

    product: GemmCall
    epilogue: PythonEpilogue
    operands: tuple[Any, ...]
    outs: tuple[Layout, ...] | None
    out_dtypes: tuple[np.dtype[Any] | None, ...]
    reduces: tuple[str, ...] = ()


class EpiloguePlan(Plan[Result]):
    """A plan of a product with a Python epilogue. `matmul.plan` makes one.

    Args:
        call: the call.
        without_product: True if alpha is 0, so that a and b are not read.
    """

    per_thread = True
    backend = "cublasLt+kernel"

    def __init__(self, call: EpilogueCall, without_product: bool = False):
        product = self.product = MatmulPlan(call.product, without_product)
        self.call, self.problem, self.tunes = call, product.problem, call.product.tune
        task = self._task()
        names = (*product.names[: len(product.inputs)], *task.names[1:])
        outputs = self._outputs(task)
        super().__init__(f"gemm.matmul.{call.epilogue.name}", names, (*product.inputs, *task.inputs[1:]), outputs)
        self.map: MapPlan = MapPlan(task)
        self.out_given = task.out_given
        self.math_dtype, self.accumulator_dtype = self.problem.compute, self.problem.types.accumulator
        self.empty = self.map.empty
        if any(call.reduces) and self.empty and self.outputs[0].shape[:1] != (0,):
            raise ShapeError(f"the result has shape {task.shape}: there is nothing to reduce")
        self._numbers = [name for name in SCALES if getattr(call.product, name) == NUMBER]
        #: The scalars of a product without alpha and beta.
        self._usual = bits(1.0, product._scale), bits(0.0, product._scale)

    def _task(self) -> MapTask:
        """Return the task of the elementwise kernel after the product, after all checks of operands and results."""
        call, sums = self.call, self.product.outputs[0]
        shape = sums.shape if call.epilogue.sums == 1 else (*sums.shape[:-1], sums.shape[-1] // 2)
        compute = "float64" if self.problem.types.accumulator == "float64" else "float32"
        made, outs = self._made(shape), call.outs
        if any(call.reduces):
            wide = dtype(compute)
            full = layout(shape, row_major_strides(shape, wide.itemsize), wide, call.product.a.device)
            rows = layout((*shape[:-1], 1), row_major_strides((*shape[:-1], 1), wide.itemsize), wide, full.device)
            #: The layouts of reduced results: before the reduction, and after it.
            self._reduced = full, rows
            if outs is not None:
                wanted = [rows if kind else each for kind, each in zip(call.reduces, made, strict=True)]
                check_out(outs, wanted, [f"out[{k}]" if len(made) > 1 else "out" for k in range(len(made))])
                outs = tuple(full if kind else each for kind, each in zip(call.reduces, outs, strict=True))
            made = tuple(full if kind else each for kind, each in zip(call.reduces, made, strict=True))
        return epilogue_task(call.epilogue, sums, call.operands, shape, made, outs, compute)

    def _outputs(self, task: MapTask) -> tuple[Layout, ...]:
        """Return the layouts of the results, after reductions."""
        call, found = self.call, list(task.outputs)
        for k, kind in enumerate(call.reduces):
            if kind:
                found[k] = self._reduced[1] if call.outs is None else call.outs[k]
                check_writable(found[k], task.names[len(task.inputs) + k])
        return tuple(found)

    def _made(self, shape: tuple[int, ...]) -> tuple[Layout, ...]:
        """Return the layouts of new results.

        Raises:
            DTypeError: a dtype is not supported.
        """
        call, found = self.call, []
        usual = self.problem.types.outs[0]
        usual = "float32" if usual == "int32" else usual
        for k, (kind, given) in enumerate(zip(call.epilogue.results, call.out_dtypes, strict=True)):
            own = given
            if call.reduces and call.reduces[k]:
                wide = dtype("float64" if self.problem.types.accumulator == "float64" else "float32")
                if own is not None and own != wide:
                    raise DTypeError(f"out_dtype is {own} for result {k}, which is reduced; it must be {wide}")
                own = wide
            if own is None:
                own = dtype(kind or usual) if call.outs is None or len(call.outs) <= k else call.outs[k].dtype
            row = info(own, "out")
            if not (row.name == "bool" if kind else row.is_float or row.is_scaled):
                allowed = "bool" if kind else "a float of 8 bits or more"
                raise DTypeError(f"out_dtype is {row.name}; result {k} of {call.epilogue.name} must be {allowed}")
            strides = row_major_strides(shape, row.itemsize)
            found.append(layout(shape, strides, row.numpy, call.product.a.device))
        return tuple(found)

    # ------------------------------------------------------------ choosing

    def _key(self, addresses: Sequence[int]) -> Any:
        count = len(self.product.inputs)
        ends: tuple[int, ...] = ()
        if any(self.call.reduces):  # these results are first in scratch memory
            first = len(self.inputs)
            reduced = {first + k for k, kind in enumerate(self.call.reduces) if kind}
            ends = tuple([addresses[k] % 16 for k in sorted(reduced)])
            addresses = [0 if k in reduced else address for k, address in enumerate(addresses)]
        starts = tuple([address % 16 for address in addresses])
        plain = () if self._plain is None else self._plain._key((*addresses[:count], addresses[len(self.inputs)]))
        return self.product._key((*addresses[:count], 0)), self.map._key((0, *addresses[count:])), starts, ends, plain

    def _make(self, key: Any, trial: Trial | None) -> Any:
        if self._plain is not None and (trial is None or simulated()):
            return self._by_product(self._plain, key)
        product, own = self._kernel_product(), card(self.device)
        order = None if product is None else order_of(product, key[2], self.device, own)
        if order is None or product is None:
            return self._by_library(key, trial)
        if trial is None or simulated():
            if not simulated() and library_is_faster(product, own):
                return self._by_library(key, trial, "; numbacc's kernel should be slower")
            return self._by_kernel(order, key)
        tile = self._tuned(product, key, trial)
        if tile is None:
            return self._by_library(key, trial, "; numbacc's kernel is slower, as measured")
        return self._by_kernel(order_of(product, key[2], self.device, own, tile), key)

    def _by_kernel(self, order: Any, key: Any) -> Any:
        """Return the kernel that computes everything."""
        usual = self._usual[0], self._usual[1]
        if any(self.call.reduces):
            return self._reducing(FusedKernel(order, usual, (), key[2]), key)
        return FusedKernel(order, usual, self.close, key[2])

    @cached_property
    def _plain(self) -> MatmulPlan | None:
        """Return the library's product that is the only result, or None."""
        call = self.call
        if not call.epilogue.is_identity or call.product.has_beta or any(call.reduces):
            return None
        if self.empty or self.product._zeros:
            return None
        try:
            return MatmulPlan(call.product._replace(out=self.outputs[0], out_dtype=None))
        except Error:  # a layout or dtype that the library does not support
            return None

    def _by_product(self, plain: MatmulPlan, key: Any) -> Steps:
        """Return the library's product, which is at least as fast as the kernel if the epilogue does nothing."""
        count, every = len(self.product.inputs), len(self.inputs)
        found = plain._make(key[4], None)
        step = Step(_Part(found, slice(0, 2), self._usual), (*range(count), every), takes_scalars=True)
        return Steps(
            [step], Scratch(), self.close, lambda addresses: self._key(addresses) == key, backend=found.backend,
            algorithm=found.algorithm, deterministic=found.deterministic,
        )  # fmt: skip

    def _by_library(self, key: Any, trial: Trial | None, why: str = "") -> Steps:
        """Return the library's product, followed by an elementwise kernel.

        Args:
            why: a text for `info`.
        """
        product, count, scratch = self.product, len(self.product.inputs), Scratch()
        tried = None
        if trial is not None:
            tried = Trial(trial.stream, (*trial.addresses[:count], 0), trial.scalars[:2])
        found = product._make(key[0], tried)
        every = len(self.inputs) + len(self.outputs)
        sums = every + scratch.part(product.outputs[0].nbytes)
        targets, reductions = self._reductions(self.map.outputs, scratch, key[3])
        steps = [
            Step(_Part(found, slice(0, 2), self._usual), (*range(count), sums), takes_scalars=True),
            Step(
                _Part(self.map, slice(2, None)), (sums, *range(count, len(self.inputs)), *targets), takes_scalars=True
            ),
            *reductions,
        ]
        text = "; then one elementwise kernel" + "; then reductions" * bool(reductions) + why
        return Steps(
            steps, scratch, self.close, lambda addresses: self._key(addresses) == key, backend=self.backend,
            algorithm=found.algorithm + text, deterministic=found.deterministic,
        )  # fmt: skip

    def _tuned(self, product: KernelProduct, key: Any, trial: Trial) -> Tile | None:
        """Return the tile of the fastest kernel, measured once and kept on disk; None if the library is faster."""
        own = card(self.device)
        tiles = [each for each in tiles_for(product, own) if order_of(product, key[2], self.device, own, each)]
        #: kind -> tile; no tile for the library.
        kinds = {
            (
                each.tall << 16 | each.wide,
                each.transposed << 9 | each.turns << 4 | each.cluster,
            ): each
            for each in tiles
        }
        fields = product._asdict()
        del fields["formula"]  # the epilogue's digest names it
        moved, kept = list(trial.addresses), []  # type: list[int], list[Any]

        def launch_of(algorithm: Algorithm) -> Any:
            tile = kinds.get(algorithm.kind)
            made: Any = self._by_library(key, None)
            if tile is not None:
                made = self._by_kernel(order_of(product, key[2], self.device, own, tile), key)
            for number, written in enumerate(self.outputs if not kept else (), len(self.inputs)):
                nbytes, start = padded(trial.addresses[number], written.low, written.high)
                kept.append(runtime().allocate(nbytes, self.device, trial.stream))
                moved[number] = kept[-1].address + start
            made.ready(moved)

            def launch(scratch: int) -> None:
                status = made.launch_unchecked(trial.stream, scratch, moved, trial.scalars)
                if status:
                    made.check(status)

            return partial(workspace.run, launch, made.workspace_bytes, self.device, trial.stream)

        def proposals() -> Proposals:
            found = [Algorithm(b"", 0, repr(tile), kind) for kind, tile in kinds.items()]
            return Proposals(found[0], [*found[1:], Algorithm(b"", 0, "library")])

        chosen = _choices.tune(
            (gpu_model(self.device), repr(fields), self.call.epilogue.digest, key[2], __version__), proposals,
            lambda each: each.kind == (0, 0) or each.kind in kinds, launch_of, self.device, trial.stream,
        )  # fmt: skip
        return None if chosen is None else kinds.get(chosen.kind)

    def _reducing(self, kernel: FusedKernel, key: Any) -> Steps:
        """Return the kernel, which stores parts of reduced results, followed by the reductions of these parts."""
        scratch = Scratch()
        targets, reductions = self._reductions([self._parts()] * len(self.outputs), scratch, key[3])
        steps = [Step(kernel, (*range(len(self.inputs)), *targets), takes_scalars=True), *reductions]
        text = f"{kernel.algorithm}; then reductions"
        fits = lambda addresses: self._key(addresses) == key  # noqa: E731
        return Steps(steps, scratch, self.close, fits, backend=kernel.backend, algorithm=text)

    def _parts(self) -> Layout:
        """Return the layout of the parts of a reduced result: one for every 64 columns."""
        full, _ = self._reduced
        shape = (*full.shape[:-1], -(-full.shape[-1] // COLUMNS))
        return layout(shape, row_major_strides(shape, full.itemsize), full.dtype, full.device)

    def _reductions(
        self, wholes: Sequence[Layout], scratch: Scratch, ends: Sequence[int]
    ) -> tuple[list[int], list[Step]]:
        """Return where the results are stored before the reductions, as numbers of arrays, and the reductions.

        Args:
            wholes: their layouts there.
            scratch: memory for those that are reduced.
            ends: the addresses of the results of reductions modulo 16.
        """
        first, steps = len(self.inputs), []
        every, left = first + len(self.outputs), iter(ends)
        targets = list(range(first, every))
        for k, kind in enumerate(self.call.reduces):
            if kind:
                targets[k] = every + scratch.part(wholes[k].nbytes)
                reduction = _row_reduction(kind, wholes[k], self.outputs[k], next(left))
                steps.append(Step(reduction, (targets[k], first + k)))
        return targets, steps

    def _kernel_product(self) -> KernelProduct | None:
        """Return the product for the kernel that computes everything, or None."""
        problem, call = self.problem, self.call
        compute = "fast" if problem.types.multiple > 1 else "float32"
        if isinstance(call.product.scale_c, Layout) or self.product._zeros or self.empty or problem.compute != compute:
            return None
        if call.product.a.ndim < 2 or call.product.b.ndim < 2 or not has_kernel(self.device):
            return None
        numbers = {name: number for number, name in enumerate(self.names)}
        shape = (*problem.batch, problem.m, problem.n // call.epilogue.sums)

        def seen(name: str, array: Layout, steps: Sequence[int] = ()) -> MatrixView:
            return MatrixView(numbers[name], array.dtype.name, array.itemsize, tuple(steps) or steps_of(array, shape))

        (*batch, k, n), column = problem.matrix_b.strides, (*[0] * len(problem.batch), 4, 0)
        factors = []
        for name, along in (("scale_a", column), ("scale_b", (*column[:-2], 0, 4))):
            scale = getattr(call.product, name)
            if isinstance(scale, Layout):
                factors.append(seen(name, scale, along if scale.size > 1 else [0] * len(shape)))
        c = problem.matrix_c if call.product.has_beta else None
        operands = [each for each in call.operands if each != NUMBER]
        return KernelProduct(
            shape=shape,
            k=problem.k,
            a=seen("a", problem.matrix_a, problem.matrix_a.strides),
            b=seen("b", problem.matrix_b, (*batch, n, k)),
            c=None if c is None else seen("c", c),
            factors=tuple(factors),
            operands=tuple(
                seen(self.names[number], each) for number, each in enumerate(operands, len(self.product.inputs))
            ),
            outs=self._stored(seen),
            numbers=len(call.operands) - len(operands),
            sums=call.epilogue.sums,
            formula=self.map.task.formula,
            is_heavy=call.epilogue.is_heavy,
            reduces=call.reduces,
        )

    def _stored(self, seen: Any) -> tuple[MatrixView, ...]:
        """Return the arrays that the kernel stores: the results, and parts of those that are reduced."""
        found = []
        for k, (name, each) in enumerate(zip(self.names[len(self.inputs) :], self.outputs, strict=True)):
            if any(self.call.reduces) and self.call.reduces[k]:
                parts = self._parts()
                found.append(seen(name, parts, parts.strides))
            else:
                found.append(seen(name, each))
        return tuple(found)

    # ------------------------------------------------------------ overlap, results, NumPy

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        count = len(self.product.inputs)
        if i >= len(self.inputs):
            return False
        if any(self.call.reduces) and self.call.reduces[j - len(self.inputs)]:
            return False
        if i < count:
            is_c = self.names[i] == "c" and source == target
            return is_c and same_layout(self.inputs[i], self.outputs[j - len(self.inputs)])
        return self.map._may_share(1 + i - count, j - count + 1, source, target)

    def _shares(self, i: int, j: int) -> str:
        return (
            f"{self.names[j]} shares memory with {self.names[i]}: pass a separate array; only c and an operand of the "
            "same shape may be out itself (in place)"
        )

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        alpha, beta, scales, *numbers = scalars
        count = len(self.product.inputs)
        found = self.product._host(dict(zip(self.product.names, inputs, strict=False)), alpha, beta, scales)
        reduces = self.call.reduces or ("",) * len(outs)
        given = [None if kind else out for kind, out in zip(reduces, outs, strict=True)]
        results = list(self.map._compute([found[0], *inputs[count:]], given, numbers))
        for k, kind in enumerate(reduces):
            if kind:
                total = REDUCTIONS[kind](results[k], axis=-1, keepdims=True)
                results[k] = total if outs[k] is None else outs[k]
                if outs[k] is not None:
                    outs[k][...] = total
        return results

    # ------------------------------------------------------------ running it

    def prepare_for(self, given: Mapping[str, Any]) -> None:
        """Choose and load everything that a run on these arrays needs, so that the run only launches."""
        arrays = [given.get(name) for name in self.names]
        self.prepare([None if isinstance(each, float) else each for each in arrays])

    def run_on(self, given: Mapping[str, Any], alpha: float, beta: float, stream: int) -> Any:
        """Run the plan on arrays, and on scales and operands that are numbers, given by name."""
        plan = self
        scales = {name: given[name] for name in self._numbers} if self._numbers else {}
        numbers = given["numbers"]
        if self.device < 0:
            scalars: Any = (alpha, beta, scales, *numbers)
        else:
            if scales:
                alpha *= scales.get("scale_a", 1.0) * scales.get("scale_b", 1.0)
                beta *= scales.get("scale_c", 1.0)
            kind = self.product._scale
            # As in a product without an epilogue, an alpha that rounds to 0 counts as 0.
            if not bits(abs(alpha), kind) and not self.empty:
                plan, alpha = self._without_product, 1.0
            scalars = bits(alpha, kind), bits(beta, kind)
            for each in numbers:
                scalars += words(each, self.map.math_dtype)
        first = len(plan.inputs)
        inputs, outs = [given[name] for name in plan.names[:first]], [given.get(name) for name in plan.names[first:]]
        return plan.run(inputs, outs, None, stream, scalars)

    @cached_property
    def _without_product(self) -> EpiloguePlan:
        return EpiloguePlan(self.call, without_product=True)

    def __call__(  # type: ignore[override]
        self, a: Any, b: Any, *, operands: Sequence[Any] = (), c: Any = None, alpha: float = 1.0, beta: float = 0.0,
        scale_a: Any = None, scale_b: Any = None, scale_c: Any = None, out: Any = None, stream: Any = None,
    ) -> Result:  # fmt: skip
        """Run on arrays with the layouts that the plan was made for. Arguments and result are the same as for `matmul`.

        Raises:
            LayoutError: an array has another layout, is missing, or the plan was made without it. OptionError: the plan
                was made for beta = 0 and beta is not 0, or the other way round.
        """
        handle, wanted = handle_of(stream), self.call.product
        given = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b, "scale_c": scale_c}
        found, layouts = parsed(given, handle)
        others, own = operands_of(operands, handle)
        outs = None if out is None else outs_of(out, handle)
        layouts |= {f"operands[{k}]": each for k, each in enumerate(own)}
        needs = {name: getattr(wanted, name) for name in given}
        needs |= {f"operands[{k}]": each for k, each in enumerate(self.call.operands)}
        layouts["out"], needs["out"] = (None if outs is None else tuple(map(arrays_of.layout_of, outs))), self.call.outs
        if layouts != needs:
            name = next(each for each in {**layouts, **needs} if layouts.get(each) != needs.get(each))
            raise LayoutError(
                f"this plan was made for {name} = {needs.get(name)}; it was called with {layouts.get(name)}. Make a "
                "new plan for these arrays, or call matmul, which makes one"
            )
        types = self.problem.types
        alpha, beta = (checked_number(each, name, types) for each, name in ((alpha, "alpha"), (beta, "beta")))
        if (beta != 0) != wanted.has_beta:
            raise OptionError(f"beta={beta}, but this plan was made for beta {'!=' if beta == 0 else '=='} 0")
        found |= others | dict(zip(self.names[len(self.inputs) :], outs or (), strict=False))
        result: Result = self.run_on(found, alpha, beta, handle)
        return result if out is None else out


#: True lets the simulator run the kernel, too. That takes seconds for a tile.
simulates_kernel = False


def has_kernel(device: int) -> bool:
    """Return whether numbacc's kernel runs on a device: it needs Hopper's tensor cores and copy engine."""
    return (simulates_kernel or not simulated()) and runtime().capability(device) == (9, 0)


def card(device: int) -> Card:
    """Return the model of a GPU."""
    if simulated():
        return Card(2)
    count = int(launcher_class().limits(device).multiprocessors)
    return Card(count, "H200" if "H200" in runtime().device_name(device) else "H100")


class FusedKernel:
    """The executable of the kernel that computes the product and its epilogue.

    Args:
        order: its launch.
        usual: alpha and beta as words, for calls without scalars.
        close: as in `Operation.close`.
        starts: the arrays' addresses modulo 16.
    """

    library_bytes = workspace_bytes = 0
    deterministic = True

    def __init__(self, order: Any, usual: tuple[int, int], close: Sequence[tuple[int, ...]], starts: Sequence[int]):
        self._launcher = tensor_launcher_class()(order)
        self._usual, self._skips_beta = usual, not order.kernel.has_c
        self._close, self._starts, self._device = tuple(close), list(starts), order.device
        self.backend, self.direct = self._launcher.backend, not simulated()
        tall, wide = order.kernel.tile
        how = ", alternating warpgroups" * (order.kernel.turns > 1) + ", transposed" * order.kernel.transposed
        self.algorithm = f"wgmma, tiles of {tall} x {wide}{how}, {order.kernel.stages} stages, {order.described}"
        self.ready, self.check = self._launcher.ready, self._launcher.check

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the kernel after quick checks; see `Executable.launch`."""
        for i, j, near, far in self._close:
            if near < addresses[j] - addresses[i] < far:
                return MAY_OVERLAP
        if [address % 16 for address in addresses] != self._starts:
            return WRONG_ALIGNMENT
        if not contexts.is_current(self._device):
            return WRONG_CONTEXT
        if runtime().is_capturing(stream):
            return CAPTURING
        return self.launch_unchecked(stream, scratch, addresses, scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the kernel; see `Executable.launch_unchecked`."""
        alpha, beta, *numbers = scalars or self._usual
        own = (alpha, *numbers) if self._skips_beta else (alpha, beta, *numbers)
        return self._launcher.launch_unchecked(stream, scratch, addresses, own)


def _row_reduction(kind: str, whole: Layout, out: Layout, end: int) -> Any:
    """Return the executable of a reduction of rows, whose result is at an address that is `end` modulo 16."""
    task = ReduceTask(
        op=f"gemm.epilogue.{kind}",
        formula=REDUCTION_FORMULAS[kind],
        reference=REDUCTIONS[kind],
        names=("x", "out"),
        inputs=(whole,),
        outputs=(out,),
        shape=whole.shape,
        axes=(whole.ndim - 1,),
        reads=(view(0, 0, whole.strides, whole.shape),),
        writes=(view(0, 0, out.strides[:-1], out.shape[:-1]),),
        out_given=True,
        compute=whole.dtype.name,
    )
    reduction = ReduceExecutable(task)
    return reduction._make(reduction._key((0, end)), None)


class _Part:
    """An executable that gets a part of the scalars of the whole call.

    Args:
        inner: the executable.
        part: the part.
        usual: scalars that need not be passed, since they are the defaults.
    """

    library_bytes = 0

    def __init__(self, inner: Any, part: slice, usual: tuple[int, ...] = ()):
        self._inner, self._part, self._usual = inner, part, usual
        self.workspace_bytes, self.direct = inner.workspace_bytes, inner.direct
        self.ready, self.check = inner.ready, inner.check

    def _own(self, scalars: Sequence[int]) -> Sequence[int]:
        own = tuple(scalars[self._part])
        return () if own == self._usual else own

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the inner executable; see `Executable.launch`."""
        return self._inner.launch(stream, scratch, addresses, self._own(scalars))

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the inner executable; see `Executable.launch_unchecked`."""
        return self._inner.launch_unchecked(stream, scratch, addresses, self._own(scalars))


def epilogue_task(
    epilogue: PythonEpilogue,
    sums: Layout | None,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    made: tuple[Layout, ...],
    outs: tuple[Layout, ...] | None,
    compute: str,
) -> MapTask:
    """Return the task of an elementwise kernel that computes an epilogue, after checks of operands and results.

    Args:
        epilogue: the function.
        sums: the layout of the sums, with the columns of both halves if the epilogue takes two; None if it takes none.
        operands: the layouts of the operands, or `NUMBER`.
        shape: the shape of the results.
        made: the layouts of new results.
        outs: the layouts of the arrays for the results, if given.
        compute: the name of the dtype of the arithmetic.
    """
    like = made[0] if sums is None else sums
    names, inputs = ["sum"] * (sums is not None), [] if sums is None else [sums]
    first = [view(0, half * shape[-1] * like.itemsize, like.strides, shape) for half in range(epilogue.sums)]
    for k, each in enumerate(operands):
        if each != NUMBER:
            names.append(f"operands[{k}]")
            inputs.append(_operand(each, names[-1], shape, like))
    start = 0 if sums is None else 1
    reads = [view(k, 0, _broadcast(each, shape), shape) for k, each in enumerate(inputs[start:], start)]
    out_names = ("out",) if len(made) == 1 else tuple(f"out[{k}]" for k in range(len(made)))
    if outs is not None:
        check_out(outs, made, out_names)
    outputs = made if outs is None else outs
    for each, name in zip(outputs, out_names, strict=True):
        check_writable(each, name)
    formula = epilogue.formula(tuple(each != NUMBER for each in operands))
    return MapTask(
        op=f"gemm.epilogue.{epilogue.name}",
        formula=formula,
        reference=_reference(formula.reference, compute),
        names=(*names, *out_names),
        inputs=tuple(inputs),
        outputs=outputs,
        shape=shape,
        reads=(*first, *reads),
        writes=tuple(view(k, 0, each.strides, shape) for k, each in enumerate(outputs)),
        out_given=outs is not None,
        compute=compute,
        scalars=(compute,) * sum(each == NUMBER for each in operands),
    )


def _reference(function: Any, compute: str) -> Any:
    """Return the NumPy version of an epilogue: its operands are first converted to the compute dtype."""
    wide = dtype(compute)

    def reference(*operands: Any) -> Any:
        return function(*[cast(each, wide) if isinstance(each, np.ndarray) else each for each in operands])

    return reference


def _operand(given: Layout, name: str, shape: tuple[int, ...], sums: Layout) -> Layout:
    """Return the layout of an operand after its checks. Truth values are read as 0 and 1."""
    check_same_device(given, name, sums, "a")
    row = info(given.dtype, name)
    if row.parts == 2:
        raise DTypeError(f"{name} has dtype {row.name}; operands must be real numbers")
    try:
        fits = np.broadcast_shapes(given.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{name} has shape {given.shape}, which does not broadcast to the result's shape {shape}")
    if row.name == "bool":
        return layout(given.shape, given.strides, np.dtype(np.uint8), given.device)
    return given


def _broadcast(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    own = (0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True))
    return (*(0,) * (len(shape) - array.ndim), *own)


# ---------------------------------------------------------------- calls


def operands_of(given: Any, handle: int) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return (the operands by name, their layouts). Those that are numbers are in one list, "numbers"."""
    if not isinstance(given, (tuple, list)):
        raise OptionError(f"operands={shown(given)} is a {type(given).__name__}; pass a tuple of arrays and numbers")
    found: dict[str, Any] = {"numbers": []}
    layouts: list[Any] = []
    for k, each in enumerate(given):
        if isinstance(each, (int, float, np.number)) and not isinstance(each, np.ndarray):
            found["numbers"].append(checked_number(each, f"operands[{k}]"))
            layouts.append(NUMBER)
        else:
            array = found[f"operands[{k}]"] = arrays_of.as_array(each, f"operands[{k}]", handle)
            layouts.append(arrays_of.layout_of(array))
    return found, tuple(layouts)


def outs_of(out: Any, handle: int) -> list[Any]:
    """Return the arrays for the results."""
    several = out if isinstance(out, (tuple, list)) else (out,)
    names = ["out"] if len(several) == 1 else [f"out[{k}]" for k in range(len(several))]
    return [arrays_of.as_array(each, name, handle) for each, name in zip(several, names, strict=True)]


def find(
    plans: Any, given: Mapping[str, Any], epilogue: Any, operands: Any, options: tuple[Any, ...], out: Any, handle: int
) -> tuple[EpiloguePlan, dict[str, Any]]:
    """Return the plan of a call and its arrays by name.

    Args:
        plans: the cache of plans.
        given: all other arguments of `matmul` that are arrays or scales, by name.
        epilogue, operands, out: as in `matmul`.
        options: out_dtype, compute, whether beta is not 0, workspace_limit, tune, reduce.
        handle: the stream.
    """
    key = _quick_key(given, epilogue, operands, options, out)
    quick = None if key is None else quick_products.get(key)
    if quick is not None and not quick[1].changed():
        plan, _, names = quick
        plans.hits = plan.used = plans.hits + 1
        arrays = [each for each in operands or () if type(each) is not float]
        found = dict(zip(names, (*arrays, *(out if type(out) is tuple else (out,))), strict=False))
        found |= {"a": given["a"], "b": given["b"], "c": given["c"]}
        found["numbers"] = [each for each in operands or () if type(each) is float]
        return plan, found
    made = python_epilogue(epilogue)
    for name, instead in _INSTEAD.items():
        if given.get(name) is not None:
            raise OptionError(f"{name} does not go with a Python function as epilogue: {instead}")
    found, layouts = parsed({name: each for name, each in given.items() if name not in _INSTEAD}, handle)
    others, own = operands_of(() if operands is None else operands, handle)
    if len(own) != made.count:
        raise OptionError(f"the epilogue {made.name} takes {made.count} operands after the sum; got {len(own)}")
    outs = None if out is None else outs_of(out, handle)
    out_dtype, compute, has_beta, limit, tune, reduce = options
    reduces = reductions_of(reduce, made)
    several = out_dtype if isinstance(out_dtype, (tuple, list)) else (out_dtype,) * len(made.results)
    if len(several) != len(made.results):
        raise OptionError(f"out_dtype has {len(several)} entries; {made.name} has {len(made.results)} results")
    # One dtype for all results does not count for those that are bool or reduced.
    exempt = [kind or bool(reduces and reduces[k]) for k, kind in enumerate(made.results)]
    several = [None if kind and each is out_dtype else each for kind, each in zip(exempt, several, strict=True)]
    wanted = tuple(None if each is None else dtype(each, "out_dtype") for each in several)
    types = TYPES.get(info(layouts["a"].dtype, "a").name)
    sums = None if types is None else types.accumulator
    product = GemmCall(
        layouts["a"], layouts["b"], layouts["c"], None, None, None, layouts["scale_a"], layouts["scale_b"],
        layouts["scale_c"], None, None, "none", sums, compute, has_beta, limit, tune,
    )  # fmt: skip
    own_outs = None if outs is None else tuple(map(arrays_of.layout_of, outs))
    plan = plans.find(("python", EpilogueCall(product, made, own, own_outs, wanted, reduces)))
    found |= others
    found |= dict(zip(plan.names[len(plan.inputs) :], outs or (), strict=False))
    if key is not None:
        if len(quick_products) >= _MOST_QUICK:
            quick_products.clear()
        names = [f"operands[{k}]" for k, each in enumerate(own) if each != NUMBER]
        quick_products[key] = plan, outside_of(epilogue), [*names, *plan.names[len(plan.inputs) :]]
    return plan, found


def reductions_of(given: Any, epilogue: PythonEpilogue) -> tuple[str, ...]:
    """Return the argument `reduce` in a unique form: a reduction or "" for each result, () for none.

    Raises:
        OptionError: an entry is unknown, or there are too many or too few.
    """
    if given is None:
        return ()
    count = len(epilogue.results)
    several = given if isinstance(given, (tuple, list)) else (given,)
    if len(several) != count:
        raise OptionError(f"reduce has {len(several)} entries; {epilogue.name} has {count} results")
    for each, kind in zip(several, epilogue.results, strict=True):
        if each is not None and (not isinstance(each, str) or each not in REDUCTIONS):
            raise unknown("reduce", each, tuple(REDUCTIONS), f"it is None or {', '.join(REDUCTIONS)}")
        if each is not None and kind:
            raise OptionError(f'reduce="{each}" of a result of {epilogue.name} that is bool: return a number instead')
    return tuple(each or "" for each in several) if any(several) else ()


#: The most entries of `quick_products`.
_MOST_QUICK = 1024


def _quick_key(
    given: Mapping[str, Any], epilogue: Any, operands: Any, options: tuple[Any, ...], out: Any
) -> tuple[Any, ...] | None:
    """Return a key for calls with device arrays, floats and the usual options; None for other calls."""
    out_dtype, _, _, limit, tune, reduce = options
    if type(epilogue) is not FunctionType or limit is not None or tune is not False or _has_others(*_others(given)):
        return None
    if type(out_dtype) is list or type(reduce) is list:
        return None
    try:
        c = given["c"]
        return (
            epilogue,
            *options,
            given["a"]._numbacc_layout,
            given["b"]._numbacc_layout,
            None if c is None else c._numbacc_layout,
            out
            if out is None
            else tuple([each._numbacc_layout for each in out])
            if type(out) is tuple
            else out._numbacc_layout,
            *[float if type(each) is float else each._numbacc_layout for each in operands or ()],
        )
    except Exception:  # attributes of foreign arrays may raise anything
        return None


_others = itemgetter("bias", "aux", "scale_a", "scale_b", "scale_c", "scale_d", "amax_d")


def _has_others(bias: Any, aux: Any, a: Any, b: Any, c: Any, d: Any, amax: Any) -> bool:
    return not (bias is aux is a is b is c is d is amax is None)
