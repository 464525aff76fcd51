"""Random numbers are cuRAND's, bit for bit, wherever the sequence is entered and however it is cut up."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from conftest import bits
from host_curand import HostCurand, philox
from skips import skip

import numbacc
from numbacc.random import KINDS, Generator, State
from numbacc.random.methods import FLOATS
from numbacc.reference import random as reference
from numbacc_bindings.curand import Ordering

# mt19937 takes cuRAND four seconds to start on a CPU, so one test has it all.
PSEUDO = ("philox", "xorwow", "mrg32k3a", "mtgp32")
# mrg32k3a takes it a second. `test_rounds_of_normals_depend_on_the_ordering` has its bits and normals.
each_pseudo = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "mrg32k3a")) for kind in PSEUDO]
)
SOBOL = ("sobol32", "scrambled_sobol32", "sobol64", "scrambled_sobol64")
#: Outputs that a call of normal or poisson begins and ends with: of float32, of float64.
ROUNDS = {"philox": (2, 524288), "xorwow": (8192, 16384), "mrg32k3a": (163840, 163840), "mtgp32": (1, 1)}


def generator(place, *args, **kw):
    return Generator(*args, device=None if place.is_device else "cpu", **kw)


def close(place, got, want, kind):
    """Equal on the CPU, but to the last places for philox, whose normals are NumPy's there; on a device as close as
    cuRAND's device code comes to its host code."""
    if place.is_device:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    elif kind == "philox" and want.dtype.kind == "f":
        np.testing.assert_allclose(
            got, want, rtol=0, atol=8 * np.finfo(want.dtype).eps * max(1, np.abs(want).max() / 4)
        )
    else:
        np.testing.assert_array_equal(got, want)


@pytest.fixture
def size(place):
    return 71 if place.is_slow else 5003


# ---------------------------------------------------------------- bit for bit


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**64 - 1])
def test_philox_is_what_the_paper_says(seed):
    for first, count in ((0, 3), (1, 1000), (262140, 1000), (2**40 + 7, 50), (2**63 + 1, 50), (2**64 - 60, 60)):
        got = Generator("philox", seed, first, "cpu").bits(count)
        np.testing.assert_array_equal(got, philox(seed, first, count))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**32, 2**64 - 1])
def test_philox_in_numpy_is_curands(seed):
    """Word for word, also where the position's and the seed's high halves come into play."""
    for first in (0, 1, 2, 3, 262143, 2**32 - 7, 2**34 - 5, 2**48 + 1, 2**50 - 3, 2**63 + 5, 2**64 - 1000):
        np.testing.assert_array_equal(
            reference.philox(seed, first, 999), HostCurand("philox", seed, first)("Generate", 999)
        )
    np.testing.assert_array_equal(
        reference.philox(seed, 5, 600_000), HostCurand("philox", seed, 5)("Generate", 600_000)
    )


def test_philox_is_numpys_and_curands_in_one_sequence(numpy_place):
    """Long draws go to cuRAND, short ones to NumPy, and nobody sees the seams."""
    g, theirs = Generator("philox", 8, device="cpu"), HostCurand("philox", 8)
    for n in (3, 2**20 + 1, 5, 2**17, 2**14 - 1, 2**18 + 3, 2**15):
        np.testing.assert_array_equal(g.bits(n), theirs("Generate", n))


@each_pseudo
@pytest.mark.sampled(simulated=2)
def test_bits(place, size, kind):
    g, theirs = generator(place, kind, 11), HostCurand(kind, 11)
    for n in (1, 2, 3, 5, 64, size):
        np.testing.assert_array_equal(place.get(g.bits(n)), theirs("Generate", n))
    assert g.state.position == 75 + size


@pytest.mark.parametrize("offset", [1, 2, 3, 4, 262143, 262147, 2**40 + 1, 2**64 - 70])
@pytest.mark.parametrize("seed", [0, 2**63 + 12345])
def test_philox_entered_anywhere(place, seed, offset):
    g = generator(place, "philox", seed, offset)
    np.testing.assert_array_equal(place.get(g.bits(33)), HostCurand("philox", seed, offset)("Generate", 33))
    want = philox(seed, offset + 33 + (offset + 33) % 2, 20).view(np.uint64)
    np.testing.assert_array_equal(place.get(g.bits(10, dtype="uint64")), want)


@pytest.mark.parametrize("kind", SOBOL)
@pytest.mark.parametrize("dimensions", [1, 3])
def test_sobol_bits(place, kind, dimensions):
    g, theirs = generator(place, kind, dimensions=dimensions), HostCurand(kind, dimensions=dimensions)
    wide = kind.endswith("64")
    for n in (1, 7, 20):
        want = theirs("GenerateLongLong" if wide else "Generate", n * dimensions).reshape(dimensions, n)
        got = place.get(g.bits((dimensions, n), dtype=want.dtype))
        np.testing.assert_array_equal(got, want)
    assert g.state.position == 28
    if wide:
        want = (theirs("GenerateLongLong", 5 * dimensions) >> np.uint64(32)).astype(np.uint32)
        np.testing.assert_array_equal(place.get(g.bits((dimensions, 5))), want.reshape(dimensions, 5))


def test_random_is_the_top_bits(place, size):
    words = HostCurand("philox", 5)("Generate", size)
    for dtype, count in (("float32", 24), ("float16", 11), ("bfloat16", 8)):
        got = place.get(generator(place, "philox", 5).random(size, dtype=dtype))
        np.testing.assert_array_equal(got.astype(np.float64), (words >> np.uint32(32 - count)) * 2.0**-count)
    pairs = words[: size // 2 * 2].view(np.uint64)
    got = place.get(generator(place, "philox", 5).random(size // 2, dtype="float64"))
    np.testing.assert_array_equal(got, (pairs >> np.uint64(11)) * 2.0**-53)


def test_random_has_the_bits_of_curands_uniforms(place, size):
    theirs = HostCurand("philox", 5)("GenerateUniform", size)
    ours = place.get(generator(place, "philox", 5).random(size))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.0**-24)
    assert ours.max() < 1


def test_random_never_reaches_1(place):
    """An output so large that cuRAND's float32 of it is 1: number 11607254 of seed 0."""
    at = 11_607_254
    assert HostCurand("philox", 0, at)("GenerateUniform", 1)[0] == 1
    for dtype, largest in (("float32", 1 - 2.0**-24), ("float16", 1 - 2.0**-11), ("bfloat16", 1 - 2.0**-8)):
        assert place.get(generator(place, "philox", 0, at).random(1, dtype=dtype))[0] == largest
    assert place.get(generator(place, "philox", 0, at).random(1, dtype="float64"))[0] < 1


# In the simulator and in NumPy, the same calls of cuRAND draw the numbers. For this kind they take seconds.
@pytest.mark.too_long(lambda case: case.kind == "mrg32k3a")
@pytest.mark.each_alone
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_pseudo
@pytest.mark.sampled(simulated=1)
def test_normals_and_their_rounds(place, size, kind, dtype):
    """Odd numbers of them, in pieces, bits between: each call begins where the sequence says."""
    double, round_ = dtype == "float64", ROUNDS[kind][dtype == "float64"]
    normal = "GenerateNormalDouble" if double else "GenerateNormal"
    log_normal = normal.replace("Normal", "LogNormal")
    g = generator(place, kind, 3)
    close(place, place.get(g.normal(1.5, 2.0, 7, dtype=dtype)), HostCurand(kind, 3)(normal, 8, 1.5, 2.0)[:7], kind)
    each = 2 if double and kind in ("philox", "xorwow") else 1
    position = -(-7 * each // round_) * round_
    assert g.state.position == position
    np.testing.assert_array_equal(place.get(g.bits(1)), _at(kind, 3, position)("Generate", 1))
    position = -(-(position + 1) // round_) * round_
    want = _at(kind, 3, position)(log_normal, size + 1, 0.5, 0.25)[:size]
    close(place, place.get(g.lognormal(0.5, 0.25, size, dtype=dtype)), want, kind)


def _at(kind, seed, position):
    """cuRAND at a position, also where it cannot be asked to go there."""
    if kind != "mtgp32":
        return HostCurand(kind, seed, position)
    theirs = HostCurand(kind, seed)
    theirs("Generate", position)
    return theirs


def test_a_normal_far_out(place):
    """Output 332585378 of seed 0 is 6, of 2^32: the half that is added before the logarithm shows."""
    at = 332_585_378
    small, other = HostCurand("philox", 0, at)("Generate", 2).tolist()
    assert small == 6
    radius, angle = np.sqrt(-2 * np.log((small + 0.5) / 2**32)), 2 * np.pi * (other + 0.5) / 2**32
    found = place.get(generator(place, "philox", 0, at).normal(size=2))
    np.testing.assert_allclose(found, [radius * np.sin(angle), radius * np.cos(angle)], rtol=2e-5, atol=2e-5)


def test_normals_of_whole_rounds_join(place):
    """The sequence of normals does not depend on how it is cut, at rounds."""
    n = 10 if place.is_slow else 10_000
    for dtype in ("float32", "float16"):
        g = generator(place, "philox", 9)
        whole = place.get(generator(place, "philox", 9).normal(0, 1, 6 * n, dtype=dtype))
        pieces = [place.get(g.normal(0, 1, k * n, dtype=dtype)) for k in (1, 2, 3)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_of_philox_in_every_part_of_a_round(numpy_place, dtype):
    """Of float64 cuRAND makes 262144 together; here they are made in pieces, of any length."""
    n = 600_001
    function = "GenerateNormal" + "Double" * (dtype == "float64")
    want = HostCurand("philox", 2**40 + 1)(function, n + 1, 0.0, 1.0)[:n]
    close(numpy_place, Generator("philox", 2**40 + 1, device="cpu").normal(0, 1, n, dtype=dtype), want, "philox")
    far = 2**63 - 524288
    want = HostCurand("philox", 5, far)(function, n + 1, 0.0, 1.0)[:n]
    close(numpy_place, Generator("philox", 5, far, "cpu").normal(0, 1, n, dtype=dtype), want, "philox")
    few = Generator("philox", 5, far, "cpu").normal(0, 1, 7, dtype=dtype)
    close(numpy_place, few, want[:7], "philox")


@pytest.mark.parametrize("lam", [0.01, 10.0, 5000.0, 400_000.0])
@pytest.mark.parametrize("kind", ["philox", "xorwow", "sobol32", "sobol64"])
def test_poisson(place, size, kind, lam):
    want = HostCurand(kind, 4)("GeneratePoisson", size + size % 2, lam)[:size]
    seed = {} if kind in SOBOL else {"seed": 4}
    for dtype in ("int64", "uint32"):
        got = place.get(generator(place, kind, **seed).poisson(lam, size, dtype=dtype))
        assert got.dtype == dtype
        close(place, got, want, kind)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", SOBOL)
def test_sobol_normals(place, kind, dtype):
    function = "GenerateNormal" + "Double" * (dtype == "float64")
    want = HostCurand(kind, dimensions=2)(function, 66, 1.0, 3.0).reshape(2, 33)
    g = generator(place, kind, dimensions=2)
    close(place, place.get(g.normal(1.0, 3.0, (2, 33), dtype=dtype)), want, kind)
    assert g.state.position == 33


@pytest.mark.parametrize(
    "kind, ordering",
    [("xorwow", "seeded"), ("xorwow", "legacy"), ("mrg32k3a", "legacy"), ("mtgp32", "legacy"), ("philox", "best")],
)
def test_orderings(place, size, kind, ordering):
    number = Ordering[f"PSEUDO_{ordering.upper()}"]
    g, theirs = generator(place, kind, 1, ordering=ordering), HostCurand(kind, 1, ordering=number)
    skipped = 0 if place.is_slow else 20_000  # behind the first row of cuRAND's threads
    theirs("Generate", skipped)
    g.bits(skipped)
    np.testing.assert_array_equal(place.get(g.bits(size)), theirs("Generate", size))


@pytest.mark.parametrize("ordering, round_", [("legacy", 8192), ("default", 163_840)])
@pytest.mark.sampled(1, simulated=1)
def test_rounds_of_normals_depend_on_the_ordering(place, ordering, round_):
    if place.is_slow and ordering == "default":
        skip("slow")  # as for mt19937
    g = generator(place, "mrg32k3a", 2, ordering=ordering)
    theirs = HostCurand("mrg32k3a", 2, ordering=Ordering[f"PSEUDO_{ordering.upper()}"])
    close(place, place.get(g.normal(0, 1, 5)), theirs("GenerateNormal", 6, 0.0, 1.0)[:5], "mrg32k3a")
    assert g.state.position == round_
    again = HostCurand("mrg32k3a", 2, round_, ordering=Ordering[f"PSEUDO_{ordering.upper()}"])
    np.testing.assert_array_equal(place.get(g.bits(3)), again("Generate", 3))


def test_integers_are_products_of_64_or_128_bits(place, size):
    words = HostCurand("philox", 6)("Generate", 4 * size)
    x = [int(n) for n in words.view(np.uint64)]
    for low, high in ((0, 1), (0, 6), (-100, 28), (-(2**31), 2**31), (0, 2**32)):
        got = place.get(generator(place, "philox", 6).integers(low, high, size))
        assert got.tolist() == [low + (n * (high - low) >> 64) for n in x[:size]]
    for low, high in ((0, 2**32 + 1), (-(2**62), 3 * 2**60), (-(2**63), 2**63)):
        got = place.get(generator(place, "philox", 6).integers(low, high, size))
        want = [low + ((b << 64 | a) * (high - low) >> 128) for a, b in zip(x[::2], x[1::2], strict=True)]
        assert got.tolist() == want
    got = place.get(generator(place, "philox", 6).integers(2**64, size=size, dtype="uint64"))
    assert got.tolist() == x[1::2]


@pytest.mark.parametrize("kind", ["sobol32", "sobol64"])
def test_integers_of_points(place, kind):
    points = generator(place, kind)
    word = place.get(generator(place, kind).bits(40, dtype="uint" + kind[-2:]))
    got = place.get(points.integers(10, 1010, 40))
    assert got.tolist() == [10 + (int(x) * 1000 >> int(kind[-2:])) for x in word]


def test_uniform_is_rounded_after_each_step(place, size):
    """low + (high - low) u, with u of the top 24 bits of an output, of 53 for float64."""
    words = HostCurand("philox", 4)("Generate", 2 * size)
    for dtype in FLOATS:
        real = np.float64 if dtype == "float64" else np.float32
        u = words.view(np.uint64) >> np.uint64(11) if real == np.float64 else words[:size] >> np.uint32(8)
        u = u.astype(real) * real(2.0 ** -(53 if real == np.float64 else 24))
        for low, high in ((-3.0, 5.5), (0.1, 0.3), (-3e38, -1e38)):
            got = place.get(generator(place, "philox", 4).uniform(low, high, size, dtype=dtype))
            with np.errstate(over="ignore"):
                want = (u * real(high - low) + real(low)).astype(got.dtype)
            np.testing.assert_array_equal(bits(got), bits(want))


def test_a_word_that_is_the_bound_is_kept(place):
    """p is taken in steps of 2^-32: what is below it is dropped, and nothing else."""
    words = HostCurand("philox", 8)("Generate", 3)
    for at, word in enumerate(words.tolist()):
        for step, kept in ((0, True), (1, False)):
            flags = place.get(generator(place, "philox", 8).dropout_mask((word + step) / 2**32, 3, dtype="bool"))
            assert flags[at] == kept


def test_dropout_mask(place, size):
    words = HostCurand("philox", 8)("Generate", size)
    for p in (0.0, 0.25, 0.7, 1.0):
        kept = words >= p * 2**32
        flags = place.get(generator(place, "philox", 8).dropout_mask(p, size, dtype="bool"))
        np.testing.assert_array_equal(flags, kept)
        for dtype in FLOATS:
            mask = place.get(generator(place, "philox", 8).dropout_mask(p, size, dtype=dtype))
            scale = np.asarray(1 / (1 - p) if p < 1 else 0, np.float64).astype(np.float32).astype(mask.dtype)
            if dtype == "float64":
                scale = np.float64(1 / (1 - p) if p < 1 else 0)
            np.testing.assert_array_equal(mask, np.where(kept, scale, np.zeros((), mask.dtype)))


# ---------------------------------------------------------------- state


def _some(g, place):
    """A bit of everything that the kind can do."""
    n = (g.state.dimensions, 5)
    calls = [g.bits(n), g.random(n), g.normal(0, 1, n), g.poisson(3.0, n), g.integers(100, size=n)]
    calls += [g.random(n, dtype="float64"), g.dropout_mask(0.5, n), g.lognormal(0, 1, n, dtype="float16")]
    return b"".join(place.get(array).tobytes() for array in calls)


@pytest.mark.parametrize("kind", ["philox", "xorwow", "mtgp32", "sobol32", "scrambled_sobol64"])
@pytest.mark.parametrize("skipped", [0, 3])
def test_restored_in_midstream(place, kind, skipped):
    options = {"dimensions": 2} if "sobol" in kind else {"seed": 77}
    g = generator(place, kind, **options)
    if skipped:
        g.bits((g.state.dimensions, skipped), dtype="uint64" if kind.endswith("64") else "uint32")
        g.normal(0, 1, (g.state.dimensions, skipped))
    state, copy = pickle.loads(pickle.dumps(g.state)), pickle.loads(pickle.dumps(g))
    assert state == g.state == copy.state and isinstance(state, State)
    first = _some(g, place)
    assert first != _some(g, place)
    assert _some(copy, place) == first
    g.state = state
    assert _some(g, place) == first
    other = generator(place)
    other.state = state
    assert _some(other, place) == first


@pytest.mark.slow
def test_mt19937(place):
    """Bits, normals and pieces of the kind that is slow to start; it is restored as mtgp32 is."""
    if place.is_slow:
        skip("slow")  # cuRAND makes them on the host, as for NumPy's arrays
    g = generator(place, "mt19937", 5)
    # As cuRAND's host generator gives them, which would be as slow to start.
    assert place.get(g.bits(5)).tolist() == [953453411, 1182593874, 1646729385, 3256239217, 3246410453]
    normals = np.array([0.12810878455638885, 1.2208497524261475, 0.3535820543766022], np.float32)
    close(place, place.get(g.normal(0, 1, 3)), normals, "mt19937")
    assert place.get(g.bits(2)).tolist() == [2501240933, 1368710936]
    assert g.state.position == 10


def test_kinds_and_seeds_differ(place):
    first = {place.get(generator(place, kind).bits(4)).tobytes() for kind in PSEUDO}
    seeds = {place.get(generator(place, "philox", seed).bits(4)).tobytes() for seed in (0, 1, 2**32, 2**63)}
    assert len(first) == len(seeds) == 4


def test_a_failed_call_uses_nothing_up(place):
    g = generator(place, "philox", 1, 2**64 - 8)
    with pytest.raises(numbacc.OptionError, match="18446744073709551616 outputs"):
        g.bits(9)
    np.testing.assert_array_equal(place.get(g.bits(8)), philox(1, 2**64 - 8, 8))
    with pytest.raises(numbacc.OptionError):
        g.bits(1)
    points = generator(place, "sobol32", offset=2**32 - 3)
    points.bits(3)
    with pytest.raises(numbacc.OptionError, match="4294967296 points"):
        points.bits(1)


def test_empty_results_use_nothing_up(place):
    g = generator(place, "philox", offset=1)
    for call in (g.bits, g.random, lambda shape: g.normal(0, 1, shape), lambda shape: g.integers(3, size=shape)):
        assert place.get(call((0, 3))).shape == (0, 3)
    assert g.state.position == 1


def test_threads_share_a_generator(place):
    """Each gets its own part of the sequence, and nothing is lost."""
    n, each = (4, 30) if place.is_slow else (8, 1000)
    g, found = generator(place, "xorwow", 5), []

    def work():
        found.extend([g.bits(each) for _ in range(n)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = HostCurand("xorwow", 5)("Generate", 4 * n * each).reshape(-1, each)
    assert sorted(place.get(a).tobytes() for a in found) == sorted(row.tobytes() for row in whole)


def test_every_kind_is_tested():
    assert {*PSEUDO, *SOBOL, "mt19937"} == set(KINDS)
