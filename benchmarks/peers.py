"""The same work in other libraries: torch, CuPy, Liger, quack. Each only where installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

Work = Callable[[], Any]


def import_torch() -> Any:
    """torch if it is installed and sees the GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def import_cupy() -> Any:
    """CuPy if it is installed and sees the GPU, else None."""
    try:
        import cupy
    except ImportError:
        return None
    return cupy if cupy.cuda.is_available() else None


def those_that_run(
    makers: Mapping[str, Callable[[], Work]], right: Callable[[Any], bool]
) -> tuple[dict[str, Work], dict[str, str]]:
    """peer -> its call, of those whose calls run and are right; peer -> why it is left out, of the others.

    Args:
        makers: peer -> what imports and compiles what is needed, and returns the call. Whatever goes wrong there, or in
            the call, leaves out that peer alone.
        right: whether a result is.
    """
    works: dict[str, Work] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            work = make()
            found = right(work())
        except Exception as error:
            first = next(iter(str(error).strip().splitlines()), "")
            missing[name] = f"{type(error).__name__}: {first[:160]}"
            continue
        if found:
            works[name] = work
        else:
            missing[name] = "its result is wrong"
    return works, missing


def told(missing: dict[str, str]) -> dict[str, Any]:
    """What a figure says of peers that are missing: nothing where none is."""
    return {"missing": missing} if missing else {}


def formula(
    torch: Any, cupy: Any, formulas: Callable[[Any], Callable[..., Any]], kernel: tuple[str, str, str], given: Any
) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call of a formula of one's own, as one kernel where the peer can.

    Args:
        formulas: a library -> the formula in its functions, those that torch and CuPy have in common.
        kernel: for CuPy's `ElementwiseKernel` the names of arrays, those of results, and lines of C++.
        given: what the formula is called with: device arrays and numbers.
    """
    inputs, results, text = kernel

    def taken(library: Any) -> list[Any]:
        return [each if isinstance(each, float) else library.from_dlpack(each) for each in given]

    def eager() -> Work:
        return partial(formulas(torch), *taken(torch))

    def compiled() -> Work:
        torch._dynamo.reset()
        return partial(torch.compile(formulas(torch)), *taken(torch))

    def fused() -> Work:
        return partial(cupy.fuse()(formulas(cupy)), *taken(cupy))

    def elementwise() -> Work:
        arrays = [each for each in taken(cupy) if not isinstance(each, float)]
        kind = str(arrays[0].dtype)
        typed = [", ".join(f"{kind} {name}" for name in names.split()) for names in (inputs, results)]
        return partial(cupy.ElementwiseKernel(*typed, text, "own"), *arrays)

    makers: dict[str, Callable[[], Work]] = {}
    if torch is not None:
        makers |= {"torch": eager, "torch.compile": compiled}
    if cupy is not None:
        makers |= {"CuPy fuse": fused, "CuPy ElementwiseKernel": elementwise}
    return makers


def rows(torch: Any, name: str, x: Any, weight: Any, bias: Any) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call of softmax, log_softmax, rms_norm or layer_norm, of the rows of a torch tensor."""
    functional, columns = torch.nn.functional, x.shape[-1]

    def liger() -> Work:
        if name == "softmax":
            from liger_kernel.ops.softmax import LigerSoftmaxFunction

            return lambda: LigerSoftmaxFunction.apply(x)
        if name == "rms_norm":
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction

            return lambda: LigerRMSNormFunction.apply(x, weight, 1e-6)
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction

        return lambda: LigerLayerNormFunction.apply(x, weight, bias, 1e-5)

    def quack() -> Work:
        if name == "softmax":
            from quack.softmax import softmax_fwd

            return lambda: softmax_fwd(x)
        if name == "rms_norm":
            from quack.rmsnorm import rmsnorm_fwd

            return lambda: rmsnorm_fwd(x, weight, eps=1e-6)[0]
        from quack.rmsnorm import layernorm_fwd

        wide_weight, wide_bias = weight.float(), bias.float()  # it takes no others
        return lambda: layernorm_fwd(x, wide_weight, wide_bias, eps=1e-5)

    torchs: dict[str, Work] = {
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "rms_norm": lambda: functional.rms_norm(x, (columns,), weight, eps=1e-6),
        "layer_norm": lambda: functional.layer_norm(x, (columns,), weight, bias),
    }
    # The others have no logarithm of softmax.
    others = {} if name == "log_softmax" else {"Liger": liger, "quack": quack}
    return {"torch": lambda: torchs[name], **others}


def sum_norms(
    torch: Any, name: str, x: Any, residual: Any, weights: list[Any], slopes: list[Any] | None = None
) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call of a norm of x + residual, and that sum; or of the gradients, given two slopes.

    Args:
        torch: torch.
        name: "add_rms_norm" or "add_layer_norm".
        x, residual, weights: the arguments.
        slopes: the gradients with respect to both results, or None.
    """
    shape = (x.shape[-1],)

    def formula(x: Any, residual: Any, *weights: Any) -> Any:
        total = x + residual
        if name == "add_rms_norm":
            return torch.nn.functional.rms_norm(total, shape, *weights, eps=1e-6), total
        return torch.nn.functional.layer_norm(total, shape, *weights, eps=1e-5), total

    def called(function: Callable[..., Any]) -> Work:
        inputs = [each.detach().clone() if slopes else each for each in (x, residual, *weights)]
        if slopes is None:
            return lambda: function(*inputs)
        tracked = [each.requires_grad_() for each in inputs]
        results = function(*tracked)
        wanted = [tracked[0], *tracked[2:]]
        return lambda: torch.autograd.grad(results, wanted, slopes, retain_graph=True)

    def compiled() -> Work:
        torch._dynamo.reset()
        return called(torch.compile(formula))

    def liger() -> Work:
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        return called(lambda *each: LigerFusedAddRMSNormFunction.apply(*each, 1e-6, 0.0, "llama", False))

    makers: dict[str, Callable[[], Work]] = {"torch": lambda: called(formula), "torch compiled": compiled}
    return makers | ({"Liger": liger} if name == "add_rms_norm" else {})


def cross_entropy(torch: Any, x: Any, labels: Any) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call that gives each row's cross entropy, without a gradient."""

    def liger() -> Work:
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

        return lambda: LigerCrossEntropyFunction.apply(x, labels, None, -100, 0.0, 0.0, "none")[0]

    def quack() -> Work:
        from quack.cross_entropy import cross_entropy_fwd

        return lambda: cross_entropy_fwd(x, labels)

    return {
        "torch": lambda: partial(torch.nn.functional.cross_entropy, x, labels, reduction="none"),
        "Liger": liger,
        "quack": quack,
    }


def losses_and_gradients(torch: Any, x: Any, labels: Any) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call that gives (the gradient, the sum) of the cross entropies of rows."""

    def formula(logits: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum")

    def both(loss_of: Callable[[Any], Any], logits: Any) -> Work:
        def call() -> Any:
            loss = loss_of(logits)
            return torch.autograd.grad(loss, logits)[0], loss

        return call

    def liger() -> Work:
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

        # It overwrites the logits; later calls see other numbers.
        own = x.clone().requires_grad_()
        return both(lambda z: LigerCrossEntropyFunction.apply(z, labels, None, -100, 0.0, 0.0, "sum")[0], own)

    logits = x.detach().requires_grad_()
    return {
        "torch": lambda: both(formula, logits),
        "torch compiled": lambda: both(torch.compile(formula), logits),
        "Liger": liger,
    }


def rope(torch: Any, x: Any, cos: Any, sin: Any) -> dict[str, Callable[[], Work]]:
    """peer -> what makes its call of rotary embedding of the halves of rows, given tables that broadcast to these."""
    whole = [torch.cat((each, each), -1).to(x.dtype) for each in (cos, sin)]

    def eager() -> Any:
        a, b = x.chunk(2, -1)
        return x * whole[0] + torch.cat((-b, a), -1) * whole[1]

    def liger() -> Work:
        from liger_kernel.ops.rope import rope_forward

        # It turns two arrays in place, queries and keys, whose memory has positions before heads.
        halves = [half.contiguous().transpose(1, 2) for half in x.chunk(2, 2)]
        tables = [torch.cat((each, each), -1).reshape(1, x.shape[1], -1) for each in (cos, sin)]
        return lambda: rope_forward(*halves, *tables)[0].transpose(1, 2)

    return {"torch": lambda: eager} | ({"Liger": liger} if cos.ndim == 3 else {})


def fourier(
    torch: Any, cupy: Any, function: str, x: Any, out: Any, options: dict[str, Any] | None = None, into: bool = False
) -> dict[str, Work]:
    """peer -> a call that transforms x, with a function of `numbacc.fft`'s name, into memory of the peer's own.

    torch writes to an `out` too, which has out's shape, dtype and memory order. `options` are those of the function.

    Args:
        into: whether results count only where they have out's memory order.
    """
    works: dict[str, Work] = {}
    options = {} if options is None else options
    if torch is not None:
        tx, transform = torch.from_dlpack(x), getattr(torch.fft, function)
        tout = torch.empty_like(torch.from_dlpack(out))
        named = {{"axis": "dim", "axes": "dim"}.get(key, key): value for key, value in options.items()}
        if not into:
            works["torch"] = lambda: transform(tx, **named)
        works["torch, out given"] = lambda: transform(tx, out=tout, **named)
    if cupy is not None:
        import cupyx.scipy.fft

        cx = cupy.from_dlpack(x)
        of_numpy, of_scipy = getattr(cupy.fft, function), getattr(cupyx.scipy.fft, function)
        if into:
            cout = cupy.empty_like(cupy.from_dlpack(out))
            works["CuPy, copied"] = lambda: cupy.copyto(cout, of_numpy(cx, **options))
        else:
            works["CuPy"] = lambda: of_numpy(cx, **options)
            works["CuPy, scipy.fft"] = lambda: of_scipy(cx, **options)
    return works


#: What `draws` draws integers below, and the mean of its Poisson numbers.
HIGH, MEAN = 1000, 10.0


def draws(torch: Any, cupy: Any, method: str, dtype: str, count: int, seed: int) -> dict[str, Work]:
    """peer -> a call that draws so many values of a dtype, by a method of numbacc's name.

    torch writes into memory of its own where it can: not Poisson numbers, which it makes in float32, of as many means.
    """
    works: dict[str, Work] = {}
    if torch is not None:
        tensor = torch.empty(count, device="cuda", dtype=getattr(torch, dtype))
        means = torch.full((count,) if method == "poisson" else (0,), MEAN, device="cuda")
        works["torch"] = {
            "random": lambda: torch.rand(count, out=tensor),
            "normal": lambda: torch.randn(count, out=tensor),
            "integers": lambda: torch.randint(0, HIGH, (count,), out=tensor),
            "poisson": lambda: torch.poisson(means),
        }[method]
    if cupy is not None:
        new, old = cupy.random.default_rng(seed), cupy.random.RandomState(seed)
        works["CuPy Generator"] = {
            "random": lambda: new.random(count, dtype=dtype),
            "normal": lambda: new.standard_normal(count, dtype=dtype),
            "integers": lambda: new.integers(0, HIGH, count, dtype=dtype),
            "poisson": lambda: new.poisson(MEAN, count),
        }[method]
        works["CuPy RandomState"] = {
            "random": lambda: old.random_sample(count, dtype=dtype),
            "normal": lambda: old.standard_normal(count, dtype=dtype),
            "integers": lambda: old.randint(0, HIGH, count, dtype=dtype),
            "poisson": lambda: old.poisson(MEAN, count, dtype=dtype),
        }[method]
    return works


def _gates(torch: Any) -> dict[str, Any]:
    """kind -> (g(b), backward of g: (dy, b) -> dy g'(b)), as torch users write them."""
    functional, aten = torch.nn.functional, torch.ops.aten
    return {
        "glu": (torch.sigmoid, lambda dy, b: aten.sigmoid_backward(dy, torch.sigmoid(b))),
        "reglu": (functional.relu, lambda dy, b: aten.threshold_backward(dy, b, 0)),
        "swiglu": (functional.silu, aten.silu_backward),
        "geglu": (functional.gelu, aten.gelu_backward),
        "geglu_tanh": (
            lambda b: functional.gelu(b, approximate="tanh"),
            lambda dy, b: aten.gelu_backward(dy, b, approximate="tanh"),
        ),
    }


def gated(torch: Any, direction: str, kind: str, axis: int, dy: Any, x: Any, *, compiled: bool) -> dict[str, Work]:
    """peer -> a call that does one gated activation on torch tensors; a gradient may come as its two halves.

    Args:
        dy, x: tensors; dy also for the forward pass, whose result has its shape.
        compiled: whether to time torch.compile too, which takes seconds to compile.
    """
    gate, gate_backward = _gates(torch)[kind]

    def forward(x: Any) -> Any:
        a, b = x.chunk(2, axis)
        return a * gate(b)

    def backward(dy: Any, x: Any) -> Any:
        a, b = x.chunk(2, axis)
        return torch.cat((dy * gate(b), gate_backward(dy * a, b)), axis)

    peers: dict[str, Work] = {}
    if direction == "forward":
        peers["torch"] = lambda: forward(x)
        if kind == "glu":
            peers["torch F.glu"] = lambda: torch.nn.functional.glu(x, axis)
    else:
        peers["torch"] = lambda: backward(dy, x)
        if kind == "glu":
            peers["torch aten.glu_backward"] = lambda: torch.ops.aten.glu_backward(dy, x, axis)
    if compiled:
        torch._dynamo.reset()
        # Without a CUDA graph, which would copy the arguments to memory of its own first.
        for name, mode in (("", None), (", max-autotune", "max-autotune-no-cudagraphs")):
            fast = torch.compile(forward if direction == "forward" else backward, mode=mode)
            arguments = (x,) if direction == "forward" else (dy, x)
            peers[f"torch.compile{name}"] = partial(fast, *arguments)
    peers |= _liger(torch, direction, kind, axis, dy, x)
    return peers


def exact_gated(torch: Any, direction: str, kind: str, axis: int, dy: Any, x: Any) -> Any:
    """The result of a gated activation of torch tensors in float64, its gradient by autograd."""
    gate, _ = _gates(torch)[kind]
    wide = x.double().requires_grad_(direction == "backward")
    a, b = wide.chunk(2, axis)
    y = a * gate(b)
    return y if direction == "forward" else torch.autograd.grad(y, wide, dy.double())[0]


def _liger(torch: Any, direction: str, kind: str, axis: int, dy: Any, x: Any) -> dict[str, Work]:
    """Liger's kernels, on separate contiguous halves, as they want them; its backward works in place.

    Liger's gate is its first argument, so the halves are passed the other way round.
    """
    if axis not in (-1, x.ndim - 1) or kind not in ("swiglu", "geglu_tanh"):
        return {}
    try:
        if kind == "swiglu":
            from liger_kernel.ops.swiglu import swiglu_backward as run_backward
            from liger_kernel.ops.swiglu import swiglu_forward as run_forward
        else:
            from liger_kernel.ops.geglu import geglu_backward as run_backward
            from liger_kernel.ops.geglu import geglu_forward as run_forward
    except ImportError:
        return {}
    a, b = (half.contiguous() for half in x.chunk(2, axis))
    if direction == "forward":
        return {"Liger": lambda: run_forward(b, a)[-1]}
    # It overwrites its inputs: after many runs they hold gradients of gradients, which cost the same time.
    return {"Liger": lambda: run_backward(b, a, dy)[::-1]}


def gemm(torch: Any, kind: str, a: Any, w: Any, bias: Any, aux: Any, out: Any) -> dict[str, Work]:
    """peer -> a call that does one product with epilogue on torch tensors."""
    functional, gelu_backward = torch.nn.functional, torch.ops.aten.gelu_backward

    def dgelu_bgrad() -> Any:
        result = gelu_backward(a @ w, aux, approximate="tanh")
        return result, result.sum(0)

    def gelu_aux_bias() -> Any:
        z = functional.linear(a, w.t(), bias)
        return z, functional.gelu(z, approximate="tanh")

    return {
        "none": {"torch matmul": lambda: torch.matmul(a, w, out=out)},
        "bias": {"torch F.linear": lambda: functional.linear(a, w.t(), bias)},
        "gelu_bias": {"torch _addmm_activation": lambda: torch._addmm_activation(bias, a, w, use_gelu=True)},
        "gelu_aux_bias": {
            "torch F.linear, gelu": gelu_aux_bias,
            # It gives no aux, so the backward pass would have to compute the product again.
            "torch _addmm_activation, no aux": lambda: torch._addmm_activation(bias, a, w, use_gelu=True),
        },
        "dgelu_bgrad": {"torch mm, gelu_backward, sum": dgelu_bgrad},
    }[kind]


def nvmath_matmul(x: Any, w: Any, bias: Any) -> Callable[[], Any] | None:
    """nvmath's planned product with a bias, ready to be run again; None where nvmath is missing."""
    try:
        from nvmath.linalg.advanced import Matmul, MatmulEpilog
    except ImportError:
        return None
    # Its bias runs along the rows of the result, so the product is that of the transposes.
    planned = Matmul(w.t(), x.t())
    planned.plan(epilog=MatmulEpilog.BIAS, epilog_inputs={"bias": bias})
    return planned.execute  # type: ignore[no-any-return]
