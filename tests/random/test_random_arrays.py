"""Random numbers into arrays of any shape, dtype and strides, and everything that is refused."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits, in_parts, memory_layouts
from hypothesis import given
from hypothesis import strategies as st
from skips import skip

import numbacc
from numbacc import random
from numbacc.base.dispatch import simulated
from numbacc.random import Generator, State, executables, host
from numbacc.random.methods import FLOATS, INTEGERS

pytestmark = pytest.mark.usefixtures("poison")

#: Method -> (its first arguments, its dtypes).
METHODS = {
    "bits": ((), ("uint32", "uint64")),
    "random": ((), FLOATS),
    "uniform": ((-2.0, 3.0), FLOATS),
    "integers": ((-3, 100), ("int64", "int32", "int16", "int8")),
    "dropout_mask": ((0.3,), (*FLOATS, "bool")),
    "normal": ((1.0, 2.0), FLOATS),
    "lognormal": ((0.1, 0.5), FLOATS),
    "poisson": ((4.0,), ("int64", "int32", "uint64", "uint32")),
}
CASES = [(name, dtype) for name, (_, dtypes) in METHODS.items() for dtype in dtypes]


def generator(place, kind="philox", seed=0, offset=0, **kw):
    return Generator(kind, seed, offset, None if place.is_device else "cpu", **kw)


def draw(g, name, *args, **kw):
    return getattr(g, name)(*METHODS[name][0], *args, **kw)


# ---------------------------------------------------------------- arrays


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("kind", ["philox", "xorwow"])
@pytest.mark.parametrize("name, dtype", CASES)
def test_shapes_and_odd_lengths(place, kind, name, dtype):
    """Every shape has the first values of one sequence, in C order."""
    row = numbacc.base.dtypes.dtype(dtype)
    whole = place.get(draw(generator(place, kind, 3), name, 60, dtype=dtype))
    assert whole.dtype == row and whole.shape == (60,)
    for shape in (1, 7, (), (1,), (5, 1, 3), (2, 3, 4), (0,), (2, 0), (1,) * 8):
        got = draw(generator(place, kind, 3), name, shape, dtype=dtype)
        assert isinstance(got, np.ndarray) is not place.is_device
        got = place.get(got)
        assert got.shape == ((shape,) if isinstance(shape, int) else shape)
        flat = got.reshape(-1)
        np.testing.assert_array_equal(bits(flat), bits(whole[: flat.size]))


def test_defaults(place):
    g = generator(place)
    wanted = {"bits": "uint32", "integers": "int64", "poisson": "int64"}
    for name in METHODS:
        array = draw(g, name, ())
        assert (array.shape, array.dtype) == ((), wanted.get(name, "float32"))
    assert generator(place).normal(size=()).shape == generator(place).uniform(size=()).shape == ()


def test_one_number_is_a_scalar(place):
    """As in NumPy; with a size it is an array, also where the size is ()."""
    for name in METHODS:
        number = draw(generator(place, seed=9), name)
        assert isinstance(number, np.generic)
        assert number == place.get(draw(generator(place, seed=9), name, ()))[()]


def test_what_numpys_generators_know(place):
    device = None if place.is_device else "cpu"
    g, same = Generator(42, device=device), Generator("philox", 42, device=device)
    assert g.state == same.state and Generator(np.int64(42), device=device).state == same.state
    np.testing.assert_array_equal(place.get(g.standard_normal(size=(3, 2))), place.get(same.normal(size=(3, 2))))
    with pytest.raises(numbacc.OptionError, match="two seeds"):
        Generator(42, seed=7, device=device)
    with pytest.raises(numbacc.OptionError, match="kind=True is unknown"):
        Generator(True, device=device)


@in_parts(4, 25 if simulated() else 150)
@given(data=st.data())
def test_out_of_any_strides(place, part, data):
    """The values are those of a fresh array, and nothing around them is written."""
    name, dtype = data.draw(st.sampled_from(CASES))
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    offset = data.draw(st.integers(0, 5))
    out = place.empty(shape, numbacc.base.dtypes.dtype(dtype), **data.draw(memory_layouts(len(shape), writable=True)))
    want = place.get(draw(generator(place, offset=offset), name, shape, dtype=dtype))
    assert draw(generator(place, offset=offset), name, out=out.view) is out.view
    np.testing.assert_array_equal(bits(out.now()), bits(want))
    # A drawn number may have all bits set, so that it looks like one that was not written.
    now, around = place.get(out.base), np.ones(out._initial.shape, bool)
    out.within(around)[...] = False
    np.testing.assert_array_equal(bits(now)[around], bits(out._initial)[around])


@pytest.mark.parametrize(
    "name, dtype", [("random", "float32"), ("normal", "float64"), ("bits", "uint32"), ("poisson", "int64")]
)
@pytest.mark.parametrize("kind", ["philox", "mtgp32"])
def test_many_values_go_through_scratch_memory_in_pieces(place, kind, name, dtype, monkeypatch):
    """More than a piece of them, with a transposed out: the same as a dense one."""
    random.cache_clear()
    for module in (executables, host):
        monkeypatch.setattr(module, "PIECE", 4 if place.is_slow else 1 << 18)
    shape = (3, 5) if place.is_slow else (1100, 1021)
    want = place.get(draw(generator(place, kind), name, shape, dtype=dtype))
    out = place.empty(shape, np.dtype(dtype), order=(1, 0))
    draw(generator(place, kind), name, out=out.view)
    random.cache_clear()
    np.testing.assert_array_equal(out.now(), want)
    if kind == "mtgp32":
        whole = draw(Generator(kind, device="cpu"), name, shape, dtype=dtype)
        np.testing.assert_allclose(want, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name, dtype", [("normal", "float64"), ("lognormal", "float32"), ("bits", "uint32")])
@pytest.mark.parametrize("kind", ["xorwow", "philox", "mtgp32", "sobol32"])
def test_views_of_a_flat_buffer(place, kind, name, dtype):
    """They start at any element. cuRAND's host generator stores some numbers 16 bytes at a time, and died there."""
    if place.is_slow and kind != "xorwow":
        skip("slow")
    row, count = np.dtype(dtype), 2 if place.is_slow else 20_011
    g = generator(place, kind)
    for moved in range(16 // row.itemsize):
        state = g.state
        want = place.get(draw(g, name, count, dtype=dtype))
        buffer = place.put(np.zeros(count + 20, row))
        g.state = state
        draw(g, name, out=buffer[moved : moved + count])
        got = place.get(buffer)
        np.testing.assert_array_equal(bits(got[moved : moved + count]), bits(want))
        assert not got[:moved].any() and not got[moved + count :].any()


def test_numpy_arrays_that_start_at_any_byte():
    g, same = Generator("xorwow", device="cpu"), Generator("xorwow", device="cpu")
    buffer = bytearray(8 * 5000 + 1)
    out = np.frombuffer(buffer, "f8", offset=1)
    g.normal(out=out)
    np.testing.assert_array_equal(out, same.normal(size=5000, dtype="float64"))


@pytest.mark.parametrize("n", [1023, 1022, 2047, 4095])
def test_a_last_block_that_is_nearly_full(place, n):
    """Its last group has values that are not wanted: what lies behind the array stays."""
    out = place.empty((n,), np.dtype(np.float32), margins=((4, 4),))
    generator(place).random(out=out.view)
    np.testing.assert_array_equal(out.now(), place.get(generator(place).random(n + 9))[:n])
    out.assert_written_only()


@pytest.mark.parametrize("kind", ["sobol32", "scrambled_sobol64"])
def test_points_with_their_coordinates_next_to_each_other(place, kind):
    want = place.get(generator(place, kind, dimensions=3).random((3, 20)))
    out = place.empty((20, 3), np.dtype("float32"))
    generator(place, kind, dimensions=3).random(out=out.view.T)
    np.testing.assert_array_equal(out.now(), want.T)
    np.testing.assert_array_equal(
        place.get(generator(place, kind, dimensions=3).random((3, 4, 5))), want.reshape(3, 4, 5)
    )


def test_an_array_of_numbas_is_taken_and_returned(device_place):
    from numba import cuda

    out = cuda.device_array(12, np.float32)
    assert generator(device_place).random(out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), device_place.get(generator(device_place).random(12)))


def test_devices(place):
    assert generator(place).device == ("cuda:0" if place.is_device else "cpu")
    assert Generator(device="cpu").device == "cpu"
    assert isinstance(Generator(device="cpu").bits(3), np.ndarray)
    assert "seed=5" in repr(Generator(seed=5)) and "philox" in repr(Generator())


def test_a_stream_is_taken(place):
    stream = numbacc.stream()
    got = place.get(generator(place).random(8, stream=stream))
    with stream:
        np.testing.assert_array_equal(place.get(generator(place).random(8)), got)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "options, said",
    [
        ({"kind": "philux"}, "kind='philux' is unknown; the kinds are philox, xorwow"),
        ({"kind": None}, "kind=None is unknown"),
        ({"kind": ["philox"]}, "is unknown"),
        ({"seed": -1}, r"seed=-1 is out of range: it must be at least 0"),
        ({"seed": 2**64}, r"seed=18446744073709551616 is out of range: it must be 0 to 18446744073709551615"),
        ({"seed": 1.5}, "seed=1.5 is not an integer"),
        ({"seed": None}, "seed=None is not an integer"),
        ({"kind": "mt19937", "seed": 2**32}, "seed=4294967296 is out of range: it must be 0 to 4294967295"),
        ({"kind": "sobol32", "seed": 1}, "seed=1 is out of range: it must be 0 to 0"),
        ({"offset": -1}, "offset=-1 is out of range"),
        ({"offset": 2**64}, "offset=18446744073709551616 is out of range"),
        ({"kind": "sobol32", "offset": 2**32}, "offset=4294967296 is out of range"),
        ({"kind": "sobol32", "dimensions": 0}, "dimensions=0 is out of range: it must be at least 1"),
        ({"kind": "sobol64", "dimensions": 20001}, "dimensions=20001 is out of range: it must be 1 to 20000"),
        ({"kind": "sobol64", "dimensions": 2.0}, "dimensions=2.0 is not an integer"),
        ({"dimensions": 2}, "only quasi-random kinds"),
        ({"ordering": "dynamic"}, "ordering='dynamic' is unknown; philox has default, legacy, best"),
        ({"ordering": "seeded"}, "philox has default"),
        ({"kind": "sobol32", "ordering": "legacy"}, "sobol32 has default"),
        ({"ordering": None}, "ordering=None is unknown"),
    ],
)
def test_bad_generators(options, said):
    with pytest.raises(numbacc.OptionError, match=said):
        Generator(**{"device": "cpu", **options})


@pytest.mark.parametrize("device", ["gpu", 1.5, "cuda:99", 77])
def test_bad_devices(device):
    with pytest.raises(numbacc.DeviceError):
        Generator(device=device)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda g: g.poisson(0, 3), "lam=0 is out of range: it must be above 0 and at most 400000"),
        (lambda g: g.poisson(-1.5, 3), "lam=-1.5 is out of range"),
        (lambda g: g.poisson(400_001, 3), "lam=400001 is out of range"),
        (lambda g: g.poisson(NAN, 3), "lam=nan must be finite"),
        (lambda g: g.poisson("4", 3), "lam='4' is not a number"),
        (lambda g: g.poisson([4.0, 5.0], 2), "lam=.* is not a number"),
        (lambda g: g.uniform(1, 1, 3), "low=1 and high=1: low must be below high"),
        (lambda g: g.uniform(2, 1, 3), "low must be below high"),
        (lambda g: g.uniform(-3e38, 3e38, 3), "too far apart for float32"),
        (lambda g: g.uniform(-3.6e38, -3.5e38, 3), "too far apart for float32"),
        (lambda g: g.uniform(3.5e38, 3.6e38, 3), "too far apart for float32"),
        (lambda g: g.uniform(0, INF, 3), "high=inf must be finite"),
        (lambda g: g.uniform(NAN, 1, 3), "low=nan must be finite"),
        (lambda g: g.uniform(-1.7e308, 1.7e308, 3), "high - low=inf must be finite"),
        (lambda g: g.normal(0, -1, 3), "scale=-1.0 is negative"),
        (lambda g: g.normal(NAN, 1, 3), "loc=nan must be finite"),
        (lambda g: g.normal(0, INF, 3), "scale=inf must be finite"),
        (lambda g: g.lognormal(0, -0.5, 3), "sigma=-0.5 is negative"),
        (lambda g: g.lognormal(INF, 1, 3), "mean=inf must be finite"),
        (lambda g: g.integers(3, 3, 3), "low=3 and high=3: low must be below high"),
        (lambda g: g.integers(0, size=3), "low=0 and high=0"),
        (lambda g: g.integers(5, 2, 3), "low=5 and high=2"),
        (lambda g: g.integers(0, 1.5, 3), "high=1.5 is not an integer"),
        (lambda g: g.integers(0, 129, 3, dtype="int8"), "reach beyond int8, which holds -128 to 127"),
        (lambda g: g.integers(-1, 5, 3, dtype="uint32"), "reach beyond uint32"),
        (lambda g: g.integers(0, 128, 3, dtype="int8", endpoint=True), "reach beyond int8"),
        (lambda g: g.dropout_mask(1.5, 3), "p=1.5 is not a probability"),
        (lambda g: g.dropout_mask(-0.1, 3), "p=-0.1 is not a probability"),
        (lambda g: g.dropout_mask(NAN, 3), "p=nan must be finite"),
        (lambda g: g.bits(3, stream="s"), "stream='s' is not a stream"),
        (lambda g: g.spawn(-1), "n=-1 is out of range"),
        (lambda g: g.spawn(1.5), "n=1.5 is not an integer"),
        (lambda g: g.spawn(2**20 + 1), "n=1048577 is out of range: it must be 0 to 1048576"),
        (lambda g: g.spawn(10**400), "n=1000.* is out of range"),
        (lambda g: setattr(g, "state", ("philox", 0)), "is not a numbacc.random.State"),
        (lambda g: setattr(g, "state", State("philox", -1, 0, 0, 1, "default", 0)), "seed=-1"),
        (lambda g: setattr(g, "state", State("philox", 1, 0, -1, 1, "default", 0)), "position=-1"),
    ],
)
def test_bad_options(place, call, said):
    g = generator(place)
    with pytest.raises(numbacc.OptionError, match=said):
        call(g)
    assert g.state == generator(place).state


@pytest.mark.parametrize("wrong", [np.ones(3), np.array([1, 2]), [1], "x", None, 1.5, (), 1 + 2j], ids=repr)
def test_numbers_that_are_none(place, wrong):
    """Every argument is named as it is in the signature, and nothing is used up."""
    device = None if place.is_device else "cpu"
    for name in ("seed", "offset", "dimensions"):
        with pytest.raises(numbacc.OptionError, match=f"^{name}="):
            Generator("sobol32", device=device, **{name: wrong})
        with pytest.raises(numbacc.OptionError, match=f"^{name}="):
            Generator("philox", device=device, **{name: wrong})
    g = generator(place)
    state = g.state
    for name in ("seed", "offset", "position", "dimensions", "spawned"):
        with pytest.raises(numbacc.OptionError, match=f"^{name}="):
            g.state = state._replace(**{name: wrong})
    with pytest.raises(numbacc.OptionError, match=r"^n="):
        g.spawn(wrong)
    with pytest.raises(numbacc.OptionError, match=r"^endpoint="):
        g.integers(3, size=2, endpoint=wrong)
    assert g.state == state


@pytest.mark.parametrize("endpoint", [0, 1])
def test_endpoint_is_true_or_false(place, endpoint):
    with pytest.raises(numbacc.OptionError, match=f"endpoint={endpoint} is neither True nor False"):
        generator(place).integers(0, 3, 2, endpoint=endpoint)
    assert place.get(generator(place).integers(2, 2, 5, endpoint=np.True_)).tolist() == [2] * 5


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [2**62, (2**31, 2**31), 2**70])
def test_shapes_that_no_memory_could_hold(place, name, shape):
    g, dtype = generator(place), METHODS[name][1][0]
    with pytest.raises((numbacc.ShapeError, numbacc.OptionError), match=r"too large|outputs"):
        draw(g, name, shape, dtype=dtype)
    assert g.state.position == 0


@pytest.mark.parametrize("name", METHODS)
def test_bad_shapes_and_outs(place, name):
    g, dtype = generator(place), METHODS[name][1][0]
    for shape in (-1, (2, -3), 2.5, "4", (2, None)):
        with pytest.raises(numbacc.ShapeError):
            draw(g, name, shape)
    out = place.empty((4,), numbacc.base.dtypes.dtype(dtype)).view
    with pytest.raises(numbacc.ShapeError, match=r"out has shape \(4,\); size=\(5,\) was requested"):
        draw(g, name, 5, out=out)
    with pytest.raises(numbacc.DTypeError, match=f"out has dtype {dtype}; dtype="):
        draw(g, name, out=out, dtype=METHODS[name][1][1])
    if "float16" in METHODS[name][1]:  # of the same size
        with pytest.raises(numbacc.DTypeError, match="out has dtype float16; dtype=bfloat16"):
            draw(g, name, out=place.empty((4,), np.dtype(np.float16)).view, dtype="bfloat16")
    with pytest.raises(numbacc.DTypeError, match="dtype is complex64; supported:"):
        draw(g, name, 3, dtype="complex64")
    with pytest.raises(numbacc.DTypeError, match="out has dtype complex64"):
        draw(g, name, out=place.put(np.zeros(3, np.complex64)))
    for held in (np.array("x"), np.array(None), np.zeros(3, "datetime64[s]")):
        with pytest.raises(numbacc.DTypeError, match="out has dtype" if not place.is_device else "out"):
            draw(g, name, out=held)
    with pytest.raises(numbacc.DTypeError, match="nonsense"):
        draw(g, name, 3, dtype="nonsense")
    with pytest.raises(numbacc.DTypeError, match="it must be an array"):
        draw(g, name, out=[1.0])
    assert g.state.position == 0


def test_bad_memory(place, name="random"):
    g = generator(place)
    same = place.put(np.zeros(1, np.float32))
    repeated = same.broadcast_to((5,)) if place.is_device else np.broadcast_to(same, (5,))
    with pytest.raises(numbacc.LayoutError, match=r"share memory|read-only"):
        g.random(out=repeated)
    if not place.is_device:
        frozen = np.zeros(4, np.float32)
        frozen.flags.writeable = False
        with pytest.raises(numbacc.LayoutError, match="read-only"):
            g.random(out=frozen)
    assert g.state.position == 0


def test_out_on_another_device(device_place):
    with pytest.raises(numbacc.DeviceError, match="out is in host memory"):
        generator(device_place).random(out=np.zeros(3, np.float32))
    with pytest.raises(numbacc.DeviceError, match="the generator in host memory"):
        Generator(device="cpu").random(out=numbacc.zeros(3))


def test_points_need_a_fitting_shape(place):
    g = generator(place, "sobol32", dimensions=3)
    for shape in (6, (6, 3), ()):
        with pytest.raises(numbacc.ShapeError, match="its first length must be 3"):
            g.random(shape)


def test_what_sobol_cannot_do(place):
    g = generator(place, "sobol32")
    for call in (lambda: g.bits(3, dtype="uint64"), lambda: g.integers(2**33, size=3), lambda: g.spawn(2)):
        with pytest.raises(numbacc.UnsupportedError, match="sobol"):
            call()
    assert place.get(generator(place, "sobol64").integers(2**33, size=3)).max() < 2**33


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_fill_their_dtype(place, dtype):
    bounds = np.iinfo(dtype)
    n = 60 if place.is_slow else 2000
    g = generator(place, seed=2)
    got = place.get(g.integers(bounds.min, int(bounds.max) + 1, n, dtype=dtype))
    assert got.dtype == dtype and (got > bounds.max // 2).any() and (got < bounds.min // 2 + bounds.max // 4).any()
    edge = place.get(g.integers(bounds.max - 1, bounds.max, n, dtype=dtype, endpoint=True))
    assert set(edge.tolist()) == {bounds.max - 1, bounds.max}
    assert set(place.get(g.integers(bounds.min, size=4, high=bounds.min + 1, dtype=dtype)).tolist()) == {bounds.min}
