"""Which launches the compiled simulator runs, with which arguments: `numbacc.simulate`, and a machine without a GPU."""

from __future__ import annotations

import ctypes
import threading
from collections import namedtuple

import numba.cuda
import numpy as np
import pytest
from compiled_scripts import runs
from numba import cuda, float32
from skips import skip_if

import numbacc
from numbacc.arrays.portable import of_host
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.simulator.compiled import arguments, launches

SIMULATED = simulated()
ON_GPU = has_gpu() and not SIMULATED
#: Whether a launch outside of `simulate` runs in the compiled simulator.
BY_DEFAULT = not ON_GPU and not SIMULATED
Pair = namedtuple("Pair", ["scale", "offset"])


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    assert launches.entered() is None


@pytest.fixture
def options(monkeypatch):
    """The options of the launches that the compiled simulator gets."""
    found = []
    own = launches.launch

    def launch(function, grid, block, dynamic_bytes, given, options, extensions=()):
        found.append(options)
        own(function, grid, block, dynamic_bytes, given, options, extensions)

    monkeypatch.setattr(launches, "launch", launch)
    return found


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def affine(y, x, pair, more, flag, z):
    i = cuda.grid(1)
    if i < y.size and flag:
        y[i] = x[i] * pair[0] + pair[1] + more[1][0] + z.real


@cuda.jit
def reverse(x, y):
    s = cuda.shared.array(0, float32)
    k = cuda.threadIdx.x
    s[k] = x[k]
    cuda.syncthreads()
    y[k] = s[cuda.blockDim.x - 1 - k]


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, 77, dtype)


WAYS = {
    "kernel[]": lambda kernel: kernel[2, 8],
    "tuples": lambda kernel: kernel[(2, 1), (8,)],
    "stream and bytes": lambda kernel: kernel[2, 8, 0, 64],
    "configure": lambda kernel: kernel.configure(2, 8),
    "forall": lambda kernel: kernel.forall(10),
    "forall of blocks": lambda kernel: kernel.forall(10, tpb=4),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_launch(way, options):
    if way == "configure" and not hasattr(add_one, "configure"):
        way = "kernel[]"  # Numba's simulator has no such method
    x = np.zeros(10, np.float32)
    launch = WAYS[way](add_one)
    with numbacc.simulate():
        launch(x)
        WAYS[way](add_one)(x)
    assert len(options) == 2
    np.testing.assert_array_equal(x, np.full(10, 2, np.float32))
    launch(x)
    WAYS[way](add_one)(x)
    assert len(options) == (4 if BY_DEFAULT else 2)
    np.testing.assert_array_equal(x, np.full(10, 4, np.float32))


@numba.cuda.jit
def by_full_names(x):
    i = numba.cuda.blockIdx.x * numbacc.cuda.blockDim.x + numba.cuda.threadIdx.x
    if i < x.size:
        numba.cuda.atomic.add(x, i, 1)


def test_modules_may_be_named_in_full():
    x = np.zeros(10, np.float32)
    with numbacc.simulate():
        by_full_names[2, 8](x)
    np.testing.assert_array_equal(x, np.ones(10, np.float32))


def test_dynamic_shared_memory_is_passed():
    x, y = np.arange(32, dtype=np.float32), poisoned(32)
    with numbacc.simulate():
        reverse[1, 32, 0, 4 * 32](x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_forall_of_nothing_launches_nothing(options):
    with numbacc.simulate():
        add_one.forall(0)(np.zeros(0, np.float32)) if not SIMULATED else None
        with pytest.raises(ValueError, match="negative"):
            add_one.forall(-1)
    assert options == []


# ---------------------------------------------------------------- options and threads


def test_the_innermost_options_count(options):
    x = np.zeros(10, np.float32)
    outer = numbacc.simulate(checked=True, workers=1)
    with outer:
        add_one[1, 16](x)
        with numbacc.simulate(checked=False), outer:
            add_one[1, 16](x)
        with numbacc.simulate(checked=False, workers=3):
            add_one[1, 16](x)
        add_one[1, 16](x)
    assert [(each.checked, each.workers) for each in options] == [(True, 1), (True, 1), (False, 3), (True, 1)]
    np.testing.assert_array_equal(x, np.full(10, 4, np.float32))


def test_each_thread_has_its_own_options():
    add, found, errors = 8, [None] * 8, []
    together = threading.Barrier(add)

    def work(k):
        try:
            x = np.zeros(100, np.float32)
            assert launches.entered() is None
            with numbacc.simulate(checked=k % 2 == 0, workers=k + 1):
                together.wait()
                add_one[4, 32](x)
                found[k] = launches.entered()
                together.wait()
            assert launches.entered() is None
            np.testing.assert_array_equal(x, np.ones(100, np.float32))
        except BaseException as error:
            together.abort()
            errors.append(error)

    with numbacc.simulate(checked=True, workers=99):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(add)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert errors == []
    assert found == [launches.SimulationOptions(k % 2 == 0, k + 1) for k in range(add)]


def test_errors_end_the_simulation():
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), numbacc.simulate(), numbacc.simulate(checked=True):
            raise error
    with pytest.raises(numbacc.Error, match="takes 1 argument"), numbacc.simulate():
        add_one[1, 1](1, 2)
    assert launches.entered() is None


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"checked": 1}, "True, False or None"),
        ({"checked": "yes"}, "True, False or None"),
        ({"workers": 0}, "positive integer"),
        ({"workers": 1.5}, "positive integer"),
        ({"workers": True}, "positive integer"),
        ({"contract": None}, "True or False"),
    ],
)
def test_wrong_options(wrong, words):
    with pytest.raises(numbacc.errors.OptionError, match=words):
        numbacc.simulate(**wrong)


def test_notebooks_are_checked(monkeypatch):
    monkeypatch.setattr(launches, "in_notebook", lambda: True)
    assert "checked," in repr(numbacc.simulate()) and "unchecked" not in repr(numbacc.simulate())
    assert "unchecked" in repr(numbacc.simulate(checked=False))
    assert launches.SimulationOptions().checks() and not launches.SimulationOptions(checked=False).checks()


@pytest.mark.parametrize(
    "grid, block, words",
    [
        (0, 32, "grid.*from 1"),
        (1, 0, "block.*from 1"),
        (1, 2048, "1,024"),
        (1, (32, 64), "2,048 threads"),
        (1, (1, 1, 128), "along z"),
        ((1, 70_000), 1, "along y"),
        (-1, 1, "from 1"),
    ],
)
def test_grids_and_blocks_that_no_gpu_launches(grid, block, words):
    x = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match=words), numbacc.simulate():
        add_one[grid, block](x)
    np.testing.assert_array_equal(x, np.zeros(4, np.float32))


# ---------------------------------------------------------------- arguments


def test_numbers_tuples_and_bools():
    x, y = np.arange(10, dtype=np.float32), poisoned(10)
    with numbacc.simulate():
        affine[1, 16](y, x, Pair(2, np.float32(0.5)), (1, (np.int8(3), 2.0)), True, 1 + 2j)
        np.testing.assert_array_equal(y, x * 2 + 4.5)
        affine[1, 16](y, x, (np.float64(1), 0), (0, (0, 0)), np.False_, np.complex64(0))
    np.testing.assert_array_equal(y, x * 2 + 4.5)


@cuda.jit
def copy_any(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


def _kinds():
    values = np.arange(12)
    for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32"):
        yield dtype, values.astype(dtype)
    yield "float64", values.astype("float64")
    yield "complex64", (values * 1j).astype("complex64")
    yield "complex128", values + 1j * values
    yield "strided", np.arange(24.0)[::2]
    yield "reversed", np.arange(12.0)[::-1]
    yield "read-only", np.broadcast_to(np.float32(3), (12,))
    yield "float16", values.astype("float16")
    yield "bfloat16", values.astype(numbacc.bfloat16)
    yield "records", np.array([(k, k / 2) for k in range(12)], [("a", "i4"), ("b", "f8")])


KINDS = dict(_kinds())


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_all_kinds(kind):
    x = KINDS[kind]
    y = np.zeros_like(x, subok=False) if kind == "records" else np.full(12, 99).astype(x.dtype)
    with numbacc.simulate():
        copy_any[1, 16](x, y)
    np.testing.assert_array_equal(y, x)


@cuda.jit
def fields(record, x, zero_d):
    i = cuda.grid(1)
    if i < x.size:
        x[i].b = record.a + zero_d[()]


def test_records():
    dtype = np.dtype([("a", "i4"), ("b", "f8")])
    x = np.zeros(5, dtype)
    with numbacc.simulate():
        fields[1, 8](np.array([(7, 1.5)], dtype)[0], x, np.array(0.25))
    np.testing.assert_array_equal(x["b"], np.full(5, 7.25))


def test_arrays_on_the_device_are_written_in_place():
    x = numbacc.array(np.arange(10, dtype=np.float32))
    with numbacc.portable():
        p = numbacc.array(np.arange(10, dtype=np.float32))
    with numbacc.simulate():
        add_one[1, 16](x)
        add_one[1, 16](p)
        add_one[1, 16](p[2:4])
    np.testing.assert_array_equal(numbacc.asnumpy(x), np.arange(1, 11))
    np.testing.assert_array_equal(numbacc.asnumpy(p), np.arange(1, 11) + [0, 0, 1, 1, 0, 0, 0, 0, 0, 0])


def test_hints_say_what_is_copied():
    x, y, z = np.ones(4, np.float32), np.ones(4, np.float32), np.ones(4, np.float32)
    with numbacc.simulate():
        add_one[1, 2](cuda.In(x))
        add_one[1, 2](cuda.Out(y))  # adds to uninitialized memory
        add_one[1, 2](cuda.InOut(z))
    np.testing.assert_array_equal(x, [1, 1, 1, 1])
    assert np.isnan(y).all()
    np.testing.assert_array_equal(z, [2, 2, 1, 1])


@pytest.mark.parametrize("wrong", [[1.0, 2.0], "text", {"a": 1}, len, None], ids=str)
def test_what_no_kernel_takes(wrong):
    with pytest.raises(numbacc.errors.DTypeError, match="argument 0 is"), numbacc.simulate():
        add_one[1, 2](wrong)


@pytest.mark.parametrize("kind", ["float16", "int32", "float64"])
def test_numbers_have_the_types_of_a_signature(kind):
    found = arguments.cast((3, 2.5, None, np.ones(2)), (kind, "float32", "none", "array(float64, 1d, C)"))
    assert [type(each) for each in found[:2]] == [np.dtype(kind).type, np.float32]
    assert found[2] is None and found[3].dtype == np.float64


class Prepares:
    """An extension of a kernel: a number stands for an array."""

    def __init__(self):
        self.done = []

    def prepare_args(self, ty, val, stream, retr):
        if isinstance(val, str):
            made = np.zeros(int(val), np.float32)
            retr.append(lambda: self.done.append(made.sum()))
            return ty, made
        return ty, val


@skip_if(SIMULATED, "not simulated")
def test_extensions_prepare_arguments():
    extension = Prepares()
    kernel = cuda.jit(extensions=[extension])(add_one.py_func)
    with numbacc.simulate():
        kernel[1, 16]("10")
    assert extension.done == [10]


class OnGPU:
    """An array that claims to be on a GPU."""

    def __init__(self, host):
        self.host, self.dtype, made = host, host.dtype, host.__array_interface__
        self.__cuda_array_interface__ = {name: made[name] for name in ("data", "shape", "strides", "typestr")}


def test_memory_that_arrays_share_on_a_gpu_is_shared_on_the_host(monkeypatch):
    memory = np.arange(20, dtype=np.float32)

    def mapped(span):
        begin, (size,) = span.__cuda_array_interface__["data"][0], span.__cuda_array_interface__["shape"]
        return of_host(np.frombuffer((ctypes.c_uint8 * size).from_address(begin), np.uint8))

    def as_array(value, name, handle):
        if value.dtype.names:
            raise numbacc.errors.DTypeError("records")
        return of_host(value.host)

    monkeypatch.setattr(arguments.operands, "as_array", as_array)
    monkeypatch.setattr(arguments, "asarray", mapped)
    ahead, back, apart = memory[1:9], memory[8:0:-2], memory[12::3]
    with arguments.on_host([OnGPU(ahead), (OnGPU(back), 3), OnGPU(apart), OnGPU(memory[:0])]) as found:
        a, (b, three), c, none = found
        np.testing.assert_array_equal(a, np.arange(1, 9))
        np.testing.assert_array_equal(b, [8, 6, 4, 2])
        a += 100
        np.testing.assert_array_equal(b, [108, 106, 104, 102])
        c[0] = -1
        assert three == 3 and none.shape == (0,) and memory[1] == 1 and c.strides == apart.strides
    wanted = np.arange(20, dtype=np.float32)
    wanted[1:9] += 100
    wanted[12] = -1
    np.testing.assert_array_equal(memory, wanted)
    records = np.zeros(4, [("a", "i4"), ("b", "f8")])
    locked = np.arange(3)
    locked.flags.writeable = False
    with arguments.on_host([OnGPU(records[::2]), OnGPU(records), OnGPU(locked)]) as (some, every, fixed):
        every["b"][2] = 5
        assert some[1]["b"] == 5 and not fixed.flags.writeable and some.flags.writeable
    assert records["b"].tolist() == [0, 0, 5, 0]
    with pytest.raises(KeyError), arguments.on_host([OnGPU(ahead)]) as (a,):
        a[...] = 0
        raise KeyError  # nothing is copied back
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.gpu
@skip_if(not ON_GPU, "gpu")
def test_arrays_on_a_gpu():
    host = np.arange(32, dtype=np.float32)
    theirs, ours = cuda.to_device(host), numbacc.asarray(host)
    with numbacc.simulate(checked=True):
        add_one[1, 64](theirs)
        add_one[1, 64](ours[8:16])
        reverse[1, 32, 0, 128](theirs, ours)
        copy_any[1, 64](ours[1::2], ours[::2])
    np.testing.assert_array_equal(theirs.copy_to_host(), host + 1)
    np.testing.assert_array_equal(numbacc.asnumpy(ours), np.repeat(host[::-1][1::2] + 1, 2))
    records = np.array([(k, k / 2) for k in range(12)], [("a", "i4"), ("b", "f8")])
    given, made = cuda.to_device(records), cuda.to_device(np.zeros_like(records))
    with numbacc.simulate():
        copy_any[1, 16](given[::2], made[1::2])
    np.testing.assert_array_equal(made.copy_to_host()[1::2], records[::2])
    add_one[1, 64](theirs)  # on the GPU
    np.testing.assert_array_equal(theirs.copy_to_host(), host + 2)


# ---------------------------------------------------------------- Numba's simulator

seen = []


@cuda.jit
def interpreted(x):
    seen.append(cuda.grid(1))


def test_what_numba_cannot_compile_names_the_line():
    line = interpreted.py_func.__code__.co_firstlineno + 2
    words = f"(?s)test_compiled_launches.py:{line}: interpreted cannot be compiled: .*NUMBA_ENABLE_CUDASIM=1"
    with pytest.raises(numbacc.UnsupportedError, match=words), numbacc.simulate():
        interpreted[1, 4](np.zeros(4, np.float32))


@skip_if(not SIMULATED, "simulator")
def test_the_interpreter_is_the_default_of_numbas_simulator(options):
    seen.clear()
    interpreted[1, 4](np.zeros(4, np.float32))
    assert sorted(seen) == [0, 1, 2, 3] and options == []
    x = numbacc.asarray(np.zeros(4, np.float32))
    with numbacc.simulate():
        add_one[1, 4](x)
        x = x + 1  # numbacc's own kernels are interpreted
        with numbacc.trace() as traced:
            add_one[1, 4](x)
    assert len(options) == 1 and "add_one" in str(traced.table())
    np.testing.assert_array_equal(numbacc.asnumpy(x), np.full(4, 3))


class ArgMarshaller:
    """A configuration of Numba's successor."""

    def __init__(self, kernel, grid, block):
        self._dispatcher, self._launch_stream = kernel, None
        self._available_launch_config = {"grid": grid, "block": block, "sharedmem": None}


@skip_if(SIMULATED, "not simulated")
def test_configurations_of_numbas_successor_that_were_made_outside():
    launched = []
    call = launches._called_marshaller("numba_cuda_mlir.numba_cuda", lambda made, *args: launched.append(args))
    x, made = np.zeros(4, np.float32), ArgMarshaller(add_one, (1, 1, 1), (4, 1, 1))
    call(made, x)
    assert len(launched) == 1 and not x.any()
    with numbacc.simulate():
        call(made, x)
    assert len(launched) == 1 and x.tolist() == [1, 1, 1, 1]


# ---------------------------------------------------------------- processes without a GPU

WITHOUT_GPU = """
import sys
import numpy as np
{before}
import numbacc
assert {cheap}
from numba import cuda

@cuda.jit("void(float32[:], int32)")
def add(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += twice(n) / 2

@cuda.jit("int32(int32)", device=True)
def twice(n):
    return n + n

x = np.zeros(8, np.float32)
add[1, 8](x, 4)
add.forall(8)(x, 2)
print(x.tolist())
with numbacc.portable():
    p = numbacc.asarray(x)
add[1, 8](p, 1)
print(p.copy_to_host().tolist())
try:
    add[1, 8](x)
except numbacc.Error as error:
    print(error)
"""
PRINTED = """\
[6.0, 6.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0]
[7.0, 6.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0]
add(x, n) takes 2 arguments, and was given 1
"""


@skip_if(not BY_DEFAULT, "no gpu")
@pytest.mark.parametrize("before", ["", "import numba.cuda"], ids=["numbacc first", "numba.cuda first"])
def test_a_users_kernel_without_a_gpu(before, tmp_path):
    cheap = "True" if before else "not {'numba', 'numba.cuda', 'numbacc.simulator.compiled'} & {*sys.modules}"
    assert runs(tmp_path, WITHOUT_GPU.format(before=before, cheap=cheap)) == PRINTED


SUCCESSOR = """
import sys, types
import numpy as np
import numbacc
names = ("numba_cuda_mlir", "numba_cuda_mlir.descriptor", "numba_cuda_mlir.cuda")
package, descriptor, cuda = (types.ModuleType(name) for name in names)
exec('''
class MLIRDispatcher:
    def __init__(self, py_func):
        self.py_func, self.targetoptions = py_func, {}
    def configure(self, griddim, blockdim, stream=None, sharedmem=None, cluster=None):
        raise RuntimeError("on a GPU")
    def __getitem__(self, args):
        return self.configure(*args)
    def forall(self, ntasks, tpb=0, stream=0, sharedmem=0):
        raise RuntimeError("on a GPU")
''', vars(descriptor))
sys.modules.update(dict(zip(names, (package, descriptor, cuda))))
from numbacc.base import numba_hooks
with numba_hooks._compiled_launches(descriptor):
    pass
cuda.jit = descriptor.MLIRDispatcher

@cuda.jit
def add(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

x = np.zeros(3, np.float32)
add[1, 4](x)
add.forall(3)(x)
with numbacc.simulate():
    add.configure(1, 2)(x)
print(x.tolist())
"""


@skip_if(not BY_DEFAULT, "no gpu")
def test_kernels_of_numbas_successor(tmp_path):
    assert runs(tmp_path, SUCCESSOR) == "[3.0, 3.0, 2.0]\n"


WITH_NEW_BUILTINS = """
import builtins, threading

class Busy:
    added = 0

    @property
    def __class__(self):
        # The interpreter asks for it while Numba goes through the builtins.
        if Busy.added < 3:
            Busy.added += 1
            setattr(builtins, f"added_{Busy.added}", Busy.added)
        return Busy

builtins._ = Busy()
import numba, numpy as np
import numbacc

@numbacc.cuda.jit
def add(x):
    x[numbacc.cuda.threadIdx.x] += 1

x = np.zeros(3, np.float32)
def work():
    with numbacc.simulate():
        add[1, 3](x)
work = threading.Thread(target=work)
work.start()
work.join()
print(x.tolist(), Busy.added)
"""


@skip_if(not BY_DEFAULT, "no gpu")
def test_numba_starts_while_another_thread_adds_builtins(tmp_path):
    """IPython stores the result of a cell in `builtins._` while a thread compiles the first kernel."""
    assert runs(tmp_path, WITH_NEW_BUILTINS) == "[1.0, 1.0, 1.0] 3\n"
    numbacc_first = WITH_NEW_BUILTINS.replace("import numba, ", "import ")
    assert runs(tmp_path, numbacc_first) == "[1.0, 1.0, 1.0] 3\n"
