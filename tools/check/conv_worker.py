"""The process that runs engines of convolutions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from numbacc import conv
from numbacc.base.layout import Layout
from numbacc.conv.lowering import Way, lower, lower_other, others, ways
from numbacc.conv.plans import ConvPlan
from numbacc.conv.problem import ConvProblem, resolve
from numbacc.conv.requests import Request
from numbacc.errors import UnsupportedError
from numbacc.libraries import cudnn as library
from numbacc.libraries import cudnn_plans
from numbacc.libraries.cudnn_descriptors import Site, describe
from numbacc.libraries.cudnn_search import algorithms
from numbacc.reference import conv as reference
from numbacc.runtime import device as runtime
from numbacc.runtime import workspace
from numbacc_bindings.cudnn import CudnnError, NumericalNote, cudnn
from numbacc_bindings.errors import LibraryError

from .conv_cases import MEMORY_LAYOUTS, Case, activation_cases, cases, nan_cases, overflow_cases
from .engines import engines, serve
from .poisoned import PoisonedArray, poison, with_layout

#: Bits of the significand that float32 keeps on tensor cores.
_TF32_BITS = 11
#: How many settings of an engine's knobs are tried.
_KNOBS = 3
#: The largest finite float16, and a bound beyond which a result must be infinite whatever the order of summation.
_LARGEST, _SURELY = 65504.0, 65536 * 1.01
#: What stands for the engine of what a call runs.
_CALL = "numbacc"
#: What float32 may be computed with beside itself, with what the engines that do it say of themselves.
_COMPUTE = {"tf32": NumericalNote.TENSOR_CORE, "float32_fft": NumericalNote.FFT}


class Arrays(NamedTuple):
    """A case's problem with its arrays.

    Attributes:
        problem: what is computed.
        host: the inputs, in NumPy.
        device: the same on the GPU, each where it lies.
        before: what the result is added to.
        wanted: for a way without the bias, and one with it where there is one, the result in float64, without an
            activation.
        scale: likewise the sum of the magnitudes.
        values: as in `Case`.
        offsets: for each input, then the result, the elements between a multiple of 16 bytes and its start.
    """

    problem: ConvProblem
    host: list[Any]
    device: list[PoisonedArray]
    before: Any
    wanted: dict[bool, Any]
    scale: dict[bool, Any]
    values: str = ""
    offsets: tuple[int, ...] = ()


def _arranged(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1]) if layout.endswith("C") else tuple(shape)


def request_of(case: Case) -> Request:
    """A case as numbacc is asked for it."""
    last = case.options["layout"]
    behind: dict[str, Any] = {
        "bias": bool(case.epilogue) and not case.alone,
        "activation": case.epilogue if case.epilogue not in ("", "bias") else None,
        "out_dtype": case.out or None,
    }
    asked: Request = getattr(conv, case.direction).request(
        _arranged(case.x, last),
        _arranged(case.w, last),
        dtype="float32" if case.dtype in _COMPUTE else case.dtype,
        **case.options,
        **(behind if case.direction == "forward" else {}),
        compute=case.dtype if case.dtype in _COMPUTE else None,
    )
    if not case.memory_layout:
        return asked
    problem, memory = asked.problem, MEMORY_LAYOUTS[case.memory_layout]
    operands = zip((*problem.inputs, problem.out), _is_meant(case, problem), strict=True)
    a, b, *_, out = (
        with_layout(each, last, memory) if is_meant and each.ndim > 1 else each for each, is_meant in operands
    )
    return Request(resolve(problem.call._replace(a=a, b=b, out=out)))


def _is_meant(case: Case, problem: ConvProblem) -> list[bool]:
    """Return for each operand, inputs first, whether the case's memory layout is for it."""
    which = MEMORY_LAYOUTS[case.memory_layout].which
    kinds = ["kernels" if number == problem.kernels else "images" for number in range(len(problem.inputs) + 1)]
    return [which in ("all", kind) for kind in kinds]


def _offsets(case: Case, problem: ConvProblem) -> tuple[int, ...]:
    """Return `Arrays.offsets` of a case."""
    if not case.memory_layout:
        return (0,) * (len(problem.inputs) + 1)
    return tuple(MEMORY_LAYOUTS[case.memory_layout].offset * is_meant for is_meant in _is_meant(case, problem))


def prepare(case: Case) -> Arrays:
    """The arrays of a case."""
    rng, problem = np.random.default_rng(len(case.name)), request_of(case).problem
    # Scale the operands so that sums are about as large as the largest finite float16.
    terms = problem.call.b.size // problem.geometry.filters
    size = (_LARGEST / math.sqrt(terms)) ** 0.5 if case.values == "huge" else 1.0

    def drawn(array: Layout) -> Any:
        if case.values == "short":
            return (rng.integers(-4, 5, array.shape) / 8).astype(array.dtype)
        values = rng.integers(-9, 10, array.shape) if array.dtype.kind == "i" else rng.standard_normal(array.shape)
        return (values * size).astype(array.dtype)

    host, before = [drawn(array) for array in problem.inputs], drawn(problem.out)
    if case.values == "nan":
        _insert_nan(host[0], case)
    offsets = _offsets(case, problem)
    device = [PoisonedArray(*each) for each in zip(host, problem.inputs, offsets[:-1], strict=True)]
    wide = [array.astype(np.float64) for array in (*host, before)]
    with np.errstate(invalid="ignore"):
        wanted, scale = (
            {biased: _sums(problem, [change(array) for array in wide], biased) for biased in {False, len(host) > 2}}
            for change in (np.asarray, np.abs)
        )
    return Arrays(problem, host, device, before, wanted, scale, case.values, offsets)


def _insert_nan(image: Any, case: Case) -> None:
    """Put a NaN into the first image, and an infinity into the second, where nothing makes a number or NaN of it."""
    middle = tuple(n // 2 for n in image.shape[1:])
    image[(0, *middle)] = np.nan
    if case.direction == "forward" and case.epilogue in ("", "bias", "relu", "leaky_relu") and len(image) > 1:
        image[(1, *middle)] = np.inf


def _sums(problem: ConvProblem, given: Sequence[Any], biased: bool) -> Any:
    window, call = problem.geometry.window, problem.call
    a, b, *bias, before = given
    options: dict[str, Any] = {"out_dtype": np.dtype(np.float64), "alpha": float(call.alpha), "beta": float(call.beta)}
    options["before"] = before
    if call.direction == "forward":
        return reference.forward(a, b, window, **options, bias=bias[0] if bias and biased else None)
    if call.direction == "backward_data":
        return reference.backward_data(a, b, problem.geometry.x_shape, window, **options)
    return reference.backward_filter(a, b, problem.geometry.w_shape, window, **options)


def judge(arrays: Arrays, found: Any, way: Way, notes: frozenset[int], twice: bool = False) -> tuple[bool, float]:
    """(whether a result is right, its largest error over what is allowed).

    Allowed is what rounding the operands (where tensor cores shorten float32), the sums and the result may make; the
    sums `twice` where a kernel of ours takes them up again. Transforms err everywhere as in the largest sum.
    """
    problem, wanted, scale = arrays.problem, arrays.wanted[way.bias], arrays.scale[way.bias]
    if problem.call.activation and way.activation:
        if arrays.values == "huge" and twice:
            wanted = wanted.astype(problem.out.dtype).astype(np.float64)  # our kernel gets what is rounded
        with np.errstate(invalid="ignore"):
            wanted = reference.ACTIVATIONS[problem.call.activation](wanted)
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int32": 31}[problem.out.dtype.name]
    inside = 24 if problem.accumulator != "float64" else 53
    if NumericalNote.TENSOR_CORE in notes and problem.call.a.dtype.name == "float32":
        inside = 8 if NumericalNote.DOWN_CONVERT_INPUTS in notes else _TF32_BITS
    if NumericalNote.REDUCED_PRECISION_REDUCTION in notes:
        inside = min(inside, bits)
    if NumericalNote.WINOGRAD in notes or NumericalNote.FFT in notes:
        inside, scale = inside - 5, np.full_like(scale, scale.max(initial=0))
    terms = problem.call.b.size // max(problem.geometry.filters, 1)
    allowed = 2.0**-bits * np.abs(wanted) + 8 * math.sqrt(terms) * 2.0**-inside * scale + 1e-30
    if twice:
        allowed = allowed + 2.0**-bits * scale
    if problem.call.a.dtype.name == "int8":
        allowed = np.full_like(wanted, 0.25 if problem.out.dtype.kind == "i" else 1e-3)
    if arrays.values == "short":
        # Sums are exact: what is left are the function's errors, which the hardware's may be where tensor cores are.
        is_narrow = bits < 24 or NumericalNote.TENSOR_CORE in notes
        allowed = 2.0 ** -min(bits, 24) * np.abs(wanted) + (2.0**-10 if is_narrow else 2.0**-20)
    elif way.activation:
        allowed = 2 * allowed + 2e-5
    wide = found.astype(np.float64)
    if arrays.values == "huge":
        # Near the limit either a finite number or an infinity is right.
        beyond, within = np.abs(wanted) > _SURELY, np.abs(wanted) < _LARGEST * 0.99  # neither of NaN
        if not (wide[beyond] == np.copysign(np.inf, wanted[beyond])).all():
            return False, math.inf
        wide, wanted, allowed = wide[within], wanted[within], np.broadcast_to(allowed, within.shape)[within]
    if not np.isfinite(wide).all():
        return False, math.inf
    over = float((np.abs(wide - wanted) / allowed).max(initial=0))
    return over <= 1, over


def judge_nan(arrays: Arrays, found: Any, way: Way) -> tuple[str, str]:
    """(finding, detail) of NaN and infinities: "lost" where one became a number, "leaked" where one reached the results
    of another group, "spread" where a number became one otherwise."""
    wanted, wide = arrays.wanted[way.bias], found.astype(np.float64)
    activation = arrays.problem.call.activation
    with np.errstate(invalid="ignore", over="ignore"):
        if activation and way.activation:
            wanted = reference.ACTIVATIONS[activation](wanted)
    special, is_number = ~np.isfinite(wanted), np.isfinite(wide)
    lost, spread = int((special & is_number).sum()), int((~special & ~is_number).sum())
    if lost:
        return "lost", f"{lost} of {int(special.sum())}"
    leaked = int((~is_number & ~_groups_of(arrays.problem, special)).sum())
    if leaked:
        return "leaked", f"to {leaked} of other groups, beside {int(special.sum())}"
    return ("spread", f"to {spread} beside {int(special.sum())}") if spread else ("kept", str(int(special.sum())))


def _groups_of(problem: ConvProblem, results: Any) -> Any:
    """Return a mask of all results in the groups that contain one of the given results."""
    window = problem.geometry.window
    is_kernels = problem.call.direction == "backward_filter"
    axis = 0 if is_kernels else results.ndim - 1 if window.channels_last else 1
    moved = np.moveaxis(results, axis, 0)
    groups = moved.reshape(window.groups, -1).any(1)
    mask = np.repeat(groups, moved.shape[0] // window.groups)
    return mask.reshape([-1 if k == axis else 1 for k in range(results.ndim)])


def run(arrays: Arrays, executable: Any, numbers: Sequence[int] | None = None) -> tuple[Any, bool]:
    """The result of an executable, in poisoned memory where it is not added to; and whether nothing around is written.

    Args:
        numbers: of its operands, inputs first; by default all in order.
    """
    problem, device, stream = arrays.problem, 0, 0
    before = arrays.before if problem.call.beta else poison(problem.out.shape, problem.out.dtype)
    out = PoisonedArray(before, problem.out, arrays.offsets[-1])
    known = [array.address for array in (*arrays.device, out)]
    given = known if numbers is None else [known[k] for k in numbers]
    runtime.synchronize(stream, device)

    def launch(scratch: int) -> None:
        status = executable.launch_unchecked(stream, scratch, given, ())
        if status:
            executable.check(status)

    with runtime.on_device(device):
        executable.ready(given)
        workspace.run(launch, executable.workspace_bytes, device, stream)
        runtime.synchronize(stream, device)
    return out.now()


def findings(case: Case, skip: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What each engine does with a case, and what we do; the numbers in `skip` are left out."""
    arrays = prepare(case)
    number = 0
    for attempt in itertools.chain(
        _engine_attempts(arrays) if case.has_engines else (), _numbacc_attempts(arrays, case)
    ):
        number += 1
        record = {"case": case.name, "number": number, **attempt.record}
        if number in skip:
            continue
        yield {**record, "finding": "begins"}
        try:
            executable = attempt.make()
        except (CudnnError, UnsupportedError) as error:
            finding = "no plan" if record["engine"] == _CALL else "refused"
            yield {**record, "finding": finding, "detail": str(error)[-200:]}
            continue
        try:
            first, again = (run(arrays, executable, attempt.numbers) for _ in range(2))
        except LibraryError as error:
            yield {**record, "finding": "failed", "detail": str(error)[-200:]}
            continue
        (values, is_tidy), (same, _) = first, again
        if case.values == "nan":
            finding, detail = judge_nan(arrays, values, attempt.way)
            words = ("other groups",) if finding == "leaked" else ("NaN", "infinities")
            is_told = any(each in executable.algorithm for each in words)
            yield {**record, "known": record["known"] or is_told, "finding": finding, "detail": detail}
            continue
        right, over = (
            judge(arrays, values, attempt.way, attempt.notes, attempt.is_ours) if is_tidy else (False, math.inf)
        )
        if executable.deterministic and values.tobytes() != same.tobytes():
            record["unstable"] = True
        yield {**record, "finding": "right" if right else "wrong", "detail": f"{over:.3g} of what is allowed"}


class Attempt(NamedTuple):
    """One way to compute a case.

    Attributes:
        record: the entries of its findings.
        make: gives the executable.
        numbers: as in `run`.
        way: what it does of an epilogue.
        notes: what cuDNN says of its numbers.
        is_ours: whether kernels of ours may come behind.
    """

    record: dict[str, Any]
    make: Callable[[], Any]
    numbers: Sequence[int] | None
    way: Way
    notes: frozenset[int]
    is_ours: bool = False


def _engine_attempts(arrays: Arrays) -> Iterator[Attempt]:
    """Every engine of cuDNN's."""
    site = Site(library._handles.get(0))
    taken = ways(arrays.problem)
    for way in ways(arrays.problem, rough=True):
        lowered = lower(arrays.problem, way, (True,) * (len(arrays.host) + 1))
        graph = lowered.graphs[0]
        if lowered.copies:
            continue  # its engines are those of another case
        with runtime.on_device(0):
            described = describe(graph, site)
        known = algorithms.wrong(graph, cudnn.version())
        for configuration in engines(described, site, _KNOBS):
            if arrays.values == "huge" and NumericalNote.REDUCED_PRECISION_REDUCTION in configuration.notes:
                continue  # no call takes it: parts of its sums are 16 bits wide, and overflow
            record = {
                "engine": str(configuration),
                "way": [name for name, is_done in way._asdict().items() if is_done],
                "notes": sorted(configuration.notes),
                "known": way not in taken or configuration.engine in known,
            }
            yield Attempt(
                record, partial(_built, configuration, graph, site), lowered.operands, way, configuration.notes
            )


def _built(configuration: cudnn_plans.Configuration, graph: Any, site: Site) -> Any:
    with runtime.on_device(0):
        built = cudnn_plans.build(configuration, site)
    return library.Runner(graph, cudnn_plans.keep(configuration, built), 0)


def _numbacc_attempts(arrays: Arrays, case: Case) -> Iterator[Attempt]:
    """What a call runs; and what it would run instead, with cuDNN as one of several steps."""
    problem, plan = arrays.problem, ConvPlan(arrays.problem.call)
    sizes = [array.itemsize for array in (*problem.inputs, problem.out)]
    addresses = [offset * size for offset, size in zip(arrays.offsets, sizes, strict=True)]
    key = plan._key(addresses)
    aligned = tuple(not each for each in key)
    made: dict[str, Callable[[], Any]] = {_CALL: partial(plan.choose, addresses)}
    for other in others(problem):
        lowered = lower_other(other, ways(other.problem)[0], aligned)
        made[f"numbacc {other.made.title}"] = partial(plan._chosen, lowered, None, key)
    if case.dtype == "int8":
        made["numbacc by floats"] = partial(plan._by_floats, key)
    notes = frozenset([_COMPUTE[case.dtype]] if case.dtype in _COMPUTE else [])
    whole = Way(problem.call.bias is not None, problem.call.activation is not None)
    for name, make in made.items():
        yield Attempt({"engine": name, "way": [], "notes": [], "known": False}, make, None, whole, notes, True)


if __name__ == "__main__":
    serve(itertools.chain(cases(), activation_cases(), nan_cases(), overflow_cases()), findings)
