"""The copies of formulas that kernels run, their numbers in the compute dtype, and the digests that name their code."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys

import numpy as np
import ptx
import pytest
from conftest import Operand
from operand_cases import executable
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.functions.epilogues import FORMULAS
from numbacc.functions.formula import Formula, digest
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


def passed(x, k):
    return x * k + k


def summed(step):
    """A formula that loops over `step(x, k)`."""

    def formula(x):
        total = 0
        for k in range(1, 20, 2):
            total += step(x, k)
        return total

    return formula


def added(x):
    total = 0
    for k in range(5):
        total += k
        x = total - x
    return x


def last(x):
    found = 0
    for k in range(3):
        if x > k:
            found = k
    return x * found


def while_counted(x):
    k = 0
    while k < 3:
        x += TABLE[k] * k
        k += 1
    return x


def bounded(x):
    for k in range(2):
        for j in range(k + 1, 2 * k + 3):
            x = x * (j - k) + j
    return x


TABLE = (1.5, 2.5, 3.5, 4.5, 5.5, 6.5)
#: What a counter does.
COUNTERS = {
    "a factor": summed(lambda x, k: x * k),
    "a term": summed(lambda x, k: k + x),
    "added up": added,
    "a divisor": summed(lambda x, k: x / k),
    "a fraction": summed(lambda x, k: x * (k / (k + 1))),
    "counted on": summed(lambda x, k: x * (2 * k + 1) + k % 3 - k // 2),
    "an exponent": summed(lambda x, k: x**k + 2**k),
    "a base": summed(lambda x, k: x * k**2),
    "compared": summed(lambda x, k: x if k < x else k),
    "a choice": summed(lambda x, k: x if k % 2 == 0 else 1),
    "an argument": summed(passed),
    "in math": summed(lambda x, k: math.exp(k) + math.sqrt(x * k)),
    "in builtins": summed(lambda x, k: max(x, k) + abs(k - 3) * x + min(k, 3, 4)),
    "a remainder": summed(lambda x, k: x % k + x // k),
    "an index": summed(lambda x, k: x * TABLE[k % 6] + TABLE[k // 4 + 1] * k),
    "a shift": summed(lambda x, k: x * (1 << k) + (k >> 1)),
    "negative": summed(lambda x, k: x * -k),
    "kept": last,
    "of while": while_counted,
    "a bound": bounded,
    "whole": summed(lambda x, k: int(x) * x * k),
}


def text(function, dtype, reads=1, **more):
    spec = KernelSpec("scalar", Formula("own", function), (dtype,) * reads, (dtype,), 1, False, compute=dtype, **more)
    return ptx.compiled(spec).text


@compiles
@pytest.mark.parametrize("function", WRITTEN.values(), ids=WRITTEN)
def test_a_number_takes_the_compute_dtype_however_it_is_written(function):
    assert ".f64" not in text(function, "float32")


@compiles
@pytest.mark.parametrize("function", COUNTERS.values(), ids=COUNTERS)
def test_a_counter_takes_the_compute_dtype_where_it_meets_numbers(function):
    assert ".f64" not in text(function, "float32")


@pytest.mark.sampled(2)
@compiles
@pytest.mark.parametrize("name", ["a factor", "a term", "added up", "counted on", "an argument", "negative"])
def test_a_counter_makes_no_float_of_integers(name):
    for dtype in ("int32", "int64", "uint32", "uint64"):
        found = text(COUNTERS[name], dtype)
        assert ".f32" not in found and ".f64" not in found


@compiles
@pytest.mark.parametrize("name", ["int32", "int64", "uint64"])
def test_an_integer_that_comes_with_the_launch_does_as_a_counter_does(name):
    assert ".f64" not in text(lambda x, s: x * s + s // 2 - s / 3, "float32", scalars=(name,))


@compiles
def test_counters_among_complex_numbers():
    assert ".f64" not in text(COUNTERS["a factor"], "complex64") + text(COUNTERS["counted on"], "complex64")


@pytest.mark.parametrize("name", COUNTERS)
def test_what_counters_come_to(device_place, name):
    """As in NumPy, where Python's integers take the dtype of what they meet."""
    x = np.linspace(0.5, 3.0, 70, dtype=np.float32)
    wanted = np.array([COUNTERS[name](float(v)) for v in x])
    out = Operand(device_place, np.zeros(70, np.float32))
    made = executable(Formula("own", COUNTERS[name]), [one := Operand(device_place, x)], [out])
    made.run([one.view], [out.view], None, 0)
    np.testing.assert_allclose(out.now(), wanted, rtol=1e-5)


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
    # Python keeps compiled files: it would take a text of the same length and second for the old one.
    exec(compile(text, path, "exec"), found.__dict__)
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
    code = OWN.replace("import math", "import math\nfrom numbacc.functions.arithmetic import exp").replace(
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
        "from numbacc.functions.epilogues import FORMULAS; "
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
