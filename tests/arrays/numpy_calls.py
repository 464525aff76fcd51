"""NumPy's functions, methods and operators as programs call them: lines that are run on NumPy's arrays and on others.

A line's result on a device array must be NumPy's, in values, dtype and shape, and so must be what it leaves in its
arguments and whether writing to the result writes to them; or it raises one of numbacc's errors.
"""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

import itertools
import re

import numpy as np

import numbacc

FLOATS = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])
WHOLE = np.array([[3, 1, 2], [5, -4, 0]], np.int32)

#: By names that lines call them by: of every kind of dtype, of every rank from 0, without elements, strided.
HOST = {
    "x": FLOATS,
    "f": FLOATS.astype(np.float32),
    "h": FLOATS.astype(np.float16),
    "i": WHOLE,
    "l": np.array([[2**62, -(2**63), 7], [2**63 - 1, 0, -1]], np.int64),
    "j": np.array([[2**30, -(2**31), 7], [2**31 - 1, 0, -1]], np.int32),
    "u": np.array([[3, 250, 2], [5, 4, 0]], np.uint8),
    "k": np.array([[100, -128, 127], [5, -4, 0]], np.int8),
    "b": WHOLE > 1,
    "z": FLOATS + 1j * FLOATS[::-1],
    "c": (FLOATS - 1j * FLOATS[::-1]).astype(np.complex64),
    "n": np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 1.0]], np.float32),
    "v": np.array([4.0, -1.0, 2.5]),
    "w": np.array([2, 3, 4], np.int32),
    "m": np.array([True, False, True]),
    "a": np.arange(12, dtype=np.float32).reshape(2, 3, 2) - 4,
    "q": np.array([[2.0, 1.0, 0.5], [-1.0, 3.0, 2.0], [0.25, -2.0, 1.0]], np.float32),
    "e": np.zeros((0, 3)),
    "d": np.zeros((2, 0), np.int32),
    "s": np.array(2.5),
    "r": np.array(-3, np.int32),
    "o": np.array([[7.0]], np.float32),
}
#: Which of them stand for X in a line: of every dtype and rank, some of each kind, those that are real.
EVERY = "xfhijlukbzcnvwmaqedsro"
SOME = "xikbzvea"
AXES = ("", ", 0", ", axis=-1", ", axis=1", ", axis=(0, 1)", ", axis=()", ", axis=None", ", axis=5", ", axis=-3",
        ", axis=1.0", ", axis=(0, 0)", ", axis='a'", ", axis=np.int64(0)")  # fmt: skip
ONE_AXIS = (
    "",
    ", 0",
    ", axis=-1",
    ", axis=1",
    ", axis=None",
    ", axis=5",
    ", axis=-3",
    ", axis=1.0",
    ", axis=np.int64(0)",
)
NUMBERS = ("0", "2", "-1", "2.5", "True", "1j", "np.int8(2)", "np.float32(2.5)", "np.float64(3)", "np.int64(2)",
           "np.bool_(True)", "300", "2**40", "np.nan", "np.inf", "None", "'a'", "[1, 2, 3]", "[[1.0], [2.0]]", "(1, 2, 3)",
           "np.array([1., 2, 3])", "np.array(2.0)", "X", "v", "w", "b", "f", "z", "s")  # fmt: skip
OTHERS = ("X", "x", "v", "i", "b", "s", "2", "2.5", "True", "1j", "None", "[1, 2, 3]", "[[1, 2, 3]]", "np.float32(1)",
          "np.array([1., 2, 3])", "np.array(2.0)", "'a'")  # fmt: skip


UNARY = (
    "degrees",
    "rad2deg",
    "radians",
    "deg2rad",
    "fabs",
    "rint",
    "signbit",
    "modf",
    "reciprocal",
    "exp",
    "log",
    "sqrt",
    "sin",
    "abs",
    "sign",
    "negative",
    "positive",
    "conj",
    "isnan",
    "isfinite",
    "isinf",
    "floor",
    "ceil",
    "trunc",
    "square",
    "cbrt",
    "exp2",
    "expm1",
    "logical_not",
    "invert",
    "tanh",
    "arcsinh",
    "bitwise_count",
    "spacing",
    "frexp",
)
BINARY = (
    "heaviside",
    "float_power",
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "nextafter",
    "hypot",
    "arctan2",
    "logaddexp",
    "ldexp",
    "equal",
    "less",
    "greater_equal",
    "not_equal",
    "logical_and",
    "logical_xor",
    "bitwise_and",
    "left_shift",
    "right_shift",
    "gcd",
    "divmod",
)


def grid(template, **choices):
    """A template's lines: each choice of a name's values by each of the others'."""
    names = list(choices)
    for values in itertools.product(*(choices[name] for name in names)):
        line = template
        for name, value in zip(names, values, strict=True):
            line = line.replace(name, value)
        yield line


def answer(line, arrays):
    """The result of a line, or the exception that it raises."""
    try:
        return eval(line, {"np": np, **arrays})
    except Exception as error:
        return error


def on_host(found):
    if isinstance(found, (tuple, list)):
        return [on_host(each) for each in found]
    if hasattr(found, "_numbacc_layout"):
        return numbacc.asnumpy(found)
    return np.asarray(found) if isinstance(found, (np.ndarray, np.generic)) else found


def difference(found, wanted, loose=1):
    """How a result differs from NumPy's, in words; "" where it does not."""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{found} for {wanted}"
        return next(filter(None, map(difference, found, wanted, itertools.repeat(loose))), "")
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray):
            return f"{type(found).__name__} for an array"
        if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
            return f"{found.dtype} {found.shape} for {wanted.dtype} {wanted.shape}"
        rtol = 8 * loose * float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0
        with np.errstate(all="ignore"):
            if not np.allclose(found, wanted, rtol, rtol, equal_nan=True) or (
                not rtol and not np.array_equal(found, wanted)
            ):
                return f"{found.tolist()} for {wanted.tolist()}"
        return ""
    return "" if type(found) is type(wanted) and found == wanted else f"{found!r} for {wanted!r}"


def members(found):
    return [each for one in found for each in members(one)] if isinstance(found, (tuple, list)) else [found]


def changed(here, host, loose):
    """Which arguments differ from NumPy's after a line, in words."""
    with np.errstate(all="ignore"):
        for name, array in host.items():
            wrong = difference(numbacc.asnumpy(here[name]), array, loose)
            if wrong:
                return f"it leaves {name} as {wrong}"
    return ""


def compared(line, put, loose=1):
    """(what is wrong with a line's result on arrays that `put` makes of NumPy's, "" where nothing is; whether there is
    a result)."""
    words = set(line.replace("(", " ").replace(")", " ").replace("[", " ").replace(",", " ").replace(".", " ")
                .replace("]", " ").replace("=", " ").replace("*", " ").split())  # fmt: skip
    used = [name for name in HOST if name in words]
    host = {name: HOST[name].copy() for name in used}
    here = {name: put(HOST[name].copy()) for name in used}
    with np.errstate(all="ignore"):
        wanted = answer(line, host)
        found = answer(line, here)
    if isinstance(found, Exception):
        same = isinstance(wanted, Exception) and type(found) in (type(wanted), TypeError, IndexError)
        if isinstance(found, numbacc.Error) or same:
            return "", False
        return f"{type(found).__name__}: {found}", False
    if isinstance(wanted, Exception):
        return f"a result, where NumPy raises {type(wanted).__name__}: {wanted}", True
    wrong = difference(on_host(found), on_host(wanted), loose) or changed(here, host, loose)
    if wrong:
        return wrong, True
    for mine, theirs in zip(members(found), members(wanted), strict=True):
        if not isinstance(theirs, np.ndarray) or not theirs.flags.writeable or not hasattr(mine, "_numbacc_layout"):
            continue
        value = True if theirs.dtype == bool else 55
        try:
            mine[...] = value
        except numbacc.Error:
            continue
        theirs[...] = value
        wrong = changed(here, host, loose)
        if wrong:
            return f"after writing to the result {wrong}", True
    return "", True


#: All lines, by templates and the values of their names.
GRIDS = [
    grid("np.average(X A, weights=W)", X=EVERY, A=AXES[:6], W=("X", "v", "w", "None", "[1, 2, 3]", "2", "m", "u")),
    grid("np.average(a, A, weights=W)", A=("(0, 1)", "(1, 0)", "(0,)", "(1, 2)", "(2, 1)", "None"), W=("x", "x.T", "q[:, :2]", "q[:2]", "v", "a")),
    grid("np.F(X, Y)", F=("isclose", "allclose"), X=EVERY, Y=NUMBERS),
    grid("np.F(Y, X)", F=("isclose", "allclose"), X="xfijkubzn", Y=("2", "-1", "2.5", "True", "1j", "np.int8(2)", "np.float64(3)", "[1, 2, 3]", "None")),
    grid("np.isclose(X, Y, R)", X="xijbn", Y=("X", "1"), R=("rtol=0", "atol=2", "0, 3", "rtol=v", "equal_nan=True", "rtol='a'", "atol=None")),
    grid("np.fft.F(X K)", F=("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift", "ifftshift"), X="xfzcvas", K=("", ", axis=0", ", axis=5")),
    grid("np.fft.F(X K)", F=("fft", "ifft", "rfft", "irfft"), X="xzv", K=(", 2", ", 4", ", norm='ortho'", ", norm='x'", ", n=0", ", n=None", ", 2.0")),
    grid("np.fft.F(X K)", F=("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"), X="xza", K=("", ", axes=(0, 1)", ", axes=(1, 0)", ", s=(2, 2)", ", norm='forward'", ", axes=(0, 5)")),
    grid("np.linalg.vector_norm(X, ord=K)", X="xzv", K=("1", "2", "np.inf", "0", "3", "'fro'", "2, axis=0", "2, keepdims=True", "2, axis=(0, 1)")),
    grid("np.linalg.matrix_norm(X, K)", X="xza", K=("ord='fro'", "ord=2", "keepdims=True")),
    grid("np.linalg.norm(X, K)", X="xva", K=("1", "2", "'fro'", "np.inf", "None, 0", "2, -1", "1, axis=1, keepdims=True", "'fro', (0, 1)", "3", "None, (0, 1)")),
    grid("np.where(X, Y)", X="bmxi", Y=("x, 2", "2, x", "x, i", "x, [1, 2, 3]", "v, x", "2, 3", "x", "np.array([1., 2, 3]), x", "None, x")),
    grid("np.result_type(X, Y)", X="xfiub", Y=("2", "2.5", "'f4'", "v")),
    grid("np.can_cast(X, K)", X="xiub", K=("'f4'", "'i1'", "'i8', 'same_kind'")),
    grid("np.unstack(X, axis=K)", X="xva", K=("0", "1", "-1", "5")),
    grid("np.F(X)", F=("mean", "amax", "amin"), X=EVERY),
    grid("np.cumprod(X, K)", X="xiuv", K=("0", "1", "None", "0, 'float32'", "dtype='int8'")),
    grid("np.F(X, include_initial=True, axis=0)", F=("cumulative_sum", "cumulative_prod"), X="xivubsae"),
    grid("np.F(X A)", F=("flip", "cumsum", "cumprod", "diff", "argmax", "argmin", "unstack", "cumulative_sum"), X=SOME, A=ONE_AXIS),
    grid("np.F(X A)", F=("ptp", "count_nonzero", "sum", "prod", "max", "min", "mean", "any", "all", "var", "std", "squeeze"), X=SOME, A=AXES),
    grid("np.F(X A, keepdims=K)", F=("count_nonzero", "sum", "max", "argmax", "average", "ptp", "mean", "any", "std"), X="xib", A=("", ", 0", ", axis=(0, 1)"), K=("True", "False", "1", "None")),
    grid("np.F(X)", F=("ravel", "transpose", "fliplr", "flipud", "atleast_1d", "atleast_2d", "atleast_3d", "rot90", "diag", "tril", "triu", "trace", "diagonal", "matrix_transpose", "real", "imag", "angle", "iscomplex", "isreal", "iscomplexobj", "isrealobj", "isposinf", "isneginf", "nan_to_num", "round", "around", "fix", "copy", "zeros_like", "ones_like", "shape", "ndim", "size", "cumsum", "broadcast_arrays", "meshgrid", "vstack", "hstack", "dstack", "column_stack", "concatenate", "stack", "linalg.norm", "linalg.vector_norm", "linalg.matrix_norm", "linalg.matrix_transpose", "linalg.trace", "linalg.diagonal", "modf"), X=EVERY),
    grid("np.rot90(X, K)", X="xvas", K=("0", "1", "2", "3", "-1", "5", "1.0", "True", "np.int64(1)", "None", "1, (0, 1)", "1, (1, 0)", "1, (0, -1)", "1, (0, 0)", "1, (0, -2)", "1, (0, 2)", "1, [1, 0]", "1, (0,)")),
    grid("np.roll(X, S)", X="xvaedsb", S=("0", "1", "-1", "7", "1.0", "True", "np.int64(1)", "None", "[1]", "(1, 2)", "1, 0", "1, -1", "[1, 1], axis=(0, 1)", "(1, 1), (0, 0)", "1, axis=(0, 1)", "[1, 2], axis=0", "np.array([1, 1]), axis=(0, 1)", "(1, 2), axis=1", "1, 5", "[[1, 2], [3, 4]], axis=0")),
    grid("np.tile(X, R)", X="xvaedsb", R=("0", "1", "2", "np.int64(2)", "(2,)", "[2, 1]", "(2, 1, 3)", "-1", "True", "1.5", "()", "None", "np.array([2, 1])", "(0, 2)")),
    grid("np.repeat(X, R)", X="xvaedsb", R=("0", "1", "2", "np.int64(2)", "[2]", "[1, 2]", "2, 0", "2, -1", "2, axis=1", "2, axis=None", "-1", "True", "1.5", "None", "[1, 2], 0", "[1, 2, 3], 1", "np.array(2)", "np.array([2])", "2, 5")),
    grid("np.array_split(X, R)", X="xvedas", R=("1", "2", "3", "5", "0", "-1", "[1]", "[1, 2]", "(1, 1)", "[]", "2, 1", "2, -1", "[2, 1]", "[-1]", "[5]", "2.0", "2, axis=5", "np.int64(2)", "np.array([1])", "True", "None", "[1.0]", "[[1]]", "[None]")),
    grid("np.split(X, R)", X="xveda", R=("1", "2", "3", "5", "0", "-1", "[1]", "[1, 2]", "2, 1", "3, -1", "2.0", "2, axis=5", "np.int64(2)", "np.array([1])", "True", "None")),
    grid("np.F(X, R)", F=("hsplit", "vsplit", "dsplit"), X="xveas", R=("1", "2", "3", "[1]", "[0, 2]", "0")),
    grid("np.diff(X, N)", X="xivbuzedas", N=("0", "1", "2", "3", "5", "-1", "True", "1.0", "np.int64(1)", "None", "1, 0", "2, -1", "1, 5")),
    grid("np.diff(X, prepend=P)", X="xv", P=("0", "X", "None")),
    grid("np.diag(X, K)", X="xvqimbed", K=("0", "1", "-1", "5", "-5", "1.0", "True", "None", "np.int64(1)")),
    grid("np.diagonal(X, K)", X="xvqaed", K=("0", "1", "-1", "5", "1.0", "0, 1, 0", "0, 0, 0", "0, 0, -1", "0, 5, 0", "None", "True")),
    grid("np.trace(X, K)", X="xvqaiub", K=("0", "1", "-1", "5", "0, 1, 0", "0, 0, 0", "0, 0, 1, 'float32'", "0, 0, 1, 'int8'", "1.0")),
    grid("X.trace(K)", X="xqaiub", K=("", "1", "-1", "0, 1, 0", "0, 0, 1, 'float32'")),
    grid("np.F(X, K)", F=("tril", "triu"), X="xvqaibzed", K=("0", "1", "-1", "5", "1.0", "True", "None", "np.int64(1)")),
    grid("np.F(X, K)", F=("reshape", ), X="xvaedso", K=("-1", "(3, 2)", "(6,)", "6", "(-1, 1)", "(2, -1)", "[3, 2]", "(0,)", "(0, -1)", "()", "(2.0, 3)", "(-1, -1)", "None", "np.int64(6)", "(-2,)", "True", "(3, 2), 'F'", "(3, 2), order='C'", "(3, 2), order='A'")),
    grid("np.F(X, K)", F=("ravel", ), X="xvaedso", K=("'C'", "'F'", "'K'", "'A'", "None", "'x'")),
    grid("X.ravel(K)", X=("x", "x.T", "x[::2]", "v[::2]", "v[::-1]", "v[:2]", "x[:, 1]", "x[:1]", "x[0]", "a", "a.T", "a[:, ::2]", "s", "e", "d", "x[:, :2]", "x[:0]", "o", "np.broadcast_to(v, (2, 3))"), K=("", "'C'", "'F'", "'K'", "'A'")),
    grid("np.ravel(X)", X=("x.T", "x[::2]", "v[::2]", "v[::-1]", "x[:, 1]", "a[:, ::2]")),
    grid("X.reshape(K)", X=("x", "x.T", "x[::2]", "v[::2]", "a.T", "e"), K=("-1", "6", "3, 2", "(3, 2)", "2, -1", "-1, order='F'", "()", "-1, copy=True", "(-1,), copy=False", "-1, copy=None")),
    grid("X.flatten(K)", X=("x", "x.T", "v[::2]", "s", "e"), K=("", "'C'", "'F'", "'K'", "'A'")),
    grid("np.F(X, K)", F=("broadcast_to", ), X="xvseo", K=("(2, 3)", "3", "(3,)", "(4, 2, 3)", "(1, 2, 3)", "()", "(0, 3)", "-1", "(2.0, 3)", "None", "[2, 3]", "np.int64(3)")),
    grid("np.F(X, K)", F=("expand_dims", ), X="xvsea", K=("0", "-1", "1", "(0, 1)", "(0, 0)", "5", "-5", "()", "[0]", "1.0", "True", "None")),
    grid("np.squeeze(X K)", X=("o", "x[None]", "x", "s", "e", "v[:, None]"), K=("", ", 0", ", -1", ", (0,)", ", (0, 1)", ", ()", ", 1.0", ", 5")),
    grid("np.swapaxes(X, K)", X="xvsa", K=("0, 1", "0, 0", "-1, 0", "0, 5", "1.0, 0", "None, 0", "True, 0")),
    grid("np.moveaxis(X, K)", X="xvsa", K=("0, 1", "0, 0", "-1, 0", "0, 5", "1.0, 0", "(0, 1), (1, 0)", "(0, 1), (0, 0)", "[0], [1]", "(0, 1), 0", "(), ()", "True, 0")),
    grid("np.transpose(X K)", X="xvsa", K=("", ", (1, 0)", ", (0, 1)", ", (0, 0)", ", (0,)", ", None", ", (-1, 0)", ", (2, 0, 1)", ", [1, 0]", ", 0", ", ()", ", (1.0, 0)")),
    grid("X.transpose(K)", X="xvsa", K=("", "1, 0", "(1, 0)", "None", "0", "2, 0, 1")),
    grid("np.F(X K)", F=("zeros_like", "ones_like"), X="xibzedsh", K=(", dtype='float32'", ", dtype=int", ", dtype=bool", ", 'complex64'", ", dtype='S'", ", dtype=None", ", shape=(2,)", ", order='F'", ", subok=False", ", None, 'K'", ", dtype='datetime64[s]'")),
    grid("np.full_like(X, K)", X="xibzedshu", K=("0", "1", "2.5", "True", "1j", "300", "-1", "np.nan", "[1, 2, 3]", "v", "s", "X", "None", "'a'", "np.float64(2.5)", "2, dtype='int8'", "2.5, dtype='float32'", "np.array([1., 2, 3])")),
    grid("np.F(L)", F=("vstack", "hstack", "dstack", "column_stack", "concatenate", "stack"), L=("[X, Y]", "[X]"), X="xfivbsaez", Y=OTHERS),
    grid("np.F((X, X), K)", F=("concatenate", "stack"), X="xivsab", K=("0", "1", "-1", "None", "5", "1.0", "dtype='float32'", "0, dtype='int8', casting='unsafe'", "dtype='int8'")),
    grid("np.F(L)", F=("vstack", "hstack", "dstack", "column_stack", "concatenate", "stack"), L=("x", "a", "()", "[v, v, v]", "(v, w)", "[x, 5]", "v", "[s, 2]", "[v, 2]")),
    grid("np.append(X, Y A)", X="xfivbsez", Y=OTHERS, A=("", ", 0", ", axis=1", ", axis=None", ", axis=-1")),
    grid("np.F(X, Y)", F=("outer", "inner", "dot", "vdot", "matmul", "vecdot", "linalg.outer", "linalg.matmul", "linalg.vecdot"), X="xfivbsqz", Y=(*OTHERS, "q", "w", "x.T", "X.T", "z", "e", "c", "f")),
    grid("np.F(Y, X)", F=("outer", "inner", "dot", "vdot", "matmul", "vecdot"), X="xivs", Y=("2", "2.5", "True", "1j", "[1, 2, 3]", "np.float32(1)", "np.array([1., 2, 3])", "None")),
    grid("X.dot(Y)", X="xivs", Y=OTHERS),
    grid("X @ Y", X="xivsq", Y=(*OTHERS, "q", )),
    grid("np.F(X, Y)", F=("matvec", "vecmat"), X="xivsqz", Y=("v", "w", "q", "X", "2", "[1, 2, 3]")),
    grid("np.F(X, X.T)", F=("dot", "matmul", "inner", "vdot"), X="xfhijlukbzced"),
    grid("np.tensordot(X, Y, A)", X="xqivas", Y=("X", "q", "2", "v", "[1, 2, 3]"), A=("0", "1", "2", "([0], [0])", "(0, 0)", "((0, 1), (0, 1))", "((0, 1), (1, 0))", "(1, 1)", "-1", "5", "1.0", "True", "((), ())", "[[0], [0]]", "(0, 5)", "([0, 0], [0, 0])", "(-1, -1)", "None", "np.int64(1)", "((0, 1), 0)", "(0,)")),
    grid("np.linalg.tensordot(X, X, axes=A)", X="xq", A=("0", "1", "2", "(0, 0)")),
    grid("np.vecdot(X, Y, axis=A)", X="xqza", Y=("X", "v"), A=("0", "-1", "1", "5", "1.0", "None")),
    grid("np.linalg.vecdot(X, X, axis=A)", X="xqza", A=("0", "-1", "1", "5")),
    grid("np.dot(X, Y, out=O)", X="q", Y="q", O=("np.zeros((3, 3), np.float32)", "None", "q", "f")),
    grid("np.broadcast_arrays(X, Y)", X="xivsed", Y=OTHERS),
    grid("np.meshgrid(X, Y K)", X="xvwsm", Y=("v", "w", "x", "s", "2.0", "[1, 2]", "None", "3"), K=("", ", indexing='ij'", ", indexing='xx'", ", copy=False", ", sparse=True")),
    grid("np.meshgrid(K)", K=("v", "v, w, v", "s", "v, 2, w", "v, w, v, indexing='ij'")),
    grid("np.atleast_N(X, Y)", N="123", X="xvs", Y=OTHERS),
    grid("np.array_equal(X, Y)", X="xijlubvsezn", Y=(*OTHERS, "l", "j", "u", "X + 0")),
    grid("np.array_equiv(X, Y)", X="xivsezn", Y=OTHERS),
    grid("np.array_equal(n, n, equal_nan=K)", K=("True", "False")),
    grid("np.copyto(X, Y)", X="xfhijlukbzvs", Y=(*NUMBERS, "i", "u", "x", "h", "z", "b", "l", "q")),
    grid("(np.copyto(X, Y), X)", X="xfhijlukbzvs", Y=(*NUMBERS, "i", "u", "x", "h", "z", "b", "l", "q")),
    grid("(np.copyto(X, Y, K), X)", X="xikb", Y=("1.5", "2", "X", "v", "i", "300", "np.float64(1.5)"), K=("'unsafe'", "'safe'", "'no'", "'equiv'", "'same_kind'", "'x'", "where=b", "where=True", "where=False", "where=m", "where=[True, False, True]", "where=i", "casting='unsafe', where=b", "where=np.array([True, False, True])")),
    grid("(X.fill(Y), X)", X="xfikubzvse", Y=(*NUMBERS, "o", "s", "[5]", "np.array([5.])", "o[0]")),
    grid("np.take(X, I)", X="xvasbzed", I=("0", "-1", "5", "[0, 1]", "[[0, 1], [1, -1]]", "w", "0, 0", "[0], 0", "[1, 0], axis=1", "-1, axis=-1", "1.0", "[1.0]", "True", "None", "[]", "[], 0", "np.array([0, 1])", "np.int64(0)", "[5], mode='wrap'", "[5], mode='clip'", "[0], mode='raise'", "0, 5", "[0, 3], 1", "m", "w, 0", "s", "[True]")),
    grid("X.take(I)", X="xv", I=("0", "[0, 1]", "[0], 0", "-1, 1")),
    grid("np.take_along_axis(X, I)", X="x", I=("np.array([[0, 1, 0]]), 0", "w[None], 0", "i, 1", "i, None")),
    grid("np.round(X, K)", X="xfhiubzns", K=("0", "1", "-1", "2", "20", "-5", "1.0", "True", "None", "np.int64(1)", "400", "-400")),
    grid("X.round(K)", X="xiz", K=("", "1", "-1")),
    grid("np.nan_to_num(X, K)", X="xnzibcsh", K=("True", "copy=False", "nan=1.5", "posinf=7", "neginf=2", "nan=None", "nan='a'", "posinf=v", "nan=1j", "nan=[1.0, 2.0, 3.0]")),
    grid("(np.nan_to_num(n, copy=False), n)"),
    grid("np.F(X)", F=("isposinf", "isneginf"), X=EVERY),
    grid("np.isposinf(n, K)", K=("b", "out=b", "m", "out=None")),
    grid("np.fix(n, K)", K=("f", "out=f")),
    grid("np.fix(X)", X=EVERY),
    grid("np.astype(X, K)", X="xiubzn", K=("'float32'", "int", "bool", "'int8'", "complex", "'S'", "'datetime64[s]'", "None")),
    grid("X.astype(K)", X="xiubznk", K=("'float32'", "int", "bool", "'int8'", "complex", "'uint8'", "'float16'", "'int8', casting='safe'", "'int64', casting='same_kind'", "'float64', casting='no'", "'f4', 'F'", "'float64', copy=False")),
    grid("np.F(X)", F=UNARY, X=EVERY),
    grid("np.F(X, Y)", F=BINARY, X="xfijubz", Y=("X", "v", "w", "2", "-1", "2.5", "True", "0", "s", "np.int8(2)", "np.float32(2)", "[1, 2, 3]", "None", "'a'", "1j", "b", "300", "2**40", "np.float64(2)")),
    grid("np.F(Y, X)", F=BINARY, X="xfiubz", Y=("2", "-1", "2.5", "True", "0", "np.int8(2)", "np.float32(2)", "[1, 2, 3]", "np.float64(2)")),
    grid("np.F(X, out=O)", F=("degrees", "fabs", "rint", "signbit", "reciprocal", "exp", "abs"), X="xfib", O=("x", "f", "h", "i", "b", "l", "(x,)", "None")),
    grid("np.heaviside(X, Y, out=O)", X="xf", Y=("0.5", "X"), O=("x", "f", "h", "i")),
    grid("np.F.reduce(X A)", F=("add", "multiply", "maximum", "minimum", "logical_or", "logical_and", "subtract"), X="xiubve", A=("", ", axis=None", ", 1", ", axis=(0, 1)", ", keepdims=True", ", 0, 'float32'", ", initial=0", ", dtype='int8'")),
    grid("np.F.accumulate(X A)", F=("add", "multiply", "maximum"), X="xiubve", A=("", ", 1", ", axis=-1", ", dtype='float32'")),
    grid("X.F(A)", F=("sum", "prod", "max", "min", "var", "std", "mean", "any", "all", "cumsum", "cumprod", "argmax", "argmin"), X="xfhiubznesd", A=("", "0", "axis=1", "None", "axis=-1", "axis=(0, 1)", "5")),
    grid("X.F(A)", F=("clip", ), X="xfiubz", A=("0, 2", "0", "None, 2", "max=2", "v, None", "-1, 300", "0.5, 2.5", "[0, 0, 0], 2", "None, None", "2, 1", "np.float64(0.5), 2")),
    grid("np.clip(X, A)", X="xfiubz", A=("0, 2", "0, None", "None, 2", "min=0, max=2", "v, None", "-1, 300", "0.5, 2.5", "[0, 0, 0], 2", "None, None", "2, 1")),
    grid("X.M", M=("T", "mT", "real", "imag", "size", "shape", "nbytes", "itemsize", "ndim", "dtype"), X=EVERY),
    grid("X.F()", F=("conj", "conjugate", "copy", "flatten", "ravel", "squeeze", "item", "diagonal", "trace", "transpose"), X=EVERY),
    grid("(X.real.fill(3), X)", X="xizcbs"),
    grid("(X.imag.fill(3), X)", X="xizcbs"),
    grid("(np.M(X).fill(3), X)", M=("real", "imag"), X="xizcbs"),
    grid("(X.M.__setitem__(K, 5), X)", M=("real", "imag"), X="xizc", K=("...", "slice(None)", "0", "(0, 1)")),
    grid("(setattr(X, 'M', 5), X)", M=("real", "imag"), X="xizc"),
    grid("(X.T.M.fill(3), X)", M=("real", "imag"), X="zc"),
    grid("X.item(K)", X="xvso", K=("", "0", "-1", "5", "0, 1", "(0, 1)", "1.0", "None")),
    grid("X.diagonal(K)", X="xqav", K=("", "1", "0, 1, 0", "-1")),
    grid("X.swapaxes(K)", X="xa", K=("0, 1", "0, 5")),
    grid("X.repeat(K)", X="xv", K=("2", "2, 0", "[1, 2, 3]", "-1")),
    grid("X.copy(K)", X="xa", K=("", "'C'", "'F'", "'K'")),
    grid("X.view(K)", X="xifz", K=("", "'int64'", "'int32'", "'float32'", "'uint8'")),
    grid("X OP Y", X="xfijkubzs", OP=("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", ">=", "&", "|", "^", "<<", ">>", "@"), Y=NUMBERS),
    grid("Y OP X", X="xiubz", OP=("+", "-", "*", "/", "//", "%", "**", "==", "<", "&", "<<", "@"), Y=("2", "2.5", "True", "1j", "np.float32(2)", "[1, 2, 3]", "np.array([1., 2, 3])", "None", "'a'")),
    grid("divmod(X, Y)", X="xiub", Y=("2", "X", "2.5", "v")),
    grid("OP X", X="xfiubz", OP=("-", "~", "abs ", "not ")),
    grid("F(X)", F=("bool", "len", "list", "hash", "abs"), X="xsroebivz"),
    grid("X[K]", X="xvsea", K=("0", "-1", "5", "0, 1", "...", "None", "1:", "::-1", "::2, 1", "b", "[0, 1]", "w", "1.0", "True", "x > 0", ":, None", "0, ...", "np.int64(0)", "5:", "(0, 1, 2, 3)", "'a'")),
    grid("(X.__setitem__(K, Y), X)", X="xiub", K=("0", "...", "(slice(None), 1)", "b", "[0, 1]", "5"), Y=("7", "2.5", "X", "v", "w", "[1, 2, 3]", "[1, 2]", "300", "1j", "None", "np.array([1., 2, 3])", "np.nan", "s")),
    grid("(X.__iadd__(Y), X)", X="xfiub", Y=("2", "2.5", "v", "X", "True", "1j", "300")),
    grid("2 in X", X="xv"),
]
LINES = [*dict.fromkeys(line for lines in GRIDS for line in lines)]

#: Differences that are meant, and errors that NumPy finds by reading elements, for which numbacc would have to wait.
KNOWN = [
    (r"np.average", "ZeroDivisionError"),  # NaN and infinities instead
    (r"np.take(_along_axis)?\(.*\b[wi]\b|np.take\(.*w\[", "IndexError"),  # NaN, or an element, instead
    (r"np\.power\(.*|.* \*\* .*", "Integers to negative integer powers"),  # of arrays of exponents
    (r"np\.positive\([bm]\)|\+ b", "UFuncTypeError"),  # a copy
    (r".*astype\(.*", " for "),  # out of an integer's range: the nearest integer, undefined in NumPy
    (r"np\.\w+\([fb], out=\(?x.*|np\.\w+\(b, out=[fx]\)", " for "),  # computed in the result's precision
    (r"np\.full_like\(b, .*", "OverflowError"),
]


def is_known(line, wrong):
    return any(re.fullmatch(pattern, line) and words in wrong for pattern, words in KNOWN) or any(
        re.match(pattern, line) and words in wrong for pattern, words in KNOWN[:2]
    )
