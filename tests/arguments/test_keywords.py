"""Keywords and option values that numbacc does not have, such as torch's: the message says what is right here."""

from __future__ import annotations

import ast
import inspect
import pickle
import timeit
from pathlib import Path

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import attention, conv, elementwise, fft, gated, gemm
from numbacc.base import keywords
from numbacc.errors import ArgumentsError, DTypeError, OptionError, ShapeError, nearest

MODULES = (numbacc, attention, conv, elementwise, fft, gated, gemm)
FUNCTIONS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
}
FUNCTIONS |= {
    f"{name}.{part}": getattr(function, part)
    for name, function in FUNCTIONS.items()
    for part in ("plan", "request", "supports")
    if hasattr(function, part)
}
FUNCTIONS |= {
    f"Generator.{name}": each
    for name, each in vars(numbacc.random.Generator).items()
    if inspect.isfunction(each) and not name.startswith("_")
}


def takes_any(function):
    return any(
        each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in inspect.signature(function).parameters.values()
    )


TAKES = [name for name, each in FUNCTIONS.items() if inspect.signature(each).parameters and not takes_any(each)]


def test_every_public_function_says_what_it_takes():
    """In one test, as are others of all functions: hundreds of tests take longer to start than to run."""
    assert len(TAKES) > 500
    for name in TAKES:
        function = FUNCTIONS[name]
        parameters = inspect.signature(function).parameters
        assert "others" not in parameters, name
        required = [each for each in parameters.values() if each.default is each.empty]
        given = {each.name: None for each in required}
        with pytest.raises(ArgumentsError) as caught:
            function(**given, no_such_keyword=1)
        called = function.__qualname__.rpartition("Generator.")[2]
        assert f"{called}() has no argument no_such_keyword" in str(caught.value)
        assert isinstance(caught.value, TypeError) and isinstance(caught.value, numbacc.Error), name
        for each in parameters:
            assert each in str(caught.value) or each == "self", name


def test_functions_are_found_by_pickles():
    for name, function in FUNCTIONS.items():
        if not name.startswith("Generator."):
            assert pickle.loads(pickle.dumps(function)) is function
            assert function.__name__ == name.rpartition(".")[2] and function.__doc__, name


def test_functions_that_are_made_look_as_they_are_written():
    """Their signatures, sources and annotations; plans have what their functions have, but for the call itself."""
    for function in (each for each in FUNCTIONS.values() if hasattr(each, "plan")):
        own, plan = inspect.signature(function), inspect.signature(function.plan)
        assert "stream" not in plan.parameters and set(plan.parameters) < set(own.parameters)
        for name, each in plan.parameters.items():
            assert each == own.parameters[name]
        assert plan.return_annotation.endswith("Plan")
        assert f"def {function.__name__}(" in inspect.getsource(function)
        assert function.plan.__qualname__ == f"{function.__name__}.plan" and function.plan.__doc__


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.endswith(".request")])
def test_requests_have_the_options_of_their_functions(name):
    """With the same defaults and annotations, and what stands for arrays; none that the function does not have."""
    function, request = FUNCTIONS[name.removesuffix(".request")], FUNCTIONS[name]
    own, asked = inspect.signature(function).parameters, inspect.signature(request).parameters
    supports = inspect.signature(function.supports).parameters
    assert [*supports] == [*asked, "device"] and all(supports[each] == asked[each] for each in asked)
    arrays = {each for each in own if own[each].default is None and own[each].annotation == "Any"} - {
        "mask",
        "out_dtype",
    }
    options = {each for each in own if own[each].kind is inspect.Parameter.KEYWORD_ONLY} - arrays
    missing = options - {*asked} - {"tune", "seed", "offset", "return_saved", "operand_grads"}
    assert not missing and {"dtype"} <= {*asked} and "direction" not in asked
    for each in options & {*asked}:
        assert asked[each] == own[each]
    shapes = [(2, 8, 6, 64), (2, 8, 6, 64)] if "attention" in name else [(2, 4, 6, 5), (3, 4, 3, 2)]
    text = name.removeprefix("numbacc.").removesuffix(".request")
    assert repr(request(*shapes)).startswith(f"<{text} of ")


def test_gradients_are_reached_from_their_functions():
    assert gated.forward.backward is gated.backward
    assert conv.forward.backward_data is conv.backward_data and conv.forward.backward_filter is conv.backward_filter
    assert attention.forward.backward is attention.backward
    assert gemm.mlp.backward is gemm.mlp_backward and gemm.linear.backward is gemm.linear_backward
    for name in elementwise.__all__:
        if f"{name}_backward" in elementwise.__all__:
            function, gradient = getattr(elementwise, name), getattr(elementwise, f"{name}_backward")
            assert function.backward is gradient and pickle.loads(pickle.dumps(function.backward)) is gradient


X, Q = np.ones((4, 8), np.float32), np.ones((1, 2, 4, 8), np.float32)
IMAGES, KERNELS = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)

#: (what is called, what is said)
TORCHS = [
    (lambda: elementwise.softmax(X, dim=1), "has no argument dim; it is called axis. It is softmax(x, *, axis=-1, "),
    (lambda: elementwise.sum(X, dim=1), "it is called axis"),
    (lambda: elementwise.mean(X, axis=1, keepdim=True), "keepdim; it is called keepdims"),
    (lambda: elementwise.gelu(X, approximate="tanh"), "elementwise.gelu_tanh is the tanh form"),
    (lambda: elementwise.relu(X, inplace=True), "pass out=x"),
    (lambda: elementwise.var(X, unbiased=False), "pass correction=1, or 0"),
    (lambda: elementwise.adamw_step(X, X, X, X, 1, lr=0.1), "lr; it is called rate"),
    (lambda: elementwise.adamw_step(X, X, X, X, 1, betas=(0.9, 0.99)), "pass beta1= and beta2="),
    (lambda: elementwise.layer_norm(X, epsilon=1e-5), "it is called eps"),
    (lambda: elementwise.layer_norm(X, normalized_shape=8), "the last axis"),
    (lambda: elementwise.dropout(X, seed=0, training=True), "training"),
    (lambda: elementwise.cross_entropy(X, np.zeros(4, int), size_average=True), "pass reduction="),
    (lambda: elementwise.one_hot(np.zeros(4, int), 3, depth=3), "it is called num_classes"),
    (lambda: elementwise.take(X, np.zeros(2, int), dim=1), "it is called axis"),
    (lambda: elementwise.tril(X, diagonal=1), "it is called k"),
    (lambda: elementwise.cumsum(X, dim=0), "it is called axis"),
    (lambda: elementwise.exp(X, strem=0), 'did you mean "stream"?'),
    (lambda: attention.forward(Q, Q, Q, is_causal=True), 'pass mask="causal"'),
    (lambda: attention.forward(Q, Q, Q, attn_mask=Q), "pass mask="),
    (lambda: attention.forward(Q, Q, Q, dropout_p=0.1), "it is called dropout"),
    (lambda: attention.forward(Q, Q, Q, enable_gqa=True), "leave it out"),
    (lambda: gated.forward(X, dim=1), "it is called axis"),
    (lambda: gemm.linear(X, X.T, weight=X), "it is called w"),
    (lambda: conv.forward(IMAGES, KERNELS, strides=2), "it is called stride"),
    (lambda: conv.forward(IMAGES, KERNELS, data_format="NCHW"), "it is called layout"),
    (lambda: fft.fft(X, dim=0), "it is called axis"),
    (lambda: fft.fftn(X, dim=(0, 1)), "it is called axes"),
    (lambda: elementwise.softmax.plan(X, dim=1), "softmax.plan() has no argument dim; it is called axis"),
    (lambda: elementwise.add_backward(X, X, X, input=X), "add_backward() has no argument input"),
    (lambda: numbacc.zeros(3, requires_grad=True), "gradients are functions"),
    (lambda: numbacc.random.Generator(device="cpu").normal(mean=1.0), "it is called loc"),
]  # fmt: skip


@pytest.mark.parametrize("run, words", TORCHS, ids=[words[:40] for _, words in TORCHS])
def test_keywords_of_torchs_name_ours(run, words):
    refused(ArgumentsError, words, run=run)


def test_names_are_told_only_where_a_function_has_them():
    for name, function in FUNCTIONS.items():
        if takes_any(function):
            continue
        own = inspect.signature(function).parameters
        for given in (*keywords._NAMES, *keywords._WORDS):
            text = str(keywords.wrong(function, {given: 1}))
            if "; it is called " in text:
                assert text.partition("; it is called ")[2].partition(".")[0] in own, name


def test_right_calls_pay_little():
    """A dictionary that stays empty, and for functions that are not made from text another call: 0.1 µs at most."""
    plain = elementwise.softmax.__wrapped__
    assert plain is not elementwise.softmax
    namespace = {"plain": lambda x, *, axis=-1, out=None, stream=None: None}
    namespace["made"] = keywords._made("test", {"plain": namespace["plain"]})["plain"][1]
    one, other = (
        min(timeit.repeat(f"{each}(1)", globals=namespace, number=2000, repeat=50)) for each in ("made", "plain")
    )
    assert (one - other) / 2000 < 0.5e-6


# ---------------------------------------------------------------- values of options


#: (what is called, the value that is meant)
NEAR = [
    (lambda: gated.forward(X, "SwiGLU"), "swiglu"),
    (lambda: gated.forward(X, "swish"), "swiglu"),
    (lambda: gated.forward(X, gate="First"), "first"),
    (lambda: attention.forward(Q, Q, Q, layout="bshd"), "BSHD"),
    (lambda: attention.forward(Q, Q, Q, mask="Causal"), "causal"),
    (lambda: conv.forward(IMAGES, KERNELS, padding="SAME"), "same"),
    (lambda: conv.forward(IMAGES, KERNELS, layout="channels_last"), "NHWC"),
    (lambda: conv.forward(IMAGES, KERNELS, activation="swish"), "silu"),
    (lambda: conv.forward(IMAGES, KERNELS, compute="tf-32"), "tf32"),
    (lambda: gemm.matmul(X, X.T, epilogue="ReLU-bias"), "relu_bias"),
    (lambda: gemm.linear(X, X.T, activation="GELU"), "gelu"),
    (lambda: gemm.matmul(X, X.T, compute="TF32"), "tf32"),
    (lambda: fft.fft(X, norm="orthogonal"), "ortho"),
    (lambda: elementwise.bias_activation(X, X[0], activation="LeakyReLU"), "leaky_relu"),
    (lambda: elementwise.cross_entropy(X, np.zeros(4, int), reduction="avg"), "mean"),
    (lambda: elementwise.reduction(lambda x: x, merge="product"), "prod"),
    (lambda: numbacc.random.Generator("Philox"), "philox"),
    (lambda: numbacc.random.Generator("sobol-32"), "sobol32"),
    (lambda: numbacc.cudnn.supports(conv.forward.request((1, 2, 5, 5), (3, 2, 3, 3)), "H10O"), "H100"),
]  # fmt: skip


@pytest.mark.parametrize("run, meant", NEAR, ids=[meant for _, meant in NEAR])
def test_near_misses(run, meant):
    refused(OptionError, f'did you mean "{meant}"?', run=run)


@pytest.mark.parametrize(
    "given, meant",
    {
        "bf16": "bfloat16", "fp16": "float16", "FP32": "float32", "torch.float32": "float32", "e4m3": "float8_e4m3fn",
        "float23": "float32", "Bfloat16": "bfloat16", "uint-8": "uint8", "i64": "int64",
    }.items(),
)  # fmt: skip
def test_near_misses_of_dtypes(given, meant):
    for run in (
        lambda: numbacc.zeros(3, given),
        lambda: elementwise.astype(X, given),
        lambda: elementwise.sum(X, dtype=given),
    ):
        refused(DTypeError, f'did you mean "{meant}"?', run=run)


def test_dtypes_of_other_libraries():
    class Theirs:
        def __repr__(self):
            return "torch.bfloat16"

    refused(DTypeError, "dtype=torch.bfloat16", 'did you mean "bfloat16"?', run=lambda: numbacc.zeros(3, Theirs()))


@pytest.mark.parametrize(
    "value", ["", "zzz", 3, None, b"swiglu", ["swiglu"], "x" * 10**6, "\0", "ß"], ids=lambda v: repr(v)[:12]
)
def test_what_is_near_nothing(value):
    assert nearest(value, ("swiglu", "glu", None)) == ""


def test_each_known_value_is_itself():
    for known in (gated.KINDS, ("NCHW", "NHWC"), ("same", "valid")):
        for each in known:
            assert nearest(each.swapcase(), known) == f'; did you mean "{each}"?'


# ---------------------------------------------------------------- operands of products


def test_a_bias_names_the_epilogue_that_adds_it():
    for epilogue, wanted in {"none": "bias", "relu": "relu_bias", "gelu_aux": "gelu_aux_bias"}.items():
        words = f'bias is given, but epilogue="{epilogue}" does not use it; pass epilogue="{wanted}", which adds it'
        refused(OptionError, words, run=lambda e=epilogue: gemm.matmul(X, X.T, bias=X[:, 0], epilogue=e))
        gemm.matmul(X, X.T, bias=np.ones(4, np.float32), epilogue=wanted)
    refused(
        OptionError, "bias is given", "leave it out", run=lambda: gemm.matmul(X, X.T, bias=X[:, 0], epilogue="bgrada")
    )


def test_aux_names_the_epilogues_that_have_it():
    run = lambda: gemm.matmul(X, X.T, aux=np.ones((4, 4), np.float32), epilogue="gelu")  # noqa: E731
    refused(OptionError, "aux is given", 'epilogue="dgelu"', '"gelu_aux"', run=run)


def test_torchs_weights_are_turned(place):
    x, w, b = (place.put(np.ones(shape, np.float32)) for shape in ((4, 8), (5, 8), (5,)))
    refused(ShapeError, "w has shape (5, 8)", "is passed as w.T", run=lambda: gemm.linear(x, w, b))
    assert gemm.linear(x, w.T, b)[0].shape == (4, 5)
    other = place.put(np.ones((5, 7), np.float32))
    with pytest.raises(ShapeError) as caught:
        gemm.linear(x, other, b)
    assert "w.T" not in str(caught.value)
    w1, b1 = place.put(np.ones((8, 6), np.float32)), place.put(np.ones(6, np.float32))
    w2, b2 = place.put(np.ones((5, 6), np.float32)), place.put(np.ones(5, np.float32))
    refused(ShapeError, "w2", "is passed as w2.T", run=lambda: gemm.mlp(x, w1, b1, w2, b2))


@pytest.mark.parametrize("family, options", [
    (conv, numbacc.conv.problem.OPTIONS), (attention, numbacc.attention.problem.AttentionOptions._fields),
], ids=["conv", "attention"])  # fmt: skip
def test_public_functions_alone_have_an_options_default(family, options):
    """The functions that they call are given every option, and there is no table of defaults."""
    functions = [each for each in map(family.__dict__.get, family.__all__) if inspect.isfunction(each)]
    takes = [each for function in functions for each in inspect.signature(function).parameters.values()]
    defaults = {(each.name, repr(each.default)) for each in takes if each.default is not each.empty}
    twice = []
    for file in Path(family.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found = [each.target for each in node.body if isinstance(each, ast.AnnAssign) and each.value]
                names = [each.id for each in found if isinstance(each, ast.Name)]
            elif isinstance(node, ast.FunctionDef) and node.name not in family.__all__:
                own, count = node.args, len(node.args.defaults)
                names = [each.arg for each in own.args[len(own.args) - count :]]
                names += [each.arg for each, value in zip(own.kwonlyargs, own.kw_defaults, strict=True) if value]
            elif isinstance(node, ast.Dict):
                pairs = [(key, each) for key, each in zip(node.keys, node.values, strict=True) if key]
                held = [(ast.unparse(key).strip("'"), ast.unparse(each)) for key, each in pairs]
                names = [name for name, value in held if (name, value) in defaults]
                names = names if len(names) > 1 else []
            else:
                continue
            twice += [f"{file.name}, line {node.lineno}: {name}" for name in names if name in options]
    assert not twice


@pytest.mark.parametrize("function", [
    conv.forward, conv.backward_data, conv.backward_filter, attention.forward, attention.backward,
], ids=lambda each: f"{each.__module__.split('.')[1]}.{each.__name__}")  # fmt: skip
def test_requests_have_the_options_of_their_function(function):
    family = conv if "conv" in function.__module__ else attention
    options = family.problem.OPTIONS if family is conv else family.problem.AttentionOptions._fields
    parameters = inspect.signature(function).parameters
    for part in (function.request, function.supports):
        found = inspect.signature(part).parameters
        chosen = [name for name in parameters if name in options and name != "tune"]
        assert [name for name in found if name in options] == chosen
        assert all(found[name].default == parameters[name].default for name in chosen)
