"""What is asked of cuRAND, and how often: its library is loaded late, its sequences are seldom entered anew."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from host_curand import HostCurand
from skips import skip, skip_if

import numbacc
from numbacc.base.dispatch import simulated
from numbacc.libraries import curand as engine
from numbacc.random import Generator
from numbacc_bindings import _library
from numbacc_bindings.curand import FUNCTIONS, CurandError, Status, curand


@pytest.fixture
def calls(monkeypatch):
    """The names of cuRAND's functions as they are called, from here on."""
    made = []

    def watched(name):
        function = getattr(curand, name)

        def call(*arguments):
            made.append(name.removeprefix("curand"))
            return function(*arguments)

        return call

    for name in FUNCTIONS:
        monkeypatch.setattr(curand, name, watched(name), raising=False)
    return made


@pytest.mark.parametrize("kind", ["xorwow", "mtgp32", "sobol32"])
def test_a_sequence_goes_on_without_being_entered_again(calls, kind):
    g = Generator(kind, device="cpu")
    g.bits(10)
    first = len(calls)
    for _ in range(3):
        g.random(5)
    if kind != "sobol32":
        g.normal(0, 1, 7)
        g.poisson(3.0, 9)
        g.bits(3)
    again = [name for name in calls[first:] if not name.startswith("Generate")]
    assert again == ["SetGeneratorOffset"] * (3 * (kind == "sobol32"))


def test_a_restored_state_keeps_the_generator_of_its_sequence(calls):
    g = Generator("mtgp32", 3, device="cpu")
    state, first = g.state, g.bits(10)
    g.bits(100)
    g.state = state._replace(position=110, spawned=7)
    g.bits(5)
    assert calls.count("CreateGeneratorHost") == 1  # it is there already
    g.state = state
    np.testing.assert_array_equal(g.bits(10), first)
    assert calls.count("CreateGeneratorHost") == 2  # it cannot go back
    g.state = Generator("mtgp32", 4, device="cpu").state
    assert g.bits(10).tolist() != first.tolist()
    assert calls.count("CreateGeneratorHost") == 3


@pytest.mark.parametrize("ahead", [1, engine.CHEAP, engine.CHEAP + 1, -3])
def test_a_sequence_is_entered_anew_where_that_is_cheaper(calls, ahead):
    """A little way ahead outputs are made and thrown away; further on, and back, cuRAND is told where to go."""
    want = HostCurand("xorwow", 3, 10 + ahead)("Generate", 5)
    g = Generator("xorwow", 3, device="cpu")
    g.bits(10)
    g.state = g.state._replace(position=10 + ahead)
    calls.clear()
    np.testing.assert_array_equal(g.bits(5), want)
    assert ("SetGeneratorOffset" in calls) == (not 0 < ahead <= engine.CHEAP)


@pytest.mark.parametrize("function, method", [("curandGenerate", "bits"), ("curandGenerateNormal", "normal")])
def test_a_draw_that_was_interrupted_is_drawn_again(monkeypatch, function, method):
    """cuRAND had made its numbers, and nobody knows how many: the generator begins anew."""
    g, generate = Generator("mtgp32", 5, device="cpu"), getattr(curand, function)

    def interrupted(*arguments):
        generate(*arguments)
        raise KeyboardInterrupt

    first = getattr(g, method)(size=7)
    state = g.state
    with monkeypatch.context() as patch:
        patch.setattr(curand, function, interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(g, method)(size=9)
    assert g.state == state
    whole = getattr(Generator("mtgp32", 5, device="cpu"), method)(size=16)
    np.testing.assert_array_equal(np.concatenate([first, getattr(g, method)(size=9)]), whole)


def test_values_are_written_where_they_are_wanted(calls):
    """cuRAND fills a NumPy array itself where it makes what is asked for."""
    g = Generator("xorwow", 1, device="cpu")
    for name in ("bits", "normal", "poisson"):
        calls.clear()
        options = {"dtype": "uint32"} if name == "poisson" else {}
        out = np.empty(16384, {"bits": "u4", "normal": "f4", "poisson": "u4"}[name])
        getattr(g, name)(out=out, **options)
        assert len([c for c in calls if c.startswith("Generate")]) == 1


@skip_if(not simulated(), "simulator")
def test_philoxs_kernels_need_no_generator_of_curands(calls):
    g = Generator("philox")
    for call in (g.bits, g.random, g.uniform, g.normal, g.lognormal):
        call(size=3)
    g.integers(9, size=3)
    g.dropout_mask(0.5, 3)
    assert not calls
    g.poisson(1.0, 3)
    assert "CreateGeneratorHost" in calls


def test_a_generator_is_destroyed_with_its_owner(calls):
    g = Generator("xorwow", device="cpu")
    g.bits(1)
    del g
    assert calls.count("CreateGeneratorHost") == calls.count("DestroyGenerator") == 1


def test_nothing_is_loaded_before_it_is_needed():
    code = (
        "import numbacc; g, x = (numbacc.random.Generator(kind, device='cpu') for kind in ('philox', 'xorwow')); "
        "maps = lambda: open('/proc/self/maps').read(); g.bits(1); g.normal(0, 1, 9); "
        "assert 'libcurand' not in maps(); x.bits(1); assert 'libcurand' in maps()"
    )
    if not sys.platform.startswith("linux"):
        skip("linux")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_of_the_library_tell_what_and_why():
    theirs = HostCurand("xorwow")
    with pytest.raises(
        CurandError, match=r"curandGenerateNormal failed with status 105 \(LENGTH_NOT_MULTIPLE\): "
    ) as e:
        theirs("GenerateNormal", 3, 0.0, 1.0)
    assert isinstance(e.value, numbacc.LibraryError) and e.value.status == Status.LENGTH_NOT_MULTIPLE


def test_a_missing_library_is_told(monkeypatch):
    missing = _library.Library("curand_of_no_one", CurandError, FUNCTIONS, lambda *_: ("", ""), "install it")
    monkeypatch.setattr(engine, "curand", missing)
    g = Generator("xorwow", device="cpu")
    with pytest.raises(numbacc.LibraryError, match="was not found: install it"):
        g.bits(3)
    assert g.state.position == 0


#: Philox where no cuRAND can be found, and what the others say. Prints digests of some draws.
WITHOUT = """
import hashlib, sys
import numpy as np
import numbacc
from numbacc.random import KINDS, Generator

if sys.argv[1] == "hidden":
    import cuda.pathfinder

    def nowhere(name):
        raise cuda.pathfinder.DynamicLibNotFoundError(f"{name} is hidden")

    cuda.pathfinder.load_nvidia_dynamic_lib = nowhere

def show(x):
    print(hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest())

g = Generator("philox", 2**63 + 11, 2**33 + 3, device="cpu")
for n in (7, 2**20 + 3, 2**15):
    for dtype in ("uint32", "uint64"):
        show(g.bits(n, dtype=dtype))
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        for call in (g.random, g.dropout_mask, g.normal, g.lognormal, g.uniform):
            first = (0.3,) if call == g.dropout_mask else () if call == g.random else (0.5, 1.5)
            show(call(*first, size=n, dtype=dtype).view("u%d" % np.dtype(numbacc.base.dtypes.dtype(dtype)).itemsize))
    for high in (6, 2**40):
        show(g.integers(high, size=n))
print(g.state)

if sys.argv[1] == "hidden":
    calls = [lambda kind=kind: Generator(kind, device="cpu").bits((1, 3)) for kind in KINDS if kind != "philox"]
    for call in (*calls, lambda: g.poisson(3.0, 5)):
        try:
            call()
        except numbacc.LibraryError as error:
            assert 'pip install "numbacc[cu12]"' in str(error), error
        else:
            raise AssertionError("it was found")
"""


@skip_if(simulated(), "not simulated")  # it starts other processes, without the simulator
def test_philox_needs_no_curand_and_the_others_name_what_to_install():
    """All it draws is the same with and without cuRAND, to the last bit; normals too, which are NumPy's."""
    found, hidden = (
        subprocess.run([sys.executable, "-c", WITHOUT, how], check=True, capture_output=True, text=True).stdout
        for how in ("found", "hidden")
    )
    assert found == hidden and len(found.splitlines()) == 3 * 24 + 1
