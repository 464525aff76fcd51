"""The cross entropy of a linear layer's results, and its gradients, in chunks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from .. import elementwise, gemm
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..base import checks
from ..base.layout import Layout, argument_of, is_dense
from ..errors import DTypeError, OptionError, ShapeError, unknown
from ..gemm.layers import as_matrix, dense_rows, given_gradients
from ..runtime.streams import handle_of

#: The largest chunk of logits in bytes. With smaller ones, reading and writing the sum of dw takes longer: on an H100,
#: 8192 x 768 x 50304 in bfloat16 takes 3.5 ms in two chunks, 3.8 in four, 4.6 in eight, and 3.4 in one.
_LARGEST = 480 * 2**20
#: Larger logits are cut in two at least.
_SMALLEST = 2**26
#: The fewest rows of a chunk, with however many classes.
_FEWEST = 256


class LinearGradients(NamedTuple):
    """The gradients of a loss with respect to x, w and bias. Without a bias, dbias is None."""

    dx: Array
    dw: Array
    dbias: Array | None


def linear_cross_entropy(
    x: Any,
    w: Any,
    target: Any,
    bias: Any = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    dloss: Any = 1.0,
    gradients: bool = True,
    accumulate: bool | Sequence[bool] = False,
    chunk: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, LinearGradients]:
    """Return the cross entropy of the logits x w + bias, and its gradients, without an array of all logits.

    The rows of x are cut into chunks. For each, `gemm.linear` computes the logits and
    `elementwise.cross_entropy_and_gradient` the losses and their gradients, which overwrite the logits. The other
    gradients follow at once, so that the logits' memory serves the next chunk. The separate functions
    give the same losses and gradients, but for the order of sums. dw is summed over chunks in float32.

    Source: Hsu et al. 2024 (arXiv:2410.10989), for the order of the work.

    Args:
        x: (..., in) of float32, float64, float16 or bfloat16.
        w: (in, classes), of x's dtype. Pass a weight (classes, in), as that of an embedding, as w.T.
        target: array of integers (...): the index of the target class, counted from 0.
        bias: (classes,), of x's dtype, or None.
        reduction: "mean" of all losses that are not ignored, or "sum".
        ignore_index, label_smoothing: the same as in `elementwise.cross_entropy`.
        dloss: the gradient with respect to the loss, which multiplies all gradients: a number, or an array of one
            float on x's device. In float16, gradients of a mean over many rows are too small without it.
        gradients: False computes the loss alone, and returns None for each gradient.
        accumulate: True adds the gradients to the arrays in `out`; or one bool for each gradient.
        chunk: the number of rows of a chunk. By default, its logits have at most 480 MiB, and if all logits have more
            than 64 MiB, at most half of them.
        out: arrays for (dx, dw, dbias). Each may be None. They have x's dtype; if that has 16 bits, dw and dbias may
            also be float32.

    Returns:
        the loss, an array of rank 0 of float32 (float64 for float64), and the gradients (dx, dw, dbias). If x has
        16 bits, new arrays for dw and dbias are float32.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: a dtype is not supported, or the dtypes differ.
        IndexRangeError: NumPy arrays only: a target is out of range and not ignored.
        OptionError: an option is invalid.
        LayoutError: an array in `out` is read-only or shares memory with an argument.

    Example:
        >>> loss, (dx, dw, _) = nn.linear_cross_entropy(np.eye(2), np.eye(2), np.array([0, 1]))
        >>> float(loss.round(4))
        0.3133
        >>> dx.round(4)
        array([[-0.1345,  0.1345],
               [ 0.1345, -0.1345]])
    """
    handle = handle_of(stream)
    if reduction not in ("mean", "sum"):
        raise unknown("reduction", reduction, ("mean", "sum"), 'it is "mean" or "sum"')
    x, w = operands.as_array(x, "x", handle), operands.as_array(w, "w", handle)
    target = operands.as_array(target, "target", handle)
    own, weight, places = map(operands.layout_of, (x, w, target))
    if not own.shape or places.shape != own.shape[:-1]:
        raise ShapeError(f"target has shape {places.shape}; x has {own.shape}, so it must have {own.shape[:-1]}")
    if len(weight.shape) != 2 or weight.shape[0] != own.shape[-1]:
        raise ShapeError(f"w has shape {weight.shape}; x has rows of {own.shape[-1:]}, so it must be (in, classes)")
    if places.dtype.kind not in "iu":
        raise DTypeError(f"target has dtype {places.dtype}; it must hold integers")
    options: dict[str, Any] = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "stream": handle}
    # tokens[:, 1:] is a target whose elements are not evenly spaced.
    rows, flat = dense_rows(x, handle), dense_rows(target[..., None], handle)[:, 0]
    if getattr(dloss, "shape", ()):
        dloss = _single(operands.as_array(dloss, "dloss", handle))
    wide = "float64" if own.dtype.name == "float64" else "float32"
    count, device = rows.shape[0], argument_of(own.device)
    losses = creation.empty((count,), wide, device=device, stream=handle)
    slope = number = None
    if reduction == "mean":
        number = elementwise.sum(elementwise.not_equal(flat, ignore_index, stream=handle), dtype=wide, stream=handle)
    results = None
    if checks.boolean(gradients, "gradients"):
        results = _Results(x, w, target, bias, out, accumulate, handle)
        slope = dloss if number is None else elementwise.divide(dloss, number, stream=handle)
    elif out is not None:
        raise OptionError("out has arrays for gradients, but gradients=False")
    size = _chunk(chunk, count, weight)
    logits = creation.empty((min(size, count), weight.shape[1]), own.dtype, device=device, stream=handle)
    for first in range(0, max(count, 1), size):
        part = slice(first, min(first + size, count))
        y, saved = gemm.linear(rows[part], w, bias, out=logits[: part.stop - first], stream=handle)
        given = {"reduction": "none", **options}
        if results is None:
            elementwise.cross_entropy(y, flat[part], out=losses[part], **given)
        else:
            _, dy = elementwise.cross_entropy_and_gradient(y, flat[part], slope, out=(losses[part], y), **given)
            results.add(dy, saved, part)
    loss = elementwise.sum(losses, stream=handle)
    if number is not None:
        loss = elementwise.divide(loss, number, stream=handle)
    missing: Any = None
    return loss, LinearGradients(missing, missing, None) if results is None else results.finished()


def _single(dloss: Any) -> Any:
    """Return an array of one element as one of rank 0."""
    own = operands.layout_of(dloss)
    if own.size != 1:
        raise ShapeError(f"dloss has shape {own.shape}; it must have one element")
    return dloss.reshape(())


def _chunk(chunk: Any, count: int, weight: Layout) -> int:
    """Return the number of rows of a chunk, so that all chunks have about as many."""
    rows: int
    if chunk is None:
        nbytes = max(weight.shape[1], 1) * weight.itemsize
        rows = max(min(_LARGEST // nbytes, max(_SMALLEST // nbytes, -(-count // 2))), _FEWEST)
    elif type(chunk) is int and chunk >= 1:
        rows = chunk
    else:
        raise OptionError(f"chunk={chunk!r}: it must be a number of rows, at least 1")
    pieces = max(-(-count // rows), 1)
    return min(rows, max(-(-count // (8 * pieces)) * 8, 1))


class _Results:
    """The gradients, in the user's arrays where these can take the sums over chunks, else in new ones."""

    def __init__(self, x: Any, w: Any, target: Any, bias: Any, out: Any, accumulate: Any, handle: int):
        self._names = ("dx", "dw") if bias is None else ("dx", "dw", "dbias")
        own, weight = operands.layout_of(x), operands.layout_of(w)
        shapes = dict(zip(self._names, (own.shape, weight.shape, weight.shape[1:]), strict=False))
        kept = {"x": x, "w": w, "target": target} | ({} if bias is None else {"bias": bias})
        self._handle, self._adds = (
            handle,
            dict(zip(("dx", "dw", "dbias"), checks.bools(accumulate, "accumulate", 3), strict=True)),
        )
        self._given = given_gradients(shapes, out, 3, x, kept, handle)
        wide = "float32" if own.itemsize == 2 else own.dtype.name
        found = {name: array for name, (_, array) in self._given.items()}
        self._works: dict[str, Any] = {}
        rows = as_matrix(found["dx"]) if "dx" in found else None
        if rows is not None:
            self._works["dx"] = rows
        sums = {name: operands.layout_of(array) for name, array in found.items() if name != "dx"}
        if all(each.dtype.name == wide for each in sums.values()):
            self._works |= {name: found[name] for name, each in sums.items() if name == "dw" or is_dense(each)}
        self._own = {*self._works}  # the sums are in the user's array itself
        device = argument_of(own.device)
        for name, shape in shapes.items():
            if name not in self._works:
                kind = own.dtype if name == "dx" else wide
                made = (prod(shape[:-1]), shape[-1]) if name == "dx" else shape
                self._works[name] = creation.empty(made, kind, device=device, stream=handle)
        #: Which are to be added to, in the next chunk.
        self._sums = [name in self._own and self._adds[name] for name in self._names]
        self._shape = own.shape

    def add(self, dy: Any, saved: Any, part: slice) -> None:
        """Add the gradients of a chunk of rows, given the gradient with respect to its logits."""
        works, missing = self._works, 3 - len(self._names)
        outs = (works["dx"][part], *[works[name] for name in self._names[1:]], *[None] * missing)
        gemm.linear_backward(dy, saved, out=outs, accumulate=(*self._sums, *[False] * missing), stream=self._handle)
        self._sums[1:] = [True] * (len(self._names) - 1)

    def finished(self) -> LinearGradients:
        """Return the gradients, once all chunks were added."""
        found: dict[str, Any] = {}
        for name in self._names:
            work = self._works[name]
            if name == "dx":
                work = work.reshape(self._shape)
            if name not in self._given:
                found[name] = work
                continue
            found[name], array = self._given[name]
            if name in self._own:
                continue
            if self._adds[name]:
                elementwise.add(array, work, out=array, stream=self._handle)
            else:
                elementwise.copy(work, out=array, stream=self._handle)
        return LinearGradients(found["dx"], found["dw"], found.get("dbias"))
