"""The plan of a matrix product: which of the library's algorithms, and what our own kernels add to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from ..arrays import creation, operands
from ..base.backend import backend, matmul_library
from ..base.codes import ALIGNED, ARRAYS
from ..base.layout import CPU, Layout, read_only, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..device import workspace
from ..device.copying import copy
from ..device.streams import handle_of
from ..errors import LayoutError, OptionError, UnsupportedError
from ..libraries.products import bits
from ..plan.base import PlanInfo
from .aliasing import check_overlap, layouts_of, written_by
from .alignment import check_layouts, loose_scales, with_copies
from .arguments import array_or_number, checked_number
from .compose import steps_of
from .epilogue import Epilogue
from .hardware import check_hardware
from .host import run_numpy
from .lowering import BIAS, OUT, C, Lowered, c_fits
from .problem import NUMBER, Call, resolve
from .results import WithAux, WithBiasGrad, as_given
from .selection import Selector, copies_start, scratch_bytes

#: No scales, and no amax_d.
NO_SCALES: tuple[Any, ...] = (None,) * 5
_NOWHERE: tuple[int, ...] = (0,) * 5


class MatmulPlan(NotCopied):
    """A planned product. `matmul_plan` makes one; call it with arrays laid out as those it was made for."""

    _instead = PLAN_INSTEAD

    def __init__(self, call: Call):
        problem = self.problem = resolve(call)
        self._device = call.a.device
        self._scale = {"int32": "int32", "float64": "float64"}.get(problem.types.accumulator, "float32")
        self._empty = not problem.matrix_out.size
        self._copies_c = call.has_beta and not c_fits(problem)
        # Where no C is read, the library is given D in its place; a float8 D cannot be C.
        self._no_c = problem.out.itemsize == 1
        self._selector = Selector(problem, self._copies_c)
        self._layouts, self._written = layouts_of(problem), written_by(problem)
        self._answer = WithAux if problem.epilogue.produces_aux else WithBiasGrad
        if self._copies_c and self._no_c:
            raise LayoutError("c must be stored as out is, row by row or column by column, where out is float8")
        if self._device != CPU:
            check_hardware(problem)
            check_layouts(problem)

    # ------------------------------------------------------------ what it decided

    @property
    def info(self) -> PlanInfo:
        """What the plan decided; on a GPU for arrays that start at multiples of 256 bytes, unless it has been run."""
        problem = self.problem
        name, algorithm, scratch, deterministic = "numpy", "reference", 0, True
        if self._device == CPU:
            pass
        elif self._empty:
            name, algorithm = "cublasLt", "no launch: the result is empty"
        elif not problem.k:
            name, algorithm = "cublasLt", "zeros in the place of a and b"
        else:
            selected = self._selector.last or self._selector.prepare((0,) * ARRAYS)
            name = selected.runner.backend + "+kernel" * bool(selected.steps)
            algorithm, scratch = selected.text, selected.scratch_bytes
            deterministic = selected.runner.algorithm.deterministic
        used = [array for array in (*self._layouts[:3], problem.out, *self._layouts[4:]) if array is not None]
        return PlanInfo(
            op=f"gemm.matmul.{problem.epilogue.value}",
            dtypes=tuple(array.dtype.name for array in used),
            backend=name,
            algorithm=algorithm,
            workspace_bytes=scratch,
            math_dtype=problem.compute,
            accumulator_dtype=problem.types.accumulator,
            deterministic=deterministic,
        )

    def prepare_for(self, arrays: Sequence[Any], scales: Sequence[Any] = NO_SCALES) -> None:
        """Choose and load what a run on these arrays needs, so that the run only launches."""
        if self._device != CPU and not self._empty and self.problem.k:
            a, b, c, out, bias, aux = arrays
            in_place = out if c is None or self._copies_c else c
            used = (a, b, None if self._no_c else in_place, out, bias, aux)
            addresses = [0 if array is None else array._address for array in used]
            # What is not there yet will start at a multiple of 256 bytes.
            places = [SimpleNamespace(_address=address) for address in addresses]
            # Scales that are numbers are put where the library wants them.
            selected = self._selector.prepare(addresses, None, [getattr(each, "_address", 0) for each in scales])
            for step in selected.steps:
                step.plan.prepare([places[k] for k in step.reads], [places[k] for k in step.writes])
            for each in selected.lowered.copies:
                if each.executable is not None:
                    each.executable.ready([addresses[each.number]])

    # ------------------------------------------------------------ running it

    def __call__(
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
    ) -> Any:
        """Run on arrays laid out as those that the plan was made for. Arguments and result are those of `matmul`.

        Raises:
            LayoutError: an array is laid out otherwise, missing, or one too many. OptionError: beta is 0 where it was
            not, or the other way round.
        """
        handle = handle_of(stream)
        given = dict(zip(("a", "b", *Call._fields[2:11]), (a, b, c, bias, aux, out, *NO_SCALES), strict=True))
        given |= dict(zip(Call._fields[6:11], (scale_a, scale_b, scale_c, scale_d, amax_d), strict=True))
        found = {}
        for name, value in given.items():
            found[name] = array = array_or_number(value, name, handle)
            one = NUMBER if isinstance(array, float) else None if array is None else operands.layout_of(array)
            wanted = getattr(self.problem.call, name)
            if one != wanted and not (
                isinstance(one, Layout) and isinstance(wanted, Layout) and same_layout(one, wanted)
            ):
                raise LayoutError(
                    f"this plan was made for {name} = {wanted}; it was called with {one}. Make a plan for these "
                    "arrays, or call matmul, which does"
                )
        alpha, beta = (
            checked_number(each, name, self.problem.types) for each, name in ((alpha, "alpha"), (beta, "beta"))
        )
        if (beta != 0) != self.problem.call.has_beta:
            raise OptionError(f"beta={beta}, but this plan was made for beta {'!=' if beta == 0 else '=='} 0")
        scales = [found[name] for name in Call._fields[6:11]]
        arrays = [found[name] for name in ("a", "b", "c", "out", "bias", "aux")]
        none = all(scale is None for scale in scales)
        return as_given(self.run(arrays, NO_SCALES if none else scales, alpha, beta, handle), out, aux)

    def run(
        self,
        arrays: Sequence[Any],
        scales: Sequence[Any] = NO_SCALES,
        alpha: float = 1.0,
        beta: float = 0.0,
        stream: int = 0,
    ) -> Any:
        """Run without checking layouts: the arrays are those that the plan was found by.

        Args:
            arrays: a, b, c, out, bias, aux; None for those that are not there.
            scales: of a, b, c, d, and amax_d: numbers, arrays or None.
            alpha, beta, stream: as in `matmul`, the stream as a handle.
        """
        if self._device == CPU:
            return run_numpy(self.problem, arrays, scales, alpha, beta)
        problem = self.problem
        if scales is not NO_SCALES:
            alpha, beta, scales = self._fold(scales, alpha, beta, stream)
        # What is 0 in the scale type counts as 0.
        if not (problem.k and bits(abs(alpha), self._scale)) and not self._empty:
            return self._run_without_product(arrays, scales, beta, stream)
        a, b, c, out, bias, aux = arrays
        if not problem.call.has_beta:
            c = None
        if out is None:
            out = operands.empty_device(problem.out, stream)
        elif out._readonly:
            raise read_only("out")
        answer = out
        if problem.second is not None:
            second = self._second(stream)
            answer = self._answer(out, second)
            if problem.epilogue.produces_aux:
                aux = second
            else:
                bias = second
        elif problem.epilogue.produces_aux:
            if aux._readonly:
                raise read_only("aux")
            answer = self._answer(out, aux)
        used = (a, b, c, out, bias, aux)
        if self._empty:
            self._sum_of_empty(used, stream)
            if scales[4] is not None:
                scales[4]._fill(0, stream)
            return answer
        places, loose = _NOWHERE, False
        if scales is not NO_SCALES:
            places = tuple([0 if scale is None else scale._address for scale in scales])
            loose = bool(loose_scales(places))
        numbers = (bits(alpha, self._scale), bits(beta, self._scale))
        last = self._selector.last
        for array in used if scales is NO_SCALES else (*used, *scales):
            if array is not None and array._storage.sole != stream:
                last = None
        address = out._address
        addresses = (
            a._address,
            b._address,
            (0 if self._no_c else address) if c is None else c._address,
            address,
            0 if bias is None else bias._address,
            0 if aux is None else aux._address,
        )
        if last is not None and last.direct and not loose:
            runner, block = last.runner, None
            if runner.workspace_bytes:
                # The local name keeps the block until the product is queued.
                block = workspace.held(runner.workspace_bytes, self._device, stream)
            if block is not None or not runner.workspace_bytes:
                scratch = 0 if block is None else block.address
                if not runner.launch(stream, scratch, *numbers, *addresses, *places):
                    self._note_moved((*used, *scales), (*used[OUT:], scales[4]), stream)
                    return answer
        written = [used[k] for k in self._written]
        with backend().using(stream, self._device, (*used, *scales[:4]), (*written, scales[4])) as capture:
            self._launch(used, addresses, places, numbers, stream, capture)
        return answer

    def run_plain(self, a: Any, b: Any, out: Any, bias: Any, aux: Any, stream: int) -> Any:
        """`run` with alpha 1, beta 0 and no scales, by the shortest way where there is one.

        A tenth of a microsecond counts here: a small product takes the library six from the host.
        """
        last = self._selector.last if self._device != CPU else None
        if (
            last is not None
            and last.plain
            and out is not None
            and not out._readonly
            and a._storage.sole == b._storage.sole == out._storage.sole == stream
            and (bias is None or bias._storage.sole == stream)
            and (aux is None or aux._storage.sole == stream)
        ):
            second = 0 if bias is None else bias._address, 0 if aux is None else aux._address
            if not last.runner.launch_plain(stream, a._address, b._address, out._address, *second):
                self._note_moved((a, b, out, bias, aux), (out, bias, aux), stream)
                return out
        return self.run((a, b, None, out, bias, aux), NO_SCALES, 1.0, 0.0, stream)

    def _note_moved(self, used: Sequence[Any], writes: Sequence[Any], stream: int) -> None:
        """Note what was queued by the short way on arrays that another thread has begun to use elsewhere meanwhile."""
        for array in used:
            if array is not None and array._storage.sole != stream:
                backend().note(stream, self._device, used, writes)
                return

    def _second(self, stream: int) -> Any:
        """Memory for aux or bias_grad."""
        made, storage = self.problem.second, self.problem.second_storage
        assert storage is not None
        whole = operands.empty_device(storage, stream)
        # The rows of aux may be shorter than the memory they are given.
        return whole if made is storage else type(whole)(made, whole._address, whole._storage)

    def _fold(
        self, scales: Sequence[Any], alpha: float, beta: float, stream: int
    ) -> tuple[float, float, Sequence[Any]]:
        """Scales that are numbers, put into alpha and beta, or in memory where the library wants them."""
        a, b, c, d, amax = scales
        if amax is not None and amax._readonly:
            raise read_only("amax_d")
        if isinstance(a, float):
            alpha, a = alpha * a, None
        if isinstance(b, float):
            alpha, b = alpha * b, None
        if isinstance(c, float):
            beta, c = beta * c, None
        if isinstance(d, float):
            d = creation.full((1,), d, device=self._device, stream=stream)
        return alpha, beta, (a, b, c, d, amax)

    def _launch(
        self,
        used: Sequence[Any],
        addresses: Sequence[int],
        places: Sequence[int],
        numbers: tuple[int, int],
        stream: int,
        capture: Any,
    ) -> None:
        """Run whatever the arrays' alignment and overlap may be, inside `using`, which gave `capture`."""
        check_overlap(self.problem, addresses)
        if self._copies_c:
            addresses = (*addresses[:C], addresses[OUT], *addresses[C + 1 :])
        trial = None
        if self.problem.call.tune and capture is None:
            trial = stream, self._trial(stream, addresses, places, numbers)
        selected = self._selector.prepare(addresses, trial, places)
        if capture is not None:
            capture.keep(selected.runner)
        if self._copies_c:
            copy(used[C], used[OUT], stream)
        self._launch_product(selected.runner, selected.lowered, addresses, places, numbers, stream)
        for step in selected.steps:
            step.plan.run([used[k] for k in step.reads], [used[k] for k in step.writes], used[OUT], stream)

    def _launch_product(
        self,
        runner: Any,
        lowered: Lowered,
        addresses: Sequence[int],
        places: Sequence[int],
        numbers: tuple[int, int],
        stream: int,
    ) -> None:
        def launch(scratch: int) -> None:
            def queue(arrays: Sequence[int]) -> None:
                for offsets in lowered.offsets:
                    moved = [start + offset for start, offset in zip(arrays, offsets, strict=False)]
                    matmul_library().check(runner.launch_unchecked(stream, scratch, *numbers, *moved, *arrays[ARRAYS:]))

            start = scratch + copies_start(runner)
            with_copies(lowered.copies, start, (*addresses, *places), self._device, stream, queue)

        workspace.run(launch, scratch_bytes(runner, lowered), self._device, stream)

    def _trial(
        self, stream: int, addresses: Sequence[int], places: Sequence[int], numbers: tuple[int, int]
    ) -> Callable[[Lowered, Any], Callable[[], None]]:
        """What gives a function that queues a product by a runner, with scratch memory in the place of its results."""
        kept: list[Any] = []
        moved = list(addresses)

        def prepared(lowered: Lowered, runner: Any) -> Callable[[], None]:
            for k in self._written if not kept else ():
                written = self._layouts[k]
                assert written is not None
                # The padding at the end of aux's last row counts, too.
                below = -(written.low // ALIGNED) * ALIGNED
                kept.append(backend().allocate(below + written.high + 5 * ALIGNED, self._device, stream))
                # As far from a multiple of ALIGNED as the memory it stands for.
                moved[k] = kept[-1].address + below + addresses[k] % ALIGNED
            return partial(self._launch_product, runner, lowered, moved, places, numbers, stream)

        return prepared

    def _run_without_product(self, arrays: Sequence[Any], scales: Sequence[Any], beta: float, stream: int) -> Any:
        """alpha is 0, or nothing is added up: the product of zeros, with the smallest k that the library takes.

        For alpha 0 some of cuBLASLt's kernels leave `out` as it was, though there is a C, or a bias.
        """
        problem = self.problem
        a, b = problem.call.a, problem.call.b
        k = problem.types.multiple
        zeros = partial(creation.zeros, device=self._device, stream=stream)
        left = zeros((*a.shape[:-1], k), a.dtype)
        right = zeros((*b.shape[:-2], problem.n, k) if b.ndim > 1 else (k,), b.dtype)
        if b.ndim > 1:
            right = right.transpose((*range(b.ndim - 2), b.ndim - 1, b.ndim - 2))
        plan = MatmulPlan(problem.call._replace(a=left._numbacc_layout, b=right._numbacc_layout))
        answer = plan.run((left, right, *arrays[2:]), scales, 1.0, beta, stream)
        if problem.k and problem.epilogue in (Epilogue.BGRADA, Epilogue.BGRADB):
            (step,) = steps_of(problem, Epilogue.NONE)  # alpha is no factor of these sums
            step.plan.run([arrays[step.reads[0]]], [answer.bias_grad], None, stream)
        return answer

    def _sum_of_empty(self, used: Sequence[Any], stream: int) -> None:
        """The sum that bias_grad is where `out` has no elements: over none it is 0.

        Raises:
            UnsupportedError: it is one of float8 numbers.
        """
        if not self.problem.epilogue.produces_bias_grad:
            return  # the other steps work on no elements
        if self.problem.call.a.dtype.name.startswith("float8"):
            raise UnsupportedError("bias_grad of an empty product of float8 has no kernel")
        for step in steps_of(self.problem, Epilogue.NONE):
            if BIAS in step.writes and used[BIAS].size:
                used[BIAS]._fill(0, stream)
                if used[step.reads[0]].size:
                    step.plan.run([used[step.reads[0]]], [used[BIAS]], used[BIAS], stream)
