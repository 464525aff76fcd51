"""Corrections to the engine ranking of cuDNN's heuristics, for cases where it is known to be bad.

The heuristics rank engines for tensor cores. For float32 without tensor cores, the top of their list is unusable, and
the rest is hardly in any order. For float64 they do not know the best engine. They ignore the savings of Fourier
transforms. And for gradients of kernels with one column they often propose tiles that are mostly empty.

The corrections were measured on an H200 with cuDNN 9.19: 64 images of 256 channels at 56 x 56, 256 kernels of 3 x 3,
and windows as channels (`numbacc.conv.windowed`). They apply only to large convolutions of this kind, in two
dimensions, with stride and dilation 1, in one group. The corrections in `reordered`, about clusters of multiprocessors
and engines without tensor cores, were seen in many layers and apply to all. `_of_float64`, `_is_float64_volume` and
`_has_few_sums` were measured on an H100, and have their own conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import prod

from numbacc_bindings.cudnn import HeurMode, KnobType, NumericalNote

from .cudnn_descriptors import Descriptor, Site
from .cudnn_graph import CudnnGraph, Plain, Wants, plain, transforms_pay
from .cudnn_plans import Configuration, all_engines, proposals

#: From this many results on, each multiprocessor gets two tiles of 128 x 128.
_LARGE = 2**22
#: The direct engine that supports every convolution, 50 times slower than others.
_GENERIC = 0
#: Engine of float32 gradients of three-dimensional kernels that divides its sums among blocks.
_DIVIDING = 1
#: With fewer elements of such a gradient, the blocks of other engines leave multiprocessors idle: each has a tile of
#: about 2048 elements, and an H100 has 132 multiprocessors. With a stride, the dividing engine takes twice as long for
#: as many products.
_FEW_SUMS, _FEW_STRIDED_SUMS = 2**18, 2**16
#: The best engine of three-dimensional float64 convolutions, with its default knobs: 16 channels at 16 x 16 x 16 and 32
#: kernels of 3 x 3 x 3 took 0.080 ms, with the proposed tile 0.099 (H100).
_VOLUMES = 28
#: Engines of float64 gradients of images: the best one without dilation; the best one for strides and at least so many
#: channels, which fill its tile, with the number of this tile.
_PLAIN, _STRIDED, _STRIDED_CHANNELS, _STRIDED_TILE = 1, 2, 128, (int(KnobType.TILE_SIZE), 2)
#: Groups of fewer channels or kernels do not fill the tiles of tensor cores.
_FILLED = 8
#: The fastest direct engine for float32 in the forward pass, and its best tile.
_TILED, _BEST_TILE = 70, (int(KnobType.TILE_SIZE), 4)
#: For gradients of 16-bit kernels of one column: the engine for 64 to 128 kernels of 32 to 160 channels, with the
#: numbers of its tile and of its clusters of thread blocks; and the engine for fewer channels, or fewer kernels.
_MANY, _MANY_KNOBS = 65, {(int(KnobType.TILE_SIZE), 5), (int(KnobType.TILE_CGA_N), 5)}
_FEW = 49
_MANY_FILTERS, _MANY_CHANNELS, _MOST_FILTERS, _MOST_CHANNELS = 64, 32, 128, 160
#: The search pays from this many terms of each sum on: one image of 112 x 112.
_TERMS = 112 * 112
#: Engines of convolutions and gradients of images whose thread blocks form clusters.
_CLUSTERED = (62, 67)
#: (Tile, clusters) of these engines -> one that was never slower if both were proposed, in ResNet-50's layers, 3 x 3
#: with 256 channels in tf32 and 3 x 3 x 3 with 64. Two tiles of half the width equal one of full width.
_BETTER = {(4, (1, 2)): (0, (1, 1)), (3, (1, 2)): (0, (1, 2))}
#: Clusters of 7 fill 14 of the 16 or 18 multiprocessors in a group, clusters of 8 all 16: 0.84 to 1 of the time.
_SEVENS, _EIGHTS = (7, 1), (8, 1)


def ahead(graph: CudnnGraph, described: Descriptor, site: Site, wants: Wants) -> Iterator[Configuration]:
    """Yield configurations to check before those that the heuristics rank first.

    Times of direct float32 convolutions in milliseconds, with the heuristics' order (the end of their list, after all
    engines for tensor cores) and with this one: forward 8.9 and 5.7; gradient of images 7.0 and 6.4; gradient of
    kernels 8.6. With Fourier transforms, which the heuristics rank last or not at all: 2.2, 2.1 and 4.1. In float64,
    the engine that they propose for the gradient of images takes 5.4 times as long.
    """
    if _is_float64_gradient(graph):
        yield from _of_float64(graph, described, site)
    elif _is_float64_volume(graph):
        yield from (each for each in proposals(described, site, HeurMode.FALLBACK) if each.engine == _VOLUMES)
    if _has_few_sums(graph, wants):
        every = (each for mode in (HeurMode.A, HeurMode.FALLBACK) for each in proposals(described, site, mode))
        yield from (each for each in every if each.engine == _DIVIDING)
    what = plain(graph)
    if what is None:
        return
    if wants.inputs == "fft" and transforms_pay(what):
        # Engines with higher numbers transform tiles, in two thirds of the time and with a third of the memory.
        some = [each for each in all_engines(described, site) if NumericalNote.FFT in each.notes]
        yield from sorted(some, key=lambda each: -each.engine)
    if _is_gradient_of_columns(graph, what):
        yield from _of_columns(what, described, site)
    if what.batch * prod(what.places) * (what.channels if what.kind == "backward_data" else what.filters) < _LARGE:
        return
    if what.dtype == "float32" and wants.inputs in ("exact", "fft"):
        ranked = proposals(described, site, HeurMode.A)
        first = next((place for place, each in enumerate(ranked) if not each.unwanted(wants)), len(ranked))
        if 2 * first < len(ranked):
            return
        if what.kind == "forward":
            # Where it is available, heuristic B ranks it first, and 9.19 also proposes it after its fallback engines.
            others = [each for mode in (HeurMode.FALLBACK, HeurMode.B) for each in proposals(described, site, mode)]
            yield from (each for each in others if each.engine == _TILED and _BEST_TILE in each.knobs)
        yield from _fallback(described, site)


def modes(graph: CudnnGraph) -> tuple[HeurMode, ...]:
    """Return the heuristics to ask, in this order: usually the fastest, the one that nearly always works, the slowest.

    In 16 bits, the second one proposes engines without tensor cores. So it is the last, if tensor cores can be filled.
    """
    is_narrow = len(graph.nodes) == 1 and graph.nodes[0].kind.startswith("convolve_") and _fills_tensor_cores(graph)
    last = (HeurMode.B, HeurMode.FALLBACK) if is_narrow else (HeurMode.FALLBACK, HeurMode.B)
    return HeurMode.A, *last


def reordered(graph: CudnnGraph, wants: Wants, proposed: Sequence[Configuration]) -> Sequence[Configuration]:
    """Return a heuristic's proposals, preceded by one that is known to be faster than the first of them.

    Times in milliseconds on an H200 with cuDNN 9.19, before and after: gradient of images with 3 x 3 taps, 64 images of
    64 channels at 56 x 56: 0.049 and 0.044; convolution of 128 channels of that size with stride 2: 0.037 and 0.034;
    of 256 channels in tf32: 0.60 and 0.57.
    """
    node = graph.nodes[0]
    if len(graph.nodes) > 1 or not node.kind.startswith("convolve_"):
        return proposed
    first = next((each for each in proposed if not each.unwanted(wants)), None)
    if first is not None and not _on_tensor_cores(first) and _fills_tensor_cores(graph):
        # The direct engine for gradients of dilated kernels takes 13 times as long as the best one (16 images of 320
        # channels at 33 x 33, 256 kernels of 3 x 3, dilation 12, on an H100).
        return sorted(proposed, key=lambda each: not _on_tensor_cores(each))
    if first is None or first.engine not in _CLUSTERED or node.kind == "convolve_backward_filter":
        return proposed
    tile, clusters, depth = _shape(first)
    better = (tile, _EIGHTS) if clusters == _SEVENS else _BETTER.get((tile, clusters))
    if better is None:
        return proposed
    # The best of these comes first, with any values of the other knobs.
    alike = [each for each in proposed if each.engine == first.engine and _shape(each) == (*better, depth)]
    return [*alike[:1], *proposed]


def _shape(configuration: Configuration) -> tuple[int, tuple[int, int], int]:
    """Return (tile number, (cluster sizes in both directions), number of the tile's depth); -1 where not reported."""
    kinds = KnobType.TILE_SIZE, KnobType.TILE_CGA_M, KnobType.TILE_CGA_N, KnobType.TILEK
    tile, down, across, depth = (dict(configuration.knobs).get(kind, -1) for kind in kinds)
    return tile, (down, across), depth


def _on_tensor_cores(configuration: Configuration) -> bool:
    return NumericalNote.TENSOR_CORE in configuration.notes


def _shapes(graph: CudnnGraph) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a convolution's operands by their roles."""
    return {name: graph.tensors[place].shape for name, place in graph.nodes[0].tensors}


def _kernels(graph: CudnnGraph) -> tuple[int, ...]:
    """Return the shape of a convolution's kernels, (K, C/groups, ...)."""
    shapes = _shapes(graph)
    return shapes["y" if graph.nodes[0].kind == "convolve_backward_filter" else "w"]


def _fills_tensor_cores(graph: CudnnGraph) -> bool:
    """Return whether this is a convolution of 16-bit floats with enough channels and kernels in one group."""
    node, kernels = graph.nodes[0], _kernels(graph)
    shapes = _shapes(graph)
    image = shapes["y" if node.kind == "convolve_backward_data" else "x"]
    is_narrow = graph.tensors[node.tensors[0][1]].dtype in ("float16", "bfloat16")
    return is_narrow and image[1] == kernels[1] and min(kernels[:2]) >= _FILLED


def _is_float64_gradient(graph: CudnnGraph) -> bool:
    node = graph.nodes[0]
    is_alone = len(graph.nodes) == 1 and node.kind == "convolve_backward_data"
    # For one tap there are products of matrices.
    return is_alone and graph.tensors[node.tensors[0][1]].dtype == "float64" and prod(_kernels(graph)[2:]) > 1


def _is_float64_volume(graph: CudnnGraph) -> bool:
    node = graph.nodes[0]
    is_alone = len(graph.nodes) == 1 and node.kind == "convolve_forward"
    return is_alone and graph.tensors[node.tensors[0][1]].dtype == "float64" and len(_kernels(graph)) == 5


def _of_float64(graph: CudnnGraph, described: Descriptor, site: Site) -> Iterator[Configuration]:
    """Yield the good engines for a float64 gradient of images.

    The heuristics' first proposal adds to the result by atomic operations. With 3 x 3 taps it took 11 times as long for
    64 channels at 56 x 56, and 13 times in four groups. With stride 2, engine 1 took 0.29 ms and engine 2 0.48 for 8
    images of 64 channels at 56 x 56, and 1.49 and 0.92 ms for 16 of 128. For 4 images of 3 channels at 64 x 64 and 7 x
    7 taps, the generic engine took 0.14 ms, and engine 1 0.26.
    """
    every = [each for mode in (HeurMode.A, HeurMode.FALLBACK) for each in proposals(described, site, mode)]
    settings, channels = dict(graph.nodes[0].settings), _kernels(graph)[1]
    if max(settings["dilation"]) > 1:
        return
    if max(settings["stride"]) > 1 and channels >= _STRIDED_CHANNELS:
        yield from (each for each in every if each.engine == _STRIDED and _STRIDED_TILE in each.knobs)
    elif max(settings["stride"]) > 1 and channels < _FILLED:
        yield from (each for each in every if each.engine == _GENERIC)  # tiles of channels would be mostly empty
    else:
        yield from (each for each in every if each.engine == _PLAIN)


def _has_few_sums(graph: CudnnGraph, wants: Wants) -> bool:
    """Return whether this is a float32 gradient of three-dimensional kernels with few elements, which are long sums.

    Times in milliseconds of the first proposal and of the dividing engine, 3 x 3 x 3 taps: 64 kernels of 32 channels,
    2 x 32 x 64 x 64 positions: 7.2 and 2.6; 32 kernels of 1 channel, 4 x 64 x 64 x 64: 16.1 and 1.5; 128 kernels of 64
    channels, 2 x 16 x 32 x 32: 0.95 and 0.76; of 128 channels, 2 x 16 x 16 x 16: 0.28 and 0.52. With stride 2: 64
    kernels of 32 channels, 2 x 16 x 32 x 32: 1.0 and 0.52; 128 of 64 channels, 2 x 8 x 14 x 14: 0.08 and 0.25.
    """
    node = graph.nodes[0]
    if len(graph.nodes) > 1 or node.kind != "convolve_backward_filter" or wants.inputs not in ("exact", "fft"):
        return False
    kernels, strides = _kernels(graph), dict(node.settings)["stride"]
    return len(kernels) == 5 and prod(kernels) < (_FEW_SUMS if max(strides) == 1 else _FEW_STRIDED_SUMS)


def _is_gradient_of_columns(graph: CudnnGraph, what: Plain) -> bool:
    node = graph.nodes[0]
    images = graph.tensors[dict(node.tensors)["x"]] if what.kind == "backward_filter" else None
    return (
        images is not None
        and what.dtype in ("float16", "bfloat16")
        and what.taps[0] > what.taps[1] == 1
        and images.strides[1] == 1
        and what.batch * prod(what.places) >= _TERMS
    )


def _of_columns(what: Plain, described: Descriptor, site: Site) -> Iterator[Configuration]:
    """Yield configurations for gradients of 16-bit kernels of one column, on GPUs like an H200.

    The images have channels innermost. Times in milliseconds, of the first proposal and of this one: 64 kernels of 4 x
    64 channels 0.212 and 0.138; of 5 x 16 0.108 and 0.083; of 3 x 16 0.182 and 0.142; 3 of 7 x 24 1.23 and 0.23; 1 of
    9 x 16 6.16 and 0.98; 32 of 2 x 24 0.098 and 0.095. On an H200, the other heuristic divides sums among all
    multiprocessors; on an A100, which lacks engine 65, it does not.
    """
    ranked = proposals(described, site, HeurMode.A)
    if not any(each.engine == _MANY for each in ranked):
        return
    if what.filters < _MANY_FILTERS or what.channels < _MANY_CHANNELS:
        for each in (*proposals(described, site, HeurMode.B), *ranked):
            if each.engine == _FEW and dict(each.knobs).get(KnobType.SPLIT_K, 1) > 1:
                yield each
    elif what.filters <= _MOST_FILTERS and what.channels <= _MOST_CHANNELS:
        yield from (each for each in ranked if each.engine == _MANY and {*each.knobs} >= _MANY_KNOBS)


def _fallback(described: Descriptor, site: Site) -> Iterator[Configuration]:
    return takewhile(lambda each: each.engine != _GENERIC, proposals(described, site, HeurMode.FALLBACK))
