"""Convolutions and their gradients against torch's best, fused against unfused, and the time of calls and plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import conv, elementwise
from numbacc.base import dtypes

from . import peers
from .harness import RESOLUTION, Report, add_host_times, gpu_ms

#: So many images are compared with exact ones.
_IMAGES = 2
#: Of each figure: rounds, and the seconds after which there are no more; the latter two where it is to be quick.
_ROUNDS, _SECONDS, _QUICK_ROUNDS, _QUICK_SECONDS = 40, 8.0, 10, 1.0
DIRECTIONS = ("forward", "backward_data", "backward_filter")


class Layer(NamedTuple):
    """A convolution that is measured.

    Attributes:
        name: what it is.
        dtype: of the operands.
        x, w: shapes with channels last, (N, ..., C) and (K, ..., C/groups).
        options: of `numbacc.conv`, but for the layout.
        compute: as there.
        is_first: whether the arrays have channels first.
        directions: those that are measured.
    """

    name: str
    dtype: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    options: dict[str, Any]
    compute: str | None = None
    is_first: bool = False
    directions: tuple[str, ...] = DIRECTIONS

    @property
    def layout(self) -> str:
        names = ("NCW", "NCHW", "NCDHW") if self.is_first else ("NWC", "NHWC", "NDHWC")
        return names[len(self.x) - 3]

    def shape(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """A shape with channels last, in the order of the layout."""
        first, *pixels, channels = lengths
        return (first, channels, *pixels) if self.is_first else tuple(lengths)

    @property
    def title(self) -> str:
        return f"{self.name} {self.compute or self.dtype}" + " channels first" * self.is_first

    @property
    def given(self) -> dict[str, Any]:
        return {**self.options, "layout": self.layout, "compute": self.compute}


#: The widths of ResNet-50's stages, and the one that is measured where it is to be quick.
_STAGES, _QUICK_STAGES = (64, 128, 256, 512), (128,)


def resnet50(batch: int = 64, stages: Sequence[int] = _STAGES) -> Iterator[Layer]:
    """The distinct convolutions of ResNet-50 (He et al. 2015, arXiv:1512.03385; strides in the 3 x 3 ones)."""

    def layer(size: int, channels: int, filters: int, taps: int, stride: int = 1) -> Layer:
        name = f"resnet50 {size}x{size} {channels}->{filters} {taps}x{taps}" + f" /{stride}" * (stride > 1)
        options = {"stride": stride, "padding": taps // 2}
        return Layer(name, "float16", (batch, size, size, channels), (filters, taps, taps, channels), options)

    yield layer(224, 3, 64, 7, 2)
    size, channels = 56, 64
    for stage, width in enumerate(_STAGES):
        before = size if stage == 0 else 2 * size
        stride = 1 if stage == 0 else 2
        found = [
            layer(before, channels, width, 1),
            layer(before, width, width, 3, stride),
            layer(size, width, 4 * width, 1),
            layer(before, channels, 4 * width, 1, stride),
            *([layer(size, width, width, 3)] if stage else []),
            layer(size, 4 * width, width, 1),
        ]
        # In the first stage the shortcut is another layer's like.
        yield from {each.name: each for each in found}.values() if width in stages else ()
        channels = 4 * width
        size //= 2


def layers(*, quick: bool = False) -> Iterator[Layer]:
    """All that are measured; of ResNet-50 one stage where it is to be quick."""
    yield from resnet50(stages=_QUICK_STAGES if quick else _STAGES)
    wide = (64, 56, 56, 256), (256, 3, 3, 256), {"padding": 1}
    yield Layer("256 3x3 at 56x56", "float16", *wide)
    yield Layer("256 3x3 at 56x56", "float32", *wide)
    yield Layer("256 3x3 at 56x56", "float32", *wide, compute="float32_fft")
    yield Layer("256 3x3 at 56x56", "float32", *wide, compute="tf32")
    yield Layer("depthwise 3x3 at 56x56", "float16", wide[0], (256, 3, 3, 1), {"padding": 1, "groups": 256})
    patches = (64, 224, 224, 3), (768, 16, 16, 3), {"stride": 16}
    yield Layer("vit patches 16x16 /16, 3 channels", "float16", *patches)
    yield Layer("3-d u-net 64 3x3x3 at 64^3", "bfloat16", (2, 64, 64, 64, 64), (64, 3, 3, 3, 64), {"padding": 1})
    yield Layer("wavenet 128, dilation 512", "float16", (8, 16384, 128), (128, 2, 128), {"dilation": 512})
    yield from () if quick else _special()


def _special() -> Iterator[Layer]:
    """Layers with slow engines: cuDNN's first proposal, or all of its engines."""

    def depthwise(size: int, channels: int, taps: int, stride: int = 1, dtype: str = "float32") -> Layer:
        options = {"padding": taps // 2, "groups": channels, "stride": stride}
        name = f"depthwise {taps}x{taps} of {channels} at {size}x{size}" + f" /{stride}" * (stride > 1)
        return Layer(name, dtype, (64, size, size, channels), (channels, taps, taps, 1), options, is_first=True)

    yield depthwise(56, 128, 3)
    yield depthwise(14, 512, 3)
    yield depthwise(112, 96, 3, 2)
    yield depthwise(56, 96, 7)
    yield depthwise(56, 128, 3, dtype="bfloat16")
    for batch, channels in ((8, 2048), (16, 320)):
        dilated = {"padding": 12, "dilation": 12}
        shapes = (batch, 33, 33, channels), (256, 3, 3, channels)
        yield Layer(f"deeplab {channels}->256 3x3 at 33x33, dilation 12", "bfloat16", *shapes, dilated)
    for stride in (1, 2):
        options, name = {"padding": 1, "stride": stride}, "64 3x3 at 56x56" + f" /{stride}" * (stride > 1)
        shapes = (8, 56, 56, 64), (64, 3, 3, 64)
        yield Layer(name, "float64", *shapes, options, is_first=True, directions=("backward_data",))
    volumes = (2, 32, 64, 64, 32), (64, 3, 3, 3, 32), {"padding": 1}
    yield Layer("3-d 32->64 3x3x3 at 32x64x64", "float32", *volumes, is_first=True, directions=("backward_filter",))
    for layer in resnet50():
        if layer.name.endswith(("56x56 64->64 3x3", "14x14 256->256 3x3", "56x56 256->64 1x1", "7x7 512->2048 1x1")):
            yield layer._replace(dtype="bfloat16", is_first=True)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of convolutions."""
    torch = peers.import_torch()
    if torch is None:
        return
    timed = _timed(quick)
    for layer in layers(quick=quick):
        operands = Operands(layer)
        for direction in layer.directions:
            _measure(report, torch, operands, direction, timed)
    _fused(report, torch, layers(quick=quick), timed)
    _plans(report)
    if report.wants("host time"):
        _host(report, torch)


def _timed(quick: bool) -> Callable[..., dict[str, float]]:
    """What measures works."""
    if quick:
        return partial(gpu_ms, repeats=_QUICK_ROUNDS, seconds=_QUICK_SECONDS)
    return partial(gpu_ms, repeats=_ROUNDS, seconds=_SECONDS)


class Operands:
    """Random operands of a layer, made when they are asked for."""

    def __init__(self, layer: Layer):
        self.layer, self._rng = layer, np.random.default_rng(7)
        self.y_shape = conv.output_shape(
            layer.shape(layer.x), layer.shape(layer.w), **layer.options, layout=layer.layout
        )

    @cached_property
    def x(self) -> Any:
        return self._normal(self.layer.shape(self.layer.x))

    @cached_property
    def w(self) -> Any:
        return self._normal(self.layer.shape(self.layer.w))

    @cached_property
    def dy(self) -> Any:
        return self._normal(self.y_shape)

    def _normal(self, lengths: tuple[int, ...]) -> Any:
        block = self._rng.standard_normal(999_983, np.float32).astype(dtypes.dtype(self.layer.dtype))
        return numbacc.asarray(np.resize(block, lengths))


class Problem:
    """A layer in one direction; torch gets the same memory."""

    def __init__(self, torch: Any, operands: Operands, direction: str):
        layer = self.layer = operands.layer
        self.direction, self.torch = direction, torch
        self.x, self.w, self.dy = operands.x, operands.w, operands.dy
        self.x_shape, self.w_shape = layer.shape(layer.x), layer.shape(layer.w)
        shape = {"forward": operands.y_shape, "backward_data": self.x_shape, "backward_filter": self.w_shape}[direction]
        self.out = numbacc.empty(shape, layer.dtype)

    def ours(self, **more: Any) -> Callable[[], Any]:
        """The call."""
        given = {**self.layer.given, **more, "out": self.out}
        if self.direction == "forward":
            return partial(conv.forward, self.x, self.w, **given)
        if self.direction == "backward_data":
            return partial(conv.backward_data, self.dy, self.w, self.x_shape, **given)
        return partial(conv.backward_filter, self.x, self.dy, self.w_shape, **given)

    def theirs(self, channels_last: bool, dtype: Any = None, images: int | None = None) -> Callable[[], Any]:
        """torch's call, on tensors with their channels innermost or not, of another dtype, or of few images."""
        x, w, dy = (self._tensor(array, channels_last, dtype) for array in (self.x[:images], self.w, self.dy[:images]))
        options, count = self.layer.options, len(self.layer.x) - 2
        steps, zeros, apart = (
            [options.get(name, default)] * count for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
        )
        groups = options.get("groups", 1)
        if self.direction == "forward":
            function = (self.torch.conv1d, self.torch.conv2d, self.torch.conv3d)[count - 1]
            return partial(function, x, w, None, steps, zeros, apart, groups)
        wanted = [self.direction == "backward_data", self.direction == "backward_filter", False]
        backward, where = self.torch.ops.aten.convolution_backward, wanted.index(True)
        none = [0] * count
        return lambda: backward(dy, x, w, None, steps, zeros, apart, False, none, groups, wanted)[where]

    def _tensor(self, array: Any, channels_last: bool, dtype: Any) -> Any:
        tensor = self._named(self.torch.from_dlpack(array))
        tensor = tensor if dtype is None else tensor.to(dtype)
        if not channels_last:
            return tensor.contiguous()
        # A copy of channels last in memory; without a copy if they are.
        return tensor.movedim(1, -1).contiguous().movedim(-1, 1)

    def _named(self, tensor: Any) -> Any:
        """A tensor in torch's order of axes: channels are the second one."""
        return tensor if self.layer.is_first else tensor.movedim(-1, 1)

    def exact(self) -> tuple[Any, int | None]:
        """The result by torch in float64 without cuDNN, of the first images where each has its own; how many."""
        images = None if self.direction == "backward_filter" else _IMAGES
        with self.torch.backends.cudnn.flags(enabled=False):
            return self.theirs(False, self.torch.float64, images)(), images

    def error(self, exact: tuple[Any, int | None], theirs: Any = None) -> float:
        """‖found - exact‖ / ‖exact‖ of our result, or of torch's."""
        wanted, images = exact
        found = self._named(self.torch.from_dlpack(self.out)) if theirs is None else theirs
        return float((found[:images].to(self.torch.float64) - wanted).norm() / wanted.norm())


def _allowed(layer: Layer) -> float:
    if layer.compute == "tf32":
        return 1e-3
    return {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-13}[layer.dtype]


def _measure(
    report: Report, torch: Any, operands: Operands, direction: str, timed: Callable[..., dict[str, float]]
) -> None:
    """A layer in one direction, as the heuristics choose its plan and tuned, over the best of torch."""
    layer = operands.layer
    name = f"{direction} {layer.title}"
    if not report.wants(f"{name}, ours", f"{name}, ours tuned"):
        return
    kept = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, layer.compute == "tf32"
    try:
        problem = Problem(torch, operands, direction)
        works = {"ours": problem.ours(), "ours tuned": problem.ours(tune=True)}
        errors, exact = {}, problem.exact()
        for key, work in works.items():
            problem.out._fill(float("nan"), 0)
            work()
            errors[key] = problem.error(exact)
        theirs = {"torch channels last": problem.theirs(True), "torch channels first": problem.theirs(False)}
        off = {key: problem.error(exact, work()) for key, work in theirs.items()}
        times = timed({**works, **theirs})
        # What takes tensor cores for float32 all the same is other work.
        alike = {key: times[key] for key in theirs if off[key] <= _allowed(layer)}
        other = {key: {"ms": times[key], "error": off[key]} for key in theirs if key not in alike}
        info = {"ours": _plan_of(problem), "ours tuned": _plan_of(problem, tune=True)}
        for key, bound in (("ours", 1.05), ("ours tuned", 1.0)):
            right = errors[key] <= _allowed(layer)
            figure = {"ms": times[key], "error": errors[key], "right": right, "algorithm": info[key].algorithm}
            if alike:
                ratio = times[key] / min(alike.values())
                figure |= {"ratio": ratio, "bound": bound, "holds": right and ratio <= bound + RESOLUTION}
            more = {"peer_errors": off, **({"less_exact": other} if other else {})}
            report.add(name=f"{name}, {key}", **figure, peers=alike, **more)
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = kept


def _plan_of(problem: Problem, **more: Any) -> Any:
    """What the plan of a call says of itself."""
    given = {**problem.layer.given, **more, "out": problem.out}
    if problem.direction == "forward":
        return conv.forward.plan(problem.x, problem.w, **given).info
    if problem.direction == "backward_data":
        return conv.backward_data.plan(problem.dy, problem.w, problem.x_shape, **given).info
    return conv.backward_filter.plan(problem.x, problem.dy, problem.w_shape, **given).info


def _fused(report: Report, torch: Any, some: Iterable[Layer], timed: Callable[..., dict[str, float]]) -> None:
    """A bias and ReLU in the convolution's plan, over a kernel of their own behind it."""
    for layer in some:
        name = f"bias and relu, fused over unfused, {layer.title}"
        if layer.compute or layer.dtype in ("float32", "float64") or layer.is_first or not report.wants(name):
            continue
        problem = Problem(torch, Operands(layer), "forward")
        bias = numbacc.asarray(np.linspace(-1, 1, layer.w[0]).astype(dtypes.dtype(layer.dtype)))
        fused = partial(conv.forward, problem.x, problem.w, bias, activation="relu", out=problem.out, **layer.given)

        def unfused(problem: Problem = problem, layer: Layer = layer, bias: Any = bias) -> None:
            conv.forward(problem.x, problem.w, out=problem.out, **layer.given)
            elementwise.bias_activation(problem.out, bias, activation="relu", out=problem.out)

        fused()
        found = torch.from_dlpack(problem.out).clone()
        unfused()
        other = torch.from_dlpack(problem.out)
        right = bool((found.float() - other.float()).norm() <= _allowed(layer) * other.float().norm())
        times = timed({"ours": fused, "unfused": unfused})
        ratio = times["ours"] / times["unfused"]
        report.add(
            name=name, ms=times["ours"], right=right, ratio=ratio, bound=0.95, peers={"unfused": times["unfused"]},
            holds=right and ratio <= 0.95,
        )  # fmt: skip


def _plans(report: Report) -> None:
    """The time of the first plan of a shape, none of which was seen before; the median of several."""
    name = "first plan of a shape, float16 NHWC, by the heuristics"
    if not report.wants(name):
        return
    spans = []
    for size in range(30, 41):
        x, w = numbacc.empty((8, size, size, 64), "float16"), numbacc.empty((64, 3, 3, 64), "float16")
        start = time.perf_counter()
        conv.forward.plan(x, w, layout="NHWC", padding=1, workspace_limit=2**28 + size)
        spans.append(1e3 * (time.perf_counter() - start))
    # The first of a process brings the library, too.
    middle = float(np.median(spans[1:]))
    report.add(name=name, host_ms=middle, first_of_all_ms=spans[0], bound=100.0, holds=middle <= 100.0)


def _host(report: Report, torch: Any) -> None:
    """Host time of a small convolution."""
    layer = Layer("8x14x14x64, 64 3x3", "float16", (8, 14, 14, 64), (64, 3, 3, 64), {"padding": 1})
    problem = Problem(torch, Operands(layer), "forward")
    ours = {"conv.forward with out": (0.7, problem.ours())}
    add_host_times(report, ours, {"torch conv2d": problem.theirs(True)}, layer.name)
