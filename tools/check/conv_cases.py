"""The convolutions whose engines are checked: small ones of every kind that engines tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

DIRECTIONS = ("forward", "backward_data", "backward_filter")


class MemoryLayout(NamedTuple):
    """A memory layout that cuDNN never gets: with gaps, misaligned, or with another order of axes.

    Attributes:
        order: the outermost axes in memory, as letters of a layout; `P` stands for all spatial axes. The other axes
            follow in their usual order.
        gap: unused elements after each row. Innermost channels stay contiguous.
        offset: elements between a multiple of 16 bytes and the first element.
        which: the operands that have this layout: "images", "kernels" or "all".
    """

    order: str = ""
    gap: int = 0
    offset: int = 0
    which: str = "images"


MEMORY_LAYOUTS = {
    "with gaps": MemoryLayout(gap=8),
    "with odd gaps": MemoryLayout(gap=3),
    "pixels first": MemoryLayout("PN", 8),
    "misaligned": MemoryLayout(offset=1, which="all"),
    "misaligned with odd gaps": MemoryLayout(gap=3, offset=3),
    "channels first": MemoryLayout("NC"),
    "channels last": MemoryLayout("NPC"),
    "kernels channels first": MemoryLayout("NC", which="kernels"),
    "kernels channels last": MemoryLayout("NPC", which="kernels"),
    "kernels pixels first": MemoryLayout("PN", which="kernels"),
    "all pixels first, misaligned": MemoryLayout("PCN", offset=1, which="all"),
}
DTYPES = ("float32", "tf32", "float32_fft", "float16", "bfloat16", "float64", "int8")


class Case(NamedTuple):
    """A convolution.

    Attributes:
        name: to choose it by.
        direction, dtype: one of DIRECTIONS and of DTYPES; "tf32" and "float32_fft" are float32 with that compute.
        x, w: shapes, channels first.
        options: of `numbacc.conv`.
        epilogue: of forward: "", "bias" or an activation behind a bias.
        out: dtype of the result of int8.
        memory_layout: a key of MEMORY_LAYOUTS, or "" for packed operands in the layout's order.
        alone: whether the activation has no bias before it.
        values: of operands: "short" where every sum is exact in any float, so that what follows alone has errors; "nan"
            where an image has a NaN and, if it stays what it is, an infinity; "huge" where many results exceed
            float16's range; "" where they are any.
    """

    name: str
    direction: str
    dtype: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    options: dict[str, Any]
    epilogue: str = ""
    out: str = ""
    memory_layout: str = ""
    alone: bool = False
    values: str = ""

    @property
    def has_engines(self) -> bool:
        """Whether cuDNN's engines for it are not those of another case, with or without our kernels around."""
        return self.dtype != "float32_fft" and not self.memory_layout and not (self.dtype == "int8" and self.epilogue)


_Shapes = dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]
#: name -> (x, w, options). Channels are multiples of 8 unless that is the point.
_SHAPES: _Shapes = {
    "1-d": ((2, 16, 50), (24, 16, 5), {"padding": 2}),
    "1-d dilated": ((2, 16, 90), (16, 16, 2), {"dilation": 32}),
    "2-d": ((2, 16, 13, 14), (24, 16, 3, 3), {"padding": 1}),
    "2-d 1x1": ((2, 32, 9, 9), (16, 32, 1, 1), {}),
    "2-d strided": ((2, 16, 15, 17), (24, 16, 3, 3), {"padding": 1, "stride": (2, 3)}),
    "2-d dilated": ((2, 16, 17, 16), (8, 16, 3, 3), {"padding": 2, "dilation": 2}),
    "2-d uneven padding": ((2, 16, 12, 13), (24, 16, 4, 3), {"padding": ((1, 2), (0, 3))}),
    "2-d 3 channels": ((2, 3, 21, 22), (16, 3, 7, 7), {"padding": 3, "stride": 2}),
    "2-d 7 channels": ((2, 7, 12, 11), (5, 7, 3, 3), {"padding": 1}),
    "2-d groups": ((2, 32, 12, 11), (48, 8, 3, 3), {"padding": 1, "groups": 4}),
    "2-d depthwise": ((2, 32, 14, 13), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    "2-d flip": ((2, 16, 12, 11), (16, 16, 3, 2), {"flip": True}),
    "3-d": ((2, 16, 6, 7, 8), (16, 16, 3, 3, 3), {"padding": 1}),
    "3-d uneven padding": ((1, 8, 6, 7, 8), (16, 8, 3, 2, 3), {"padding": ((0, 1), (1, 2), (1, 1)), "stride": 2}),
    "2-d all": (
        (2, 6, 13, 12),
        (4, 3, 3, 2),
        {"padding": "same", "stride": 2, "dilation": 2, "flip": True, "groups": 2},
    ),
    "2-d added": ((2, 16, 13, 14), (24, 16, 3, 3), {"padding": 1, "alpha": 0.5, "beta": 1.0}),
    "2-d 3 channels added": ((2, 6, 7, 6), (4, 3, 3, 2), {"padding": 1, "groups": 2, "beta": 1.0}),
    "3-d flip": ((2, 8, 6, 7, 8), (8, 8, 3, 2, 3), {"padding": 1, "flip": True}),
    "3-d strided": ((2, 8, 9, 7, 8), (8, 8, 3, 2, 3), {"padding": 1, "stride": 2}),
    "3-d dilated": ((2, 8, 9, 9, 8), (8, 8, 3, 2, 3), {"padding": 1, "dilation": 2}),
    "3-d all": (
        (2, 6, 7, 6, 5),
        (4, 3, 3, 2, 3),
        {"padding": "same", "stride": 2, "dilation": 2, "flip": True, "groups": 2},
    ),
    "3-d groups": ((2, 16, 6, 5, 7), (16, 4, 3, 3, 3), {"padding": 1, "groups": 4}),
    "3-d depthwise": ((1, 16, 6, 7, 5), (16, 1, 3, 3, 3), {"padding": 1, "groups": 16}),
    "1-d strided": ((2, 8, 29), (16, 8, 7), {"stride": 2}),
    "1-d groups of one": ((3, 3, 19), (15, 1, 7), {"stride": 2, "groups": 3, "flip": True, "alpha": 0.5}),
    "1-d depthwise": ((2, 8, 40), (8, 1, 3), {"padding": 1, "groups": 8}),
    "2-d groups of one": ((2, 3, 13, 12), (15, 1, 3, 3), {"stride": 2, "groups": 3}),
    "2-d long filters": ((2, 8, 7, 19), (16, 8, 1, 7), {"stride": (1, 2)}),
    "2-d tiles": ((16, 64, 60, 57), (64, 64, 3, 3), {"padding": 1}),
}
#: These and further shapes, for NaN and overflow.
_MORE_SHAPES: _Shapes = {
    **_SHAPES,
    "2-d groups of four": ((2, 32, 11, 12), (32, 4, 3, 3), {"padding": 1, "groups": 8}),
    "2-d 8 channels": ((2, 8, 16, 17), (16, 8, 4, 4), {"padding": ((3, 4), (1, 4)), "stride": (1, 3)}),
    "3-d 3 channels": ((2, 3, 7, 8, 9), (16, 3, 3, 3, 3), {"padding": 1}),
}
_EPILOGUES = ("bias", "relu", "gelu", "silu", "tanh", "elu")
_EPILOGUE_DTYPES = ("float32", "float16", "bfloat16")
#: Shapes with an epilogue; float64 has none in cuDNN.
_EPILOGUE_SHAPES = ("2-d", "2-d groups", "2-d depthwise", "2-d added", "3-d")
#: Of int8, where all that follows is ours: in int32 no more than a bias and ReLU.
_INT8_EPILOGUE_SHAPES = ("2-d", "2-d uneven padding", "3-d")
_INT8_EPILOGUES = {"int32": ("bias", "relu"), "float32": _EPILOGUES}
#: Shapes that are computed by Fourier transforms, where there are such; the last is of many tiles of these, and many
#: channels, and of the dtypes that this is for alone.
_FFT_SHAPES = ("2-d", "2-d groups", "2-d uneven padding", "2-d flip", "2-d tiles")
_MANY_TILES, _MANY_TILES_DTYPES = "2-d tiles", ("float32", "float32_fft")
#: (shape, whether channels are last) of the cases with other memory layouts, and their epilogues.
_LAYOUT_SHAPES = (
    ("2-d", False),
    ("2-d", True),
    ("2-d added", True),
    ("2-d depthwise", True),
    ("3-d uneven padding", False),
)
_LAYOUT_EPILOGUES = ("bias", "relu", "gelu", "relu alone", "gelu alone")
#: Shapes and activations of the cases without a bias.
_NO_BIAS_SHAPES, _NO_BIAS_EPILOGUES = ("2-d", "2-d added", "3-d"), ("relu", "gelu", "tanh", "elu")


def cases() -> Iterator[Case]:
    """Yield the cases of `conv`."""
    yield from _dense()
    yield from _other_layouts()


def _other_layouts() -> Iterator[Case]:
    """Yield activations without a bias, then operands with memory layouts that a call must copy."""
    for shape, last, dtype, epilogue in product(_NO_BIAS_SHAPES, (False, True), _EPILOGUE_DTYPES, _NO_BIAS_EPILOGUES):
        x, w, options = _SHAPES[shape]
        whole = {**options, "layout": _layout(len(x), last)}
        name = f"forward {shape} {whole['layout']} {dtype} {epilogue} alone"
        yield Case(name, "forward", dtype, x, w, whole, epilogue, alone=True)
    for (shape, last), memory_layout, dtype in product(_LAYOUT_SHAPES, MEMORY_LAYOUTS, DTYPES):
        x, w, options = _SHAPES[shape]
        if dtype == "float32_fft" or (dtype == "int8" and "beta" in options):
            continue
        whole = {**options, "layout": _layout(len(x), last)}
        end = f"{shape} {whole['layout']} {dtype} {memory_layout}"
        for direction in DIRECTIONS if dtype != "int8" else ("forward",):
            yield Case(f"{direction} {end}", direction, dtype, x, w, whole, memory_layout=memory_layout)
        for suffix in _LAYOUT_EPILOGUES if dtype in _EPILOGUE_DTYPES and shape == "2-d" else ():
            epilogue, _, alone = suffix.partition(" ")
            yield Case(
                f"forward {end} {suffix}",
                "forward",
                dtype,
                x,
                w,
                whole,
                epilogue,
                memory_layout=memory_layout,
                alone=bool(alone),
            )


def _layout(rank: int, last: bool) -> str:
    """The layout of arrays of a rank, with channels last or first."""
    layout = ["NCW", "NCHW", "NCDHW"][rank - 3]
    return layout[0] + layout[2:] + "C" if last else layout


def _dense() -> Iterator[Case]:
    """Yield cases of contiguous arrays."""
    for shape, (x, w, options) in _SHAPES.items():
        for dtype, last in product(DTYPES, (False, True)):
            layout = _layout(len(x), last)
            whole = {**options, "layout": layout}
            if dtype == "int8" and ("alpha" in options or "beta" in options):
                continue  # int8 is convolved as it is
            if (dtype == "float32_fft" and shape not in _FFT_SHAPES) or (
                shape == _MANY_TILES and dtype not in _MANY_TILES_DTYPES
            ):
                continue
            for direction in DIRECTIONS if dtype != "int8" else ("forward",):
                for out in ("int32", "float32") if dtype == "int8" else ("",):
                    name = f"{direction} {shape} {layout} {dtype} {out}".strip()
                    yield Case(name, direction, dtype, x, w, whole, out=out)
            if dtype in _EPILOGUE_DTYPES and shape in _EPILOGUE_SHAPES:
                for epilogue in _EPILOGUES:
                    name = f"forward {shape} {layout} {dtype} {epilogue}"
                    yield Case(name, "forward", dtype, x, w, whole, epilogue)
            if dtype == "int8" and shape in _INT8_EPILOGUE_SHAPES:
                for out, epilogues in _INT8_EPILOGUES.items():
                    for epilogue in epilogues:
                        name = f"forward {shape} {layout} {dtype} {out} {epilogue}"
                        yield Case(name, "forward", dtype, x, w, whole, epilogue, out)


#: All activations.
_ACTIVATIONS = ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "elu")
_FUSED_DTYPES = ("float32", "tf32", "float16", "bfloat16")
#: Shapes for the NaN check.
_NAN_SHAPES = (
    "2-d",
    "2-d 1x1",
    "2-d strided",
    "2-d groups",
    "2-d groups of four",
    "3-d",
    "3-d groups",
    "1-d groups of one",
)
#: Shapes for the overflow check.
_OVERFLOW_SHAPES = (
    *("1-d", "1-d depthwise", "2-d", "2-d 1x1", "2-d strided", "2-d 3 channels", "2-d 7 channels", "2-d 8 channels"),
    *("2-d groups", "2-d groups of four", "2-d depthwise", "3-d", "3-d 3 channels"),
)


def activation_cases() -> Iterator[Case]:
    """Yield a case for each activation, after sums that are exact: only the activation has errors."""
    x, w = (2, 8, 19, 18), (16, 8, 1, 1)
    for last, dtype, epilogue, alone in product((False, True), _FUSED_DTYPES, _ACTIVATIONS, (False, True)):
        layout = _layout(len(x), last)
        name = f"forward short {layout} {dtype} {epilogue}{' alone' * alone}"
        yield Case(name, "forward", dtype, x, w, {"layout": layout}, epilogue, alone=alone, values="short")


def nan_cases() -> Iterator[Case]:
    """Yield images with NaN: an engine must keep it, whatever it fuses."""
    for shape, last, dtype in product(_NAN_SHAPES, (False, True), (*_FUSED_DTYPES, "float64")):
        x, w, options = _MORE_SHAPES[shape]
        layout = _layout(len(x), last)
        whole, end = {**options, "layout": layout}, f"{shape} {layout} {dtype}"
        for direction in DIRECTIONS:
            yield Case(f"{direction} nan {end}", direction, dtype, x, w, whole, values="nan")
        for epilogue, alone in product(("bias", *_ACTIVATIONS), (False, True)) if dtype != "float64" else ():
            if not (alone and epilogue == "bias"):
                name = f"forward nan {end} {epilogue}{' alone' * alone}"
                yield Case(name, "forward", dtype, x, w, whole, epilogue, alone=alone, values="nan")


def overflow_cases() -> Iterator[Case]:
    """Yield float16 cases whose sums overflow: they must become infinities, so that loss scaling sees them."""
    for shape, last in product(_OVERFLOW_SHAPES, (False, True)):
        x, w, options = _MORE_SHAPES[shape]
        layout = _layout(len(x), last)
        whole, end = {**options, "layout": layout}, f"{shape} {layout} float16"
        for direction in DIRECTIONS:
            yield Case(f"{direction} huge {end}", direction, "float16", x, w, whole, values="huge")
        for epilogue in ("bias", "relu", "silu"):
            yield Case(f"forward huge {end} {epilogue}", "forward", "float16", x, w, whole, epilogue, values="huge")
