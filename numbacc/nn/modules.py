"""Modules: objects with parameters, which compute variables from variables, or arrays from arrays.

A module is a plain class. Its attributes that are parameters, modules, or lists of these belong to it. `initialize`
puts all parameters of a model into one flat buffer, and their gradients into another, so that optimizers and
communication handle a few large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from .. import elementwise
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..base.dtypes import FLOATS
from ..base.dtypes import dtype as dtype_named
from ..errors import DTypeError, OptionError, ShapeError
from . import functions
from .tape import Parameter, Tape, recording

M = TypeVar("M", bound="Module")

#: Each parameter starts at a multiple of this many elements: 128 bytes in 16 bits.
_ALIGNED = 64
#: The distance between the seeds of two ranks: 2⁶⁴ over the golden ratio, so that no multiples of it are close.
_RANKS_APART = 0x9E3779B97F4A7C15


def _normal(rng: Any, shape: Sequence[int], std: float) -> Any:
    return rng.standard_normal(shape, np.float32) * np.float32(std)


def normal(std: float) -> Callable[..., Any]:
    """Return an initial value for a `Parameter`: normally distributed elements with this standard deviation.

    Example:
        >>> weight = nn.Parameter((3, 4), nn.normal(0.02))
        >>> weight.shape
        (3, 4)
    """
    return partial(_normal, std=std)


class Buffers:
    """The flat buffers of a model's parameters. Parameters with weight decay come first.

    Attributes:
        values, gradients: arrays of rank 1. Between parameters are zeros, so that each starts at a multiple of 64.
        parameters: all parameters, in the order of their places.
        decayed: the number of elements that belong to parameters with weight decay.
        position: the position in the sequences of random numbers, an array with one integer. It advances after each
            backward pass with dropout, so that a replayed graph drops other elements.
        rank: the number of this process among several that train together, 0 by default. Each rank's dropout drops
            other elements. `numbacc.distributed.ParallelAdamW.for_model` sets it.
        master: the optimizer's float32 copy of values, if values have 16 bits and an optimizer made one; else None.

    Example:
        >>> buffers = nn.Linear(8, 2).initialize("bfloat16").buffers
        >>> buffers.values.shape, buffers.gradients.dtype.name, buffers.decayed
        ((128,), 'bfloat16', 64)
    """

    def __init__(self, parameters: Sequence[Parameter], dtype: Any, gradient_dtype: Any, rng: Any, device: Any):
        self.parameters = tuple(sorted(parameters, key=lambda each: not each.decay))
        at = self.decayed = 0
        self._places: list[tuple[slice, tuple[int, ...]]] = []
        for each in self.parameters:
            size = prod(each.shape)
            self._places.append((slice(at, at + size), each.shape))
            at += -(-size // _ALIGNED) * _ALIGNED
            self.decayed = at if each.decay else self.decayed
        self.values = creation.zeros(at, dtype, device=device)
        wide = np.float64 if dtype == np.float64 else np.float32
        for each, (span, shape) in zip(self.parameters, self._places, strict=True):
            # One parameter at a time: a whole model may not fit in the host's memory.
            given = each.initial(rng, shape) if callable(each.initial) else each.initial
            if not isinstance(given, (int, float)):
                self.values[span] = np.asarray(np.broadcast_to(given, shape), wide).reshape(-1).astype(dtype)
            elif given:
                self.values[span] = given
        self.gradients = creation.zeros(at, gradient_dtype, device=device)
        self.master: Array | None = None
        self.position = creation.zeros(1, "int64", device=device)
        self.rank = 0
        self._attach()

    def _attach(self) -> None:
        """Make the parameters views of the buffers."""
        for each, (span, shape) in zip(self.parameters, self._places, strict=True):
            each.buffers, each.span = self, span
            each.value, each.gradient = (whole[span].reshape(shape) for whole in (self.values, self.gradients))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._attach()

    def move(self, values: Array, gradients: Array) -> None:
        """Copy the parameters into another array, and use it and another array of gradients from now on.

        Call it before an optimizer is made.

        Args:
            values, gradients: contiguous arrays of the buffers' shapes and dtypes.

        Raises:
            ShapeError, DTypeError: an array does not fit.
        """
        for name, new, old in (("values", values, self.values), ("gradients", gradients, self.gradients)):
            if tuple(new.shape) != tuple(old.shape):
                raise ShapeError(f"{name} has shape {tuple(new.shape)}; it must have {tuple(old.shape)}")
            if new.dtype != old.dtype:
                raise DTypeError(f"{name} has dtype {new.dtype}; it must have {old.dtype}")
            elementwise.copy(old, out=new)
        self.values, self.gradients = values, gradients
        self._attach()

    def advance(self) -> None:
        """Advance the position beyond the random numbers of one backward pass."""
        elementwise.add(self.position, 2**36, out=self.position)


class Module:
    """The base class of modules. Derive from it, create parameters and modules as attributes, and define `__call__`.

    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self, width):
        ...         self.factor = nn.Parameter((width,), 1.0)
        ...     def __call__(self, x):
        ...         return self.factor * x
        >>> Scale(2).initialize("float64", device="cpu")(np.array([1.0, 2.0]))
        array([1., 2.])
    """

    #: Whether products measure algorithms: an argument of `initialize`.
    tune = False
    _buffers: Buffers | None = None
    _seed = 0

    @property
    def buffers(self) -> Buffers:
        """The flat buffers. All modules of a model share them."""
        if self._buffers is None:
            owners = {id(each.buffers): each.buffers for each in self.parameters().values()}
            if len(owners) != 1 or None in owners.values():
                raise OptionError("this module has no buffers yet: call initialize() of the whole model first")
            self._buffers = next(iter(owners.values()))
        return self._buffers

    def _children(self) -> Iterator[tuple[str, Any]]:
        """Yield names and values of attributes; elements of lists and dictionaries one by one."""
        for name, value in vars(self).items():
            if isinstance(value, (list, tuple)):
                yield from ((f"{name}.{k}", each) for k, each in enumerate(value))
            elif isinstance(value, dict):
                yield from ((f"{name}.{k}", each) for k, each in value.items())
            else:
                yield name, value

    def modules(self) -> Iterator[Module]:
        """Yield this module and all modules in it."""
        yield self
        for _, value in self._children():
            if isinstance(value, Module):
                yield from value.modules()

    def parameters(self) -> dict[str, Parameter]:
        """Return all parameters by name, such as "layers.0.up.weight". Each is listed once, under its first name."""
        found: dict[str, Parameter] = {}
        seen: set[Parameter] = set()
        for name, value in self._children():
            inner = {name: value} if isinstance(value, Parameter) else {}
            if isinstance(value, Module):
                inner = {f"{name}.{own}": each for own, each in value.parameters().items()}
            for own, each in inner.items():
                if each not in seen:
                    seen.add(each)
                    found[own] = each
        return found

    def initialize(
        self: M,
        dtype: Any = "float32",
        *,
        seed: int = 0,
        device: Any = None,
        gradient_dtype: Any = None,
        tune: bool = False,
    ) -> M:
        """Make the flat buffers and the initial values, and return the module.

        Args:
            dtype: of the parameters: float32, float64, float16 or bfloat16.
            seed: of the initial values. They do not depend on the device.
            device: as in `numbacc.asarray`: by default a GPU if there is one.
            gradient_dtype: dtype's own by default. With 16 bits, "float32" sums many batches without rounding.
            tune: whether linear layers measure the library's algorithms at the first call of each shape, and keep the
                fastest, also on disk; see `gemm.matmul`. The first steps then take seconds longer.
        """
        own = dtype_named(dtype)
        sums = own if gradient_dtype is None else dtype_named(gradient_dtype)
        if own.name not in FLOATS or sums.name not in FLOATS:
            raise DTypeError(f"dtype={own}, gradient_dtype={sums}: parameters have one of {', '.join(FLOATS)}")
        parameters = list(self.parameters().values())
        self._buffers = Buffers(parameters, own, sums, np.random.default_rng(seed), device)
        for number, each in enumerate(self.modules()):
            # The seeds of a model's modules are far apart, for the calls of each.
            each._buffers, each._seed = self._buffers, (seed * 2**40 + number * 2**20) % 2**63
            each.tune = tune
            each.prepare(own, device)
        return self

    def prepare(self, dtype: Any, device: Any) -> None:
        """Make other arrays of this module alone, such as tables. `initialize` calls it, once for each module."""

    def random(self, tape: Tape) -> tuple[int, Array]:
        """Return a seed and an offset of random numbers, for dropout in one call of this module."""
        number = tape.calls[self]
        tape.calls[self] += 1
        tape.after[self.buffers] = self.buffers.advance
        return (self._seed + number + self.buffers.rank * _RANKS_APART) % 2**63, self.buffers.position

    def state_dict(self) -> dict[str, Array]:
        """Return the parameters' arrays by name. They are views: copy them to keep their values."""
        return {name: each.value for name, each in self.parameters().items()}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Copy arrays by name into the parameters, and into the float32 copy of an optimizer.

        Args:
            state: name -> array of the parameter's shape, on any device, of any float dtype.
            strict: whether the names must be exactly the parameters' names.

        Raises:
            OptionError: names are missing or unknown. ShapeError: a shape differs.
        """
        own = self.parameters()
        if strict and state.keys() != own.keys():
            missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
            raise OptionError(
                f"state lacks {missing} and has the unknown names {unknown}; pass strict=False for others"
            )
        for name in own.keys() & state.keys():
            if tuple(state[name].shape) != own[name].shape:
                raise ShapeError(f"{name} has shape {tuple(state[name].shape)}; it must have {own[name].shape}")
        for name in own.keys() & state.keys():
            each = own[name]
            array = creation.asarray(state[name], device=operands.device_of(each.value))
            elementwise.copy(array, out=each.value)
            if each.buffers.master is not None:
                elementwise.copy(array, out=each.buffers.master[each.span].reshape(each.shape))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class Sequential(Module):
    """Call modules or functions one after the other.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8, activation="gelu"), nn.Linear(8, 2)).initialize(device="cpu")
        >>> model(np.ones((3, 4), "float32")).shape
        (3, 2)
    """

    def __init__(self, *layers: Callable[[Any], Any]):
        self.layers = list(layers)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Linear(Module):
    """Compute act(x w + bias) + residual as one product, with its gradients as two.

    Args:
        n_in, n_out: lengths of the last axes of x and of the result.
        bias: whether there is a bias, initially 0.
        activation: None, "relu" or "gelu" (the tanh form).
        std: the standard deviation of the initial weight (n_in, n_out); 1/√n_in by default.

    Example:
        >>> nn.Linear(4, 2).initialize(device="cpu")(np.ones((3, 4), "float32")).shape
        (3, 2)
    """

    def __init__(
        self, n_in: int, n_out: int, bias: bool = True, activation: str | None = None, *, std: float | None = None
    ):
        self.weight = Parameter((n_in, n_out), normal(n_in**-0.5 if std is None else std))
        self.bias = Parameter((n_out,)) if bias else None
        self.activation = activation

    def __call__(self, x: Any, residual: Any = None, *, before: Any = None) -> Any:
        """Return the result. `before` is applied to x first, such as `RMSNorm.before`; its result is not kept."""
        return functions.linear(x, self.weight, self.bias, self.activation, residual, before=before, tune=self.tune)


class Embedding(Module):
    """Look up rows of a table, such as the vectors of tokens.

    Args:
        rows, width: the shape of the table.
        std: the standard deviation of its initial elements.

    Example:
        >>> nn.Embedding(96, 16).initialize(device="cpu")(np.array([[3, 5]])).shape
        (1, 2, 16)
    """

    def __init__(self, rows: int, width: int, *, std: float = 0.02):
        self.weight = Parameter((rows, width), normal(std))

    def __call__(self, tokens: Any) -> Any:
        return functions.embedding(tokens, self.weight)

    def logits(self, x: Any) -> Any:
        """Return x wᵀ, the logits of an output layer that shares this table (Press and Wolf 2017, arXiv:1608.05859)."""
        return functions.linear(x, self.weight, transposed=True, tune=self.tune)


class RMSNorm(Module):
    """Divide rows by their root mean square, times a weight that is 1 initially; see `elementwise.rms_norm`.

    Example:
        >>> nn.RMSNorm(2, eps=0.0).initialize(device="cpu")(np.array([[3.0, -3.0]], "float32"))
        array([[ 1., -1.]], dtype=float32)
    """

    def __init__(self, width: int, *, eps: float = 1e-6):
        self.weight, self.eps = Parameter((width,), 1.0), eps

    @property
    def before(self) -> functions.NormBefore:
        return functions.NormBefore(self.weight, None, self.eps)

    def __call__(self, x: Any) -> Any:
        return functions.applied(self.before, x)


class LayerNorm(Module):
    """Normalize rows to mean 0 and variance 1, times a weight, plus a bias; see `elementwise.layer_norm`.

    Example:
        >>> nn.LayerNorm(2, eps=0.0).initialize(device="cpu")(np.array([[2.0, 6.0]], "float32"))
        array([[-1.,  1.]], dtype=float32)
    """

    def __init__(self, width: int, *, eps: float = 1e-5):
        self.weight, self.bias, self.eps = Parameter((width,), 1.0), Parameter((width,)), eps

    @property
    def before(self) -> functions.NormBefore:
        return functions.NormBefore(self.weight, self.bias, self.eps)

    def __call__(self, x: Any) -> Any:
        return functions.applied(self.before, x)


class GatedMLP(Module):
    """Compute (gate(x w_a) * (x w_b)) w_down + residual, the MLP of Llama (Shazeer 2020, arXiv:2002.05202).

    Args:
        width, inner: the length of rows, and of the hidden layer's rows.
        kind: "swiglu", "geglu", "geglu_tanh", "reglu" or "glu".
        bias: whether the products have biases.
        std, out_std: standard deviations of the initial weights; 1/√width and 1/√inner by default.
        recomputes: whether the backward pass computes the gate's result again, in the kernel of its gradient, so that
            it is not kept until then.

    Example:
        >>> nn.GatedMLP(8, 16).initialize(device="cpu")(np.ones((3, 8), "float32")).shape
        (3, 8)
    """

    def __init__(
        self,
        width: int,
        inner: int,
        kind: str = "swiglu",
        *,
        bias: bool = False,
        std: float | None = None,
        out_std: float | None = None,
        recomputes: bool = False,
    ):
        self.up, self.down = Linear(width, 2 * inner, bias, std=std), Linear(inner, width, bias, std=out_std)
        self.kind, self.recomputes = kind, recomputes

    def __call__(self, x: Any, residual: Any = None, *, norm: Any = None) -> Any:
        u, gate = self.up(x, before=None if norm is None else norm.before), functions.GateBefore(self.kind)
        if self.recomputes:
            return self.down(u, residual, before=gate)
        return self.down(functions.applied(gate, u), residual)


class Conv(Module):
    """A convolution in one, two or three dimensions, with a bias; see `conv.forward`.

    Args:
        channels_in, channels_out: numbers of channels.
        kernel: lengths of the kernel, one for each spatial dimension, such as (3, 3).
        bias: whether there is a bias, initially 0.
        stride, padding, dilation, groups: as in `conv.forward`.
        layout: the order of axes: "NCHW" or "NHWC", and so on; by default with the channels first.

    Example:
        >>> nn.Conv(3, 8, (3, 3), padding=1).initialize(device="cpu")(np.ones((1, 3, 5, 5), "float32")).shape
        (1, 8, 5, 5)
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: Sequence[int],
        bias: bool = True,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
    ):
        layout = layout or "NC" + "DHW"[3 - len(kernel) :]
        own = channels_in // groups
        shape = (channels_out, own, *kernel) if layout.startswith("NC") else (channels_out, *kernel, own)
        self.weight = Parameter(shape, normal((own * prod(kernel)) ** -0.5))
        self.bias = Parameter((channels_out,)) if bias else None
        self.options: dict[str, Any] = {
            "stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "layout": layout,
        }  # fmt: skip

    def __call__(self, x: Any) -> Any:
        return functions.conv(x, self.weight, self.bias, **self.options)


class Dropout(Module):
    """Set elements to 0 with probability p while a tape records, and divide the others by 1 - p.

    The mask is not stored: the backward pass computes it again. Without a tape, x is returned.

    Example:
        >>> nn.Dropout(0.5).initialize()(np.ones(3))
        array([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5):
        self.p = functions.check_probability(p)

    def __call__(self, x: Any) -> Any:
        tape = recording()
        if tape is None or not self.p:
            return x
        return functions.dropout(x, self.p, *self.random(tape))


class CrossEntropy(Module):
    """The mean cross entropy of logits and target classes: `cross_entropy` with its options.

    Example:
        >>> float(nn.CrossEntropy()(np.zeros((2, 4)), np.array([1, 3])).round(4))
        1.3863
    """

    def __init__(self, *, reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0):
        self.options: dict[str, Any] = {
            "reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing,
        }  # fmt: skip

    def __call__(self, logits: Any, target: Any) -> Any:
        return functions.cross_entropy(logits, target, **self.options)


class LinearCrossEntropy(Module):
    """The last layer of a classifier or a language model, with its loss. Logits of more than 1 GiB are made in chunks.

    Args:
        n_in, classes: the shape of the weight.
        embedding: an `Embedding` (classes, n_in) whose table is shared as the weight.
        std: the standard deviation of the initial weight; 1/√n_in by default.
        reduction, ignore_index, label_smoothing: as in `linear_cross_entropy`.

    Example:
        >>> head = nn.LinearCrossEntropy(4, 10).initialize(device="cpu")
        >>> x = np.ones((3, 4), "float32")
        >>> head(x, np.array([1, 2, 3])).shape, head.logits(x).shape
        ((), (3, 10))
    """

    def __init__(
        self,
        n_in: int,
        classes: int,
        embedding: Embedding | None = None,
        *,
        std: float | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ):
        self.shared = embedding is not None
        if embedding is None:
            self.weight = Parameter((n_in, classes), normal(n_in**-0.5 if std is None else std))
        else:
            self.weight = embedding.weight
        self.options: dict[str, Any] = {
            "reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing,
        }  # fmt: skip

    def __call__(self, x: Any, target: Any) -> Any:
        options = {"transposed": self.shared, "tune": self.tune, **self.options}
        return functions.fused_cross_entropy(x, self.weight, target, **options)

    def logits(self, x: Any) -> Any:
        """Return the logits (..., classes)."""
        return functions.linear(x, self.weight, transposed=self.shared, tune=self.tune)
