"""The compiled driver calls, with C functions made here standing in for the driver."""

from __future__ import annotations

import ctypes
import struct
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from skips import skip
from threads import run_threads

import numbacc
from numbacc.base.codes import ARRAYS, CAPTURING, FAILED, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from numbacc.base.dispatch import simulated
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime.launch_order import LaunchOrder

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.runtime import device, launch, native
from numbacc_bindings.driver import LaunchConfig

CONTEXT, FUNCTION, POOL, STREAM = 0x7F12_3456_7890, 0x7F00_0000_1110, 0x5550, 0x7F12_0000_0040
word = ctypes.c_uint64
c_function = {
    "cuCtxGetCurrent": ctypes.CFUNCTYPE(ctypes.c_int, word),
    "cuLaunchKernel": ctypes.CFUNCTYPE(ctypes.c_int, word, *[ctypes.c_uint] * 7, word, word, word),
    "cuLaunchKernelEx": ctypes.CFUNCTYPE(ctypes.c_int, word, word, word, word),
    "cuMemAllocFromPoolAsync": ctypes.CFUNCTYPE(ctypes.c_int, word, word, word, word),
    "cuMemFreeAsync": ctypes.CFUNCTYPE(ctypes.c_int, word, word),
    "cuStreamIsCapturing": ctypes.CFUNCTYPE(ctypes.c_int, word, word),
}


class Launched(NamedTuple):
    """What the driver got to launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    attributes: int
    function: int
    parameters: int
    arguments: bytes


class FakeDriver:
    """Functions with C addresses, which note what they are called with.

    Attributes:
        context: the current one.
        status: what launch, allocate and free return.
        capturing: what `cuStreamIsCapturing` writes; None if it may not be asked.
        calls: names of the functions called, with their arguments.
        asked: the streams of which it was asked whether they are captured.
    """

    def __init__(self):
        self.context, self.status, self.capturing, self.calls, self.asked = CONTEXT, 0, 0, [], []
        self._functions = {name: c_function[name](getattr(self, name)) for name in c_function}

    def address(self, name):
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value

    def cuCtxGetCurrent(self, result):
        word.from_address(result).value = self.context
        return 0

    def cuLaunchKernel(self, function, x, y, z, threads, rows, layers, shared, stream, parameters, extra):
        return self._launched((x, y, z), (threads, rows, layers), shared, stream, 0, function, parameters, extra)

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        found = LaunchConfig.from_address(config)
        assert found.numAttrs
        grid, block = (
            (found.gridDimX, found.gridDimY, found.gridDimZ),
            (found.blockDimX, found.blockDimY, found.blockDimZ),
        )
        more = found.sharedMemBytes, found.hStream or 0, found.numAttrs
        return self._launched(grid, block, *more, function, parameters, extra)

    def _launched(self, grid, block, shared, stream, attributes, function, parameters, extra):
        # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END, as cuda.h numbers them.
        keys = (word * 5).from_address(extra)
        assert (keys[0], keys[2], keys[4]) == (1, 2, 0)
        arguments = ctypes.string_at(keys[1], word.from_address(keys[3]).value)
        launched = Launched(grid, block, shared, stream, attributes, function, parameters, arguments)
        self.calls.append(("launch", launched))
        return self.status

    def cuMemAllocFromPoolAsync(self, result, nbytes, pool, stream):
        self.calls.append(("allocate", nbytes, pool, stream))
        if not self.status:
            word.from_address(result).value = 0x7FFF_0000_0200
        return self.status

    def cuMemFreeAsync(self, pointer, stream):
        self.calls.append(("free", pointer, stream))
        return self.status

    def cuStreamIsCapturing(self, stream, result):
        self.asked.append(stream)
        if self.capturing is None:
            return 906
        ctypes.c_int.from_address(result).value = self.capturing
        return 0


@pytest.fixture(scope="module")
def driver():
    """The stand-in, also behind `launch.Launcher`."""
    fake = FakeDriver()
    gpu = SimpleNamespace(get_current=fake.address("cuCtxGetCurrent"), context=CONTEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "driver", fake)
        patch.setattr(launch, "load_function", lambda spec, device: FUNCTION)
        patch.setattr(device, "gpu", lambda device: gpu)
        patch.setattr(device, "check_capability", checked)
        yield fake


@pytest.fixture(autouse=True)
def as_new(driver):
    driver.context, driver.status, driver.capturing = CONTEXT, 0, 0
    driver.calls.clear()
    driver.asked.clear()


def order(places=((0, 0), (1, 0)), constants=(), alignment=(), pairs=(), wide=False, words=0):
    """A launch of a kernel on arrays that `places` name."""
    spec = KernelSpec("scalar", FORMULAS["copy"], ("uint8",), ("uint8",), 1, wide)
    return LaunchOrder(spec, 0, (70000, 65535), (32, 4), alignment, places, constants, pairs, words)


# ---------------------------------------------------------------- what is launched


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_a_launch_hands_over_pointers_constants_configuration_and_stream(driver, wide, count):
    places = ((1, 0), (0, 4096), (0, 0), (5, 2**40))
    constants = tuple((-1) ** k * (10**9 + k) * (1 + wide * 10**6 * (k + 1)) for k in range(count))
    launcher = launch.Launcher(order(places, constants, wide=wide))
    given = [0x7F00_0000_0000 + 4096 * k for k in range(ARRAYS)]
    assert launcher.launch(STREAM, 0, given, ()) == 0
    ((_, launched),) = driver.calls
    assert driver.asked == [STREAM]
    pointers = [given[k] + offset for k, offset in places]
    packed = struct.pack("<4Q", *pointers) + struct.pack(f"<{count}{'q' if wide else 'i'}", *constants)
    assert launched == Launched((70000, 65535, 1), (32, 4, 1), 0, STREAM, 0, FUNCTION, 0, packed)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("arrays, words", [(2, 1), (4, 2), (5, 3), (16, 8), (20, 4)])
def test_scalars_follow_the_constants_at_a_multiple_of_8(driver, arrays, words, wide):
    places, constants = tuple((k, 8 * k) for k in range(arrays)), (3, -1, 5)
    launcher = launch.Launcher(order(places, constants, (0,) * arrays, wide=wide, words=words))
    given = [0x7F00_0000_0000 + 4096 * k for k in range(arrays)]
    scalars = [(-1) ** k * (2**62 + k) for k in range(words)]
    assert launcher.launch(STREAM, 0, given, scalars) == 0
    ((_, launched),) = driver.calls
    packed = struct.pack(f"<{arrays}Q", *(given[k] + offset for k, offset in places))
    packed += struct.pack("<3q", *constants) if wide else struct.pack("<4i", *constants, 0)
    assert launched.arguments == packed + struct.pack(f"<{words}q", *scalars)


def checked(dtype, oldest, device):
    """As `runtime.check_capability`, on a GPU of compute capability 7.5."""
    if oldest > (7, 5):
        raise numbacc.DeviceError(f"{dtype} on cuda:{device}")


def test_a_dtype_that_the_gpu_does_not_know_is_refused(driver):
    made = order()
    with pytest.raises(numbacc.DeviceError, match="bfloat16 on cuda:0"):
        launch.Launcher(made._replace(kernel=made.kernel._replace(writes=("bfloat16",))))


def test_more_arrays_than_a_launch_takes_are_refused(driver):
    with pytest.raises(numbacc.ShapeError, match="33 arrays"):
        launch.Launcher(order(alignment=(0,) * 33))


def template_of(launcher):
    """What its call keeps."""
    template, _ = launcher.launch.__module__
    return template


def test_the_template_is_laid_out_as_documented(driver):
    pair = (0, -16, 64, 1, 0, 128, 1)
    launcher = launch.Launcher(order(((1, 8), (0, 24)), (3, -1, 5), (4, 8), (pair,)))
    template = template_of(launcher)
    words = struct.unpack(f"<{len(template) // 8}q", template.raw[: len(template) // 8 * 8])
    head = {
        native.GET_CURRENT: driver.address("cuCtxGetCurrent"),
        native.CONTEXT: CONTEXT,
        native.IS_CAPTURING: driver.address("cuStreamIsCapturing"),
        native.LAUNCH: driver.address("cuLaunchKernel"),
        native.FUNCTION: FUNCTION,
        native.COUNT: 2,
        native.POINTERS: 2,
        native.CONSTANTS: 2,
        native.SCALARS: 0,
        native.SIZE: 2 * 8 + 3 * 4,
        native.PAIRS: 1,
    }
    assert {k: words[k] for k in head} == head
    alignment, rest = words[native.ALIGNMENT :][:2], words[native.ALIGNMENT + 2 :]
    assert alignment == (4, 8)
    assert rest[:4] == (1, 8, 0, 24)
    assert struct.pack("<2q", *rest[4:6]) == struct.pack("<4i", 3, -1, 5, 0)
    assert rest[6:][: native.PAIR_WORDS] == pair
    assert ctypes.sizeof(LaunchConfig) == 8 * native.CONFIG_WORDS


def test_the_largest_argument_block_fits(driver):
    count = native.ARGUMENT_BYTES // 4 - 4
    launcher = launch.Launcher(order(constants=tuple(range(count))))
    assert launcher.launch(0, 0, (16, 32), ()) == 0
    assert driver.calls[0][1].arguments[16:] == struct.pack(f"<{count}i", *range(count))
    with pytest.raises(AssertionError):
        launch.Launcher(order(constants=tuple(range(count + 1))))


def test_a_launch_leaves_its_template_as_it_was(driver):
    launcher = launch.Launcher(order(constants=(1, 2, 3)))
    before = template_of(launcher).raw
    launcher.launch(STREAM, 0, (16, 32), ())
    assert template_of(launcher).raw == before
    launcher.launch(0, 0, (64, 96), ())
    assert [launched.stream for _, launched in driver.calls] == [STREAM, 0]


@pytest.mark.parametrize("status", [1, 2, 700, 999])
def test_the_drivers_status_is_returned(driver, status):
    driver.status = status
    assert launch.Launcher(order()).launch(STREAM, 0, (16, 32), ()) == status


def test_threads_share_a_launcher(driver):
    launcher = launch.Launcher(order(constants=(7,)))

    def work(number):
        for k in range(200):
            assert launcher.launch(number, 0, (4096 * number, 16 * k), ()) == 0

    run_threads(lambda k: work(k + 1), 4)
    got = {(launched.stream, launched.arguments) for _, launched in driver.calls}
    assert got == {(n, struct.pack("<2Qi", 4096 * n, 16 * k, 7)) for n in range(1, 5) for k in range(200)}


# ---------------------------------------------------------------- what is not


@pytest.mark.parametrize("current", [0, CONTEXT + 8])
def test_another_context_is_current(driver, current):
    driver.context = current
    launcher = launch.Launcher(order(alignment=(8,), pairs=((0, 0, 8, 1, 0, 8, 0),)))
    assert launcher.launch(STREAM, 0, (16, 16), ()) == WRONG_CONTEXT
    get_current, capturing = driver.address("cuCtxGetCurrent"), driver.address("cuStreamIsCapturing")
    assert native.execute(get_current, CONTEXT, capturing, 4096, 1, STREAM, 2, 3, 4) == WRONG_CONTEXT
    assert native.is_current(get_current, CONTEXT) == 0
    assert allocate(driver, 64) == free(driver, 4096) == WRONG_CONTEXT
    assert driver.calls == []


@pytest.mark.parametrize("place", range(ARRAYS))
@pytest.mark.parametrize("got", range(16))
def test_an_array_is_aligned_otherwise(driver, place, got):
    alignment = [0] * ARRAYS
    alignment[place] = 6
    launcher = launch.Launcher(order(alignment=tuple(alignment)))
    given = [4096] * ARRAYS
    given[place] += 32 + got
    assert launcher.launch(0, 0, given, ()) == (0 if got == 6 else WRONG_ALIGNMENT)
    assert len(driver.calls) == (got == 6)


def test_alignment_comes_before_overlap(driver):
    launcher = launch.Launcher(order(alignment=(0, 8), pairs=((0, 0, 8, 1, 0, 8, 0),)))
    assert launcher.launch(0, 0, (16, 16), ()) == WRONG_ALIGNMENT


# A pair as the documentation has it: an array and an output, each with the bytes it touches around its address.
extents = st.tuples(st.integers(-40, 0), st.integers(1, 40))
arrays_at = st.lists(st.integers(4, 10).map(lambda n: 16 * n), min_size=3, max_size=3)
pairs = st.builds(
    lambda i, one, j, other, allowed: (i, *one, j, *other, allowed),
    st.integers(0, 2), extents, st.integers(0, 2), extents, st.integers(0, 1),
)  # fmt: skip


def touched(places, array, low, high):
    """The bytes of an array, one by one."""
    return set(range(places[array] + low, places[array] + high))


@given(arrays_at, st.lists(pairs, max_size=3))
@example([64, 64, 64], [(0, 0, 16, 1, 0, 16, 1)])
@example([64, 64, 64], [(0, 0, 16, 1, 0, 16, 0)])
@example([64, 80, 64], [(0, 0, 16, 1, 0, 16, 0)])
@example([80, 64, 64], [(0, 0, 16, 1, 0, 16, 0)])
@example([64, 80, 64], [(0, 0, 17, 1, 0, 16, 1)])
@example([64, 80, 64], [(0, -16, 16, 1, 0, 16, 0), (2, 0, 16, 1, -1, 16, 0)])
def test_shared_bytes_are_to_be_looked_at(driver, places, pairs):
    driver.calls.clear()
    shared = any(
        touched(places, i, low, high) & touched(places, j, out_low, out_high)
        and not (allowed and places[i] == places[j])
        for i, low, high, j, out_low, out_high, allowed in pairs
    )
    launcher = launch.Launcher(order(pairs=tuple(pairs), constants=(9,)))
    assert launcher.launch(0, 0, places, ()) == (MAY_OVERLAP if shared else 0)
    assert len(driver.calls) == (not shared)
    assert launcher.launch_unchecked(0, 0, places, ()) == 0
    assert driver.calls[-1][1].arguments == struct.pack("<2Qi", places[0], places[1], 9)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("option", [-1, 1])
def test_a_librarys_function_gets_its_words(option):
    """An int parameter the low half of its word, a function of fewer parameters the first ones."""
    seen = []

    def note(*arguments):
        seen.append(arguments)
        return 7

    current = ctypes.CFUNCTYPE(ctypes.c_int, word)(lambda result: word.from_address(result).__init__(CONTEXT) or 0)
    four = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, word, word, ctypes.c_int)(note)
    three = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, word, word)(note)
    places = [ctypes.cast(function, ctypes.c_void_p).value for function in (current, four, three)]
    for function in places[1:]:
        assert native.execute(places[0], CONTEXT, 0, function, 12, STREAM, 2**40 + 1, 2**63 - 5, option) == 7
    assert seen == [(12, 2**40 + 1, 2**63 - 5, option), (12, 2**40 + 1, 2**63 - 5)]


@contextmanager
def pool(driver):
    """The address of what the native functions know of a GPU and its pool."""
    names = ("cuCtxGetCurrent", "cuStreamIsCapturing", "cuMemAllocFromPoolAsync", "cuMemFreeAsync")
    get_current, *functions = map(driver.address, names)
    words = (word * 6)(get_current, CONTEXT, *functions, POOL)
    yield ctypes.addressof(words)


def allocate(driver, nbytes, stream=STREAM):
    with pool(driver) as gpu:
        return native.allocate(gpu, nbytes, stream)


def free(driver, pointer, stream=STREAM):
    with pool(driver) as gpu:
        return native.free(gpu, pointer, stream)


def test_an_allocation_is_an_address(driver):
    assert allocate(driver, 2**40 + 3) == 0x7FFF_0000_0200
    assert driver.calls == [("allocate", 2**40 + 3, POOL, STREAM)]


@pytest.mark.parametrize("status", [1, 2, 100, 999])
def test_a_failed_allocation_says_why(driver, status):
    driver.status = status
    code = allocate(driver, 64)
    assert code == FAILED - status
    assert code not in (WRONG_CONTEXT, CAPTURING, WRONG_ALIGNMENT, MAY_OVERLAP)


def test_memory_is_freed_on_its_stream(driver):
    assert free(driver, 0x7FFF_0000_0200) == 0
    assert driver.calls == [("free", 0x7FFF_0000_0200, STREAM)] and driver.asked == [STREAM]
    driver.status = 4
    assert free(driver, 512, 0) == 4


@pytest.mark.parametrize("capturing", [1, None], ids=["captured", "asking is forbidden"])
def test_nothing_is_done_on_a_captured_stream_unseen(driver, capturing):
    """What a graph uses must be kept: whoever comes by the quick way is sent back."""
    driver.capturing = capturing
    functions = [driver.address(name) for name in ("cuCtxGetCurrent", "cuStreamIsCapturing", "cuMemFreeAsync")]
    assert free(driver, 512) == CAPTURING
    assert allocate(driver, 512) == CAPTURING
    assert native.execute(functions[0], CONTEXT, *functions[1:], 12, STREAM, 16, 32, 0) == CAPTURING
    assert native.is_capturing(functions[1], STREAM) == 1
    launcher = launch.Launcher(order())
    assert launcher.launch(STREAM, 0, (16, 32), ()) == CAPTURING
    assert driver.asked == [STREAM] * 5 and driver.calls == []
    assert launcher.launch_unchecked(STREAM, 0, (16, 32), ()) == 0
    assert len(driver.asked) == 5 and len(driver.calls) == 1
