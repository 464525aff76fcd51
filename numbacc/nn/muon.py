"""Muon: momentum whose matrices are made orthogonal, by products of `numbacc.gemm`."""

from __future__ import annotations

import inspect
import math
from typing import Any

from .. import elementwise, gemm
from ..arrays import creation, operands
from ..base import checks
from ..base.dtypes import info
from ..base.layout import Layout, argument_of, check_same_device
from ..elementwise.operation import run as run_one
from ..elementwise.optimizers import factor_of
from ..elementwise.rows import Meaning, Row
from ..errors import DTypeError, ShapeError
from ..functions.symbolic.vectorized import vectorized
from ..kernels.elementwise.optimizers import muon_momentum, muon_nesterov, muon_update
from ..runtime.streams import handle_of

#: The coefficients of a step: x is replaced by a x + (b s + c s²) x, s = x xᵀ. Jordan et al. 2024.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def _row(function: Any) -> Row:
    names = tuple(inspect.signature(function).parameters)
    meanings = {"f": Meaning(function, vectorized(function, function.__name__))}
    return Row(function.__name__, names, "float", meanings, results=("", ""), is_tuple=True)


_MOMENTUM, _NESTEROV, _UPDATE = map(_row, (muon_momentum, muon_nesterov, muon_update))


def muon_step(
    p: Any,
    g: Any,
    m: Any,
    *,
    rate: float = 1e-3,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    iterations: int = 5,
    dtype: str = "bfloat16",
    factor: Any = None,
    copy: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Make a step of Muon in place, for one matrix or for lists of matrices.

        m ← μ m + g,  u = g + μ m,  p ← p (1 - η λ) - 0.2 η √max(rows, columns) orthogonal(u)

    orthogonal(u) is u with all its singular values near 1: Newton and Schulz's iteration, three products each.

    Sources: Jordan et al. 2024 (kellerjordan.github.io/posts/muon); Liu et al. 2025 (arXiv:2502.16982) for the factor
    0.2 √max(rows, columns), which lets Muon and AdamW share rate and decay. Use AdamW for embeddings, the last layer,
    and vectors.

    Args:
        p: the parameter, a matrix of floats, or a list or tuple of matrices. They are written.
        g: the gradient with p's shape; for lists, a list of the same length.
        m: the momentum with p's shape, initially 0; float32 is best. It is written.
        rate, momentum, weight_decay: η, μ, λ.
        nesterov: False takes u = m.
        iterations: how often the iteration is repeated.
        dtype: the dtype of the iteration: "bfloat16", "float16" or "float32".
        factor: a number, or an array on the GPU with one float, such as the one of `elementwise.clip_grad_norm`. The
            gradients are multiplied by it. If it is NaN, the step changes nothing.
        copy: an array of floats with p's shape, or a list of such arrays. It receives the new p.

    Returns:
        (p, m).

    Raises:
        ShapeError, DTypeError: the arrays do not fit together.
        OptionError: an option is out of range.
        LayoutError: an array that is written overlaps another, or is read-only.

    Example:
        >>> p, m = np.zeros((2, 2)), np.zeros((2, 2))
        >>> nn.muon_step(p, np.array([[3.0, 0.0], [0.0, 3.0]]), m, rate=1.0, dtype="float32")[0].round(1)
        array([[-0.3,  0. ],
               [ 0. , -0.3]])
    """
    handle = handle_of(stream)
    rate, decay = checks.at_least_0(rate, "rate"), checks.at_least_0(weight_decay, "weight_decay")
    momentum, count = checks.at_least_0(momentum, "momentum"), checks.integer(iterations, "iterations", 1)
    row = _NESTEROV if checks.boolean(nesterov, "nesterov") else _MOMENTUM
    factor = factor_of(factor, handle)
    if not isinstance(factor, float):
        factor = elementwise.astype(factor.reshape(()), "float32", copy=False, stream=handle)
    lists = [p, g, m, *([] if copy is None else [copy])]
    is_list = isinstance(p, (list, tuple))
    named = dict(zip(("p", "g", "m", "copy"), lists if is_list else [[each] for each in lists], strict=False))
    for name, each in named.items():
        if not isinstance(each, (list, tuple)) or len(each) != len(named["p"]):
            raise ShapeError(f"{name} must be a list of {len(named['p'])} arrays, as p is")
    for k in range(len(named["p"])):
        own = {
            name: operands.as_array(each[k], f"{name}[{k}]" if is_list else name, handle)
            for name, each in named.items()
        }
        shape = _checked(own)
        work = creation.empty(shape, dtype, device=argument_of(operands.layout_of(own["p"]).device), stream=handle)
        run_one(row, (own["m"], own["g"], factor, momentum), (own["m"], work), None, handle)
        made = _orthogonal(work, count, handle)
        pace = 0.2 * rate * math.sqrt(max(shape))
        # Without a copy, the second result goes to memory that is no longer needed.
        outs = (own["p"], own.get("copy", work))
        run_one(_UPDATE, (own["p"], made, factor, pace, 1.0 - rate * decay), outs, None, handle)
    return p, m


def _checked(arrays: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of a parameter, after a check of all its arrays."""
    first: Layout = operands.layout_of(arrays["p"])
    if len(first.shape) != 2:
        raise ShapeError(f"p has shape {first.shape}; Muon needs matrices: use elementwise.adamw_step for the others")
    for name, array in arrays.items():
        own = operands.layout_of(array)
        check_same_device(own, name, first, "p")
        if own.shape != first.shape:
            raise ShapeError(f"{name} has shape {own.shape}; p has shape {first.shape}")
        if not info(own.dtype, name).is_float:
            raise DTypeError(f"{name} has dtype {own.dtype}; it must be a float")
    return first.shape


def _orthogonal(u: Any, count: int, handle: int) -> Any:
    """Return u with singular values near 1, in other memory than u, which is overwritten."""
    norm, _ = elementwise.clip_grad_norm(u, None, write=False, stream=handle)
    elementwise.divide(u, elementwise.add(norm, 1e-7, stream=handle), out=u, stream=handle)
    # The smaller of x xᵀ and xᵀ x is computed.
    is_tall = u.shape[0] > u.shape[1]
    x: Any = u.T if is_tall else u
    own = operands.layout_of(u)
    place = argument_of(own.device)
    others = [creation.empty(own.shape, own.dtype, device=place, stream=handle) for _ in range(2)]
    for k in range(count):
        s = gemm.matmul(x, x.T, stream=handle)
        t = gemm.matmul(s, s, alpha=_C, c=s, beta=_B, stream=handle)
        out = others[k % 2].T if is_tall else others[k % 2]
        x = gemm.matmul(t, x, c=x, beta=_A, out=out, stream=handle)
    return x.T if is_tall else x
