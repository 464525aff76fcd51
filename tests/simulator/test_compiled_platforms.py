"""The compiled simulator where macOS and Windows differ from Linux, as far as Linux can show it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from compiled_language import CASES
from compiled_launch import three
from compiled_scripts import runs
from llvmlite import binding
from numba.core import codegen
from skips import skip_if

import numbacc
from numbacc import cuda
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.simulator.compiled import host
from numbacc.simulator.compiled.kernel import Kernel

ROOT = Path(__file__).parents[2]
BY_DEFAULT = not simulated() and not has_gpu()

#: Modules and functions that Python has on Linux only, and packages of NVIDIA's.
ELSEWHERE = """
import multiprocessing, os, sys
import numpy as np
import numba  # it knows the real system

for name in ("fcntl", "resource", "grp", "pwd", "termios", "greenlet", "psutil", "numba_cuda", "cuda", {blocked}):
    sys.modules[name] = None
for name in (
    "sched_getaffinity", "register_at_fork", "fork", "forkpty", "sysconf", "getuid", "geteuid", "getgid", "symlink",
    "link", "readlink", "mkfifo", "killpg", "uname", "getloadavg",
):
    if hasattr(os, name):
        delattr(os, name)
system, sys.platform = sys.platform, {platform!r}
sys.meta_path = [each for each in sys.meta_path if "numba_cuda" not in type(each).__module__]
os.environ.pop("NUMBACC_CACHE_DIR", None)

import numbacc
from numbacc import cuda

@cuda.jit
def reverse(x):
    s = cuda.shared.array(64, cuda.float32)
    s[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = s[63 - cuda.threadIdx.x]

def run():
    x = np.arange(1 << 14, dtype=np.float32)
    reverse[256, 64](x)
    assert x[:64].tolist() == [*range(63, -1, -1)]
    with numbacc.simulate(checked=True, workers=2):
        reverse[256, 64](x)
    assert x.tolist() == [*range(1 << 14)]

if __name__ == "__main__":
    run()
    device = cuda.to_device(np.ones(3))
    assert float((device + 1).copy_to_host().sum()) == 6
    assert cuda.get_current_device().MULTIPROCESSOR_COUNT == os.cpu_count()
    assert f" {{os.cpu_count()}} core" in repr(numbacc.simulate())
    child = multiprocessing.get_context("spawn").Process(target=run)
    sys.platform = system  # multiprocessing has other code for Windows
    child.start()
    child.join()
    assert child.exitcode == 0
    kept = os.path.join(os.environ[{variable!r}], "numbacc", "simulate")
    print(len(os.listdir(kept)), type(reverse).__name__)
"""


@pytest.mark.each_alone(paired=True)
@skip_if(not BY_DEFAULT, "no gpu")
@pytest.mark.parametrize("platform, variable", [("darwin", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")])
@pytest.mark.parametrize("blocked", ['"numba.cuda"', ""], ids=["no numba.cuda", "Numba's own target"])
@pytest.mark.sampled(1)
def test_a_script_on_other_systems(platform, variable, blocked, tmp_path, monkeypatch):
    folder = tmp_path / "Größe und Ort"  # spaces and letters beyond ASCII
    folder.mkdir()
    monkeypatch.setenv(variable, str(folder / "kept"))
    script = ELSEWHERE.format(platform=platform, variable=variable, blocked=blocked)
    # Numba's target looks for Windows' own libraries.
    kernel = "StubKernel" if blocked or platform == "win32" else "CUDADispatcher"
    assert runs(folder, script) == f"1 {kernel}\n"


def test_one_number_of_cores(monkeypatch):
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert host.cores() == found
    assert f"on {found} core" in repr(numbacc.simulate())
    assert repr(numbacc.simulate(workers=1)).endswith("on 1 core")


@skip_if(not BY_DEFAULT, "no gpu")
def test_the_examples_of_the_page(tmp_path):
    """Where nothing of CUDA is installed."""
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    code = "import sys\nfor name in ('numba.cuda', 'numba_cuda', 'cuda'):\n    sys.modules[name] = None\n"
    code += "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    printed = runs(tmp_path, code)
    assert printed.startswith("10000.0\n[0. 2. 4. 6. 8.]") and "a race on element 1 of x" in printed


def test_wheels_of_cuda_are_installed_only_where_they_exist():
    """Each of NVIDIA's packages that `pip install numbacc` brings has a marker that excludes macOS."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    needed = text.partition("install_requires =")[2].partition("\n[")[0]
    for line in filter(None, map(str.strip, needed.splitlines())):
        if re.match(r"(numba-cuda|cuda-(?!pathfinder)|nvidia-)", line):
            assert 'sys_platform == "linux"' in line and "darwin" not in line, line


TABLE = np.arange(300_000)


@cuda.jit
def looks_up(x, y):
    i = cuda.grid(1)
    y[i] = TABLE[x[i]]


def test_kernels_that_cannot_be_kept_on_disk():
    """The machine code holds the address of an array of more than a megabyte."""
    x, y = np.array([299_999, 3, 5, 7]), np.full(4, -1)
    with numbacc.simulate():
        looks_up[1, 4](x, y)
    assert y.tolist() == x.tolist()


#: Other systems' processors, and constructs whose code differs between processors.
PROCESSORS = ("arm64-apple-darwin", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc")
CONSTRUCTS = ("constants_of_float16_and_bfloat16", "complex_bool_and_tuples_across_barriers", "divisions_of_integers")


@pytest.mark.slow
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_code_for_other_processors(checked, tmp_path, monkeypatch):
    """LLVM makes machine code for Macs, ARM and Windows, and it calls nothing of a compiler's own library.

    Numba's runtime does not have functions such as `__extendhfsf2` and `__floattisf` on all systems.
    """
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    texts = []
    add = codegen.CPUCodeLibrary.add_ir_module
    monkeypatch.setattr(
        codegen.CPUCodeLibrary, "add_ir_module", lambda self, module: (texts.append(str(module)), add(self, module))[1]
    )
    for name in CONSTRUCTS:
        make, grid, block, dynamic = CASES[name]
        function, arguments, _ = make()
        Kernel(function, checked=checked).launch(three(grid), three(block), dynamic, arguments)
    Kernel(counted, checked=checked).launch((1, 1, 1), (64, 1, 1), 0, (np.zeros(2), np.zeros(2, np.int32)))
    assert sum("_nb_run" in text for text in texts) >= 4
    for processor in PROCESSORS:
        machine = binding.Target.from_triple(processor).create_target_machine(opt=2)
        calls = set()
        for text in texts:
            text = re.sub(r'target triple = ".*"', f'target triple = "{processor}"', text)
            text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{machine.target_data}"', text)
            made = machine.emit_assembly(binding.parse_assembly(text))
            calls |= set(re.findall(r"^\s(?:bl|callq?)\s+([\w.$@]+)", made, re.MULTILINE))
        library = [
            name for name in calls if re.match(r"_{2,3}(extend|trunc|float|fix|u?div|u?mod|mul|atomic|sync)", name)
        ]
        assert not library, processor


@cuda.jit
def counted(x, y):
    i = cuda.grid(1)
    cuda.atomic.add(x, i % 2, 0.5)
    cuda.atomic.max(y, 0, i)
    cuda.atomic.cas(y, 1, 0, i)
