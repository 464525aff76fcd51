"""The copies of formulas that kernels run, their numbers in the compute dtype, and the digests that name their code."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys

import numpy as np
import ptx
import pytest
from skips import skip_if

from numbacc.base.backend import simulated
from numbacc.kernels.formula import Formula, digest
from numbacc.kernels.formulas import FORMULAS
from numbacc.kernels.specs import KernelSpec

compiles = skip_if(simulated(), "not simulated")
SCALE, COEFFICIENTS = 3, (1.5, 2)


def helper(x):
    return x * SCALE if x > 0.7 else 0


def made(factor, inner):
    return lambda x: inner(x) * factor + COEFFICIENTS[1]


def looped(x):
    total = 0
    for k in range(3):
        total += x * COEFFICIENTS[0] if k > 1 else 1
    return total


def nested(x):
    def twice(v):
        return 2 * v + SCALE

    return twice(x) + (lambda v: v / 3)(x)


WRITTEN = {
    "an integer": lambda x: 2 * x + 1,
    "a float": lambda x: 2.5 * x,
    "a branch": lambda x: x if x > 0 else 0,
    "a builtin": lambda x: max(x, 0) + min(x, 1.5) + abs(x - 2),
    "math": lambda x: math.exp(x) * 2 + math.tanh(x / 3) + math.erf(x),
    "a constant of math": lambda x: x * math.pi + math.e,
    "a power": lambda x: x**2 + x**3.0 + x**-1,
    "a whole power of a number": lambda x: 2**x,
    "a root": lambda x: x**0.5,
    "a tuple": lambda x: (1, 2.0, x)[2] * COEFFICIENTS[0],
    "a closure": made(2, helper),
    "a loop": looped,
    "functions inside": nested,
    "a truth value": lambda x: (x > 1) * x,
    "infinity": lambda x: x if math.isfinite(x) else math.inf,
}  # fmt: skip


def text(function, dtype, reads=1, **more):
    spec = KernelSpec("scalar", Formula("own", function), (dtype,) * reads, (dtype,), 1, False, compute=dtype, **more)
    return ptx.compiled(spec).text


@compiles
@pytest.mark.parametrize("function", WRITTEN.values(), ids=WRITTEN)
def test_a_number_takes_the_compute_dtype_however_it_is_written(function):
    assert ".f64" not in text(function, "float32")


@compiles
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32", "uint64"])
def test_integers_stay_integers(dtype):
    found = text(lambda x: (x + 2) * 3 >> 1, dtype)
    assert ".f32" not in found and ".f64" not in found


@compiles
def test_complex_numbers_are_computed_in_their_parts_dtype():
    assert ".f64" not in text(lambda z: 2 * z * z.conjugate() + 1.5, "complex64")


@compiles
def test_a_power_is_multiplied_out():
    assert text(lambda x: x**2, "float32") == text(lambda x: x**2.0, "float32")
    assert text(lambda x: x**2, "float32").count(".f32") < 20 < text(lambda x: x**2.5, "float32").count(".f32")


@compiles
@pytest.mark.parametrize("name", ["float32", "int64", "bool", "uint32", "complex64"])
def test_scalars_come_as_parameters(name):
    """One kernel for all values: nothing of a scalar is in its code."""
    found = text(
        lambda x, s: x * 2 if s == s else x, "complex64" if name == "complex64" else "float32", scalars=(name,)
    )
    assert ".f64" not in found


# ---------------------------------------------------------------- digests


def module(folder, text):
    """A module of this text."""
    path = folder / "own.py"
    path.write_text(text)
    found = importlib.util.module_from_spec(importlib.util.spec_from_file_location("own", path))
    sys.modules["own"] = found
    sys.modules["own"].__spec__.loader.exec_module(found)
    return found


OWN = """
import math
SCALE = 2.0
def inner(x):
    return x * SCALE
def formula(x, power=3):
    def deeper(v):
        return v + 1
    return math.exp(inner(x)) * deeper(x) ** power
"""
#: What changes a formula's meaning.
CHANGES = [
    ("SCALE = 2.0", "SCALE = 2.5"),
    ("SCALE = 2.0", "SCALE = 2"),
    ("x * SCALE", "x / SCALE"),
    ("power=3", "power=2"),
    ("v + 1", "v + 2"),
    ("math.exp", "math.log"),
    ("import math", "import cmath as math"),
]


def of(folder, text, compute="float32", narrow=False):
    return digest(module(folder, text).formula, compute, narrow)


@pytest.mark.parametrize("old, new", CHANGES)
def test_a_digest_follows_all_that_a_formula_means(tmp_path, old, new):
    assert old in OWN
    assert of(tmp_path, OWN.replace(old, new)) != of(tmp_path, OWN)


def test_a_digest_knows_no_lines_and_no_comments(tmp_path):
    assert of(tmp_path, "# elsewhere\nUNUSED = 7\n\n" + OWN.replace("return x", "# why\n    return x")) == of(
        tmp_path, OWN
    )


def test_a_digest_is_of_a_precision(tmp_path):
    code = OWN.replace("import math", "import math\nfrom numbacc.kernels.arithmetic import exp").replace(
        "math.exp", "exp"
    )
    precisions = [("float32", False), ("float32", True), ("float64", False)]
    assert len({of(tmp_path, code, *precision) for precision in precisions}) == 3


def test_formulas_of_one_name_have_keys_of_their_own():
    one, other = Formula("mine", lambda x: x + 1), Formula("mine", lambda x: x + 2)
    again = Formula("mine", lambda x: x + 1)
    keys = [formula.digest("float32", False) for formula in (one, other, again)]
    assert keys[0] != keys[1] and keys[0] == keys[2]


def test_closures_count_with_what_they_hold():
    digests = {digest(made(*held), "float32", False) for held in ((2, helper), (3, helper), (2, looped), (2.0, helper))}
    assert len(digests) == 4


def test_a_formula_that_calls_itself_has_a_digest():
    def odd(x):
        return even(x - 1)

    def even(x):
        return odd(x - 1)

    assert digest(odd, "float32", False) != digest(even, "float32", False)


def test_what_cannot_be_followed_is_refused():
    thing = object()
    with pytest.raises(TypeError, match="object"):
        digest(lambda x: thing, "float32", False)


def test_digests_are_the_same_in_another_process():
    code = (
        "from numbacc.kernels.formulas import FORMULAS; "
        "print([f.digest(c, n) for f in FORMULAS.values() for c in ('float32', 'float64') for n in (False, True)])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [f.digest(c, n) for f in FORMULAS.values() for c in ("float32", "float64") for n in (False, True)]
    assert eval(run.stdout) == here
    assert len(set(here)) > len(FORMULAS)


# ---------------------------------------------------------------- references


def test_without_a_reference_the_function_itself_is_the_meaning():
    formula = Formula("own", lambda x, y: (x + y, x * y))
    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])
    total, product = formula.reference(x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(product, x * y)


def test_gradients_are_named_by_their_formulas():
    for name, formula in FORMULAS.items():
        if name.startswith("gated.forward"):
            assert formula.derivative is FORMULAS[name.replace("forward", "backward")]
