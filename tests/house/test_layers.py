"""Which module may know which: imports go downward, floor by floor, and nowhere in a circle."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from paths import ROOT
from sources import FAMILIES, PACKAGES, imported, imports

from numbacc.runtime import host_cache

SOURCES = sorted(path for folder in PACKAGES.values() for path in folder.rglob("*.py"))

#: The modules and folders of numbacc from the lowest floor up. What lies on one floor does not know its neighbours.
FLOORS = (
    {"_version", "errors"},
    {"base"},
    {"typing"},
    {"reference"},
    {"functions"},
    {"runtime"},
    {"kernels"},
    {"arrays", "libraries"},
    {"plan", "simulator", "compiled_steps"},
    {"device"},
    FAMILIES - {"attention", "gated"},
    # Attention's unfused path, and a gated layer, are made of products.
    {"attention", "gated"},
    # Made of several families; and communication between processes.
    {"nn", "distributed"},
    {"cuda", "profiling", "tracing", "bridges"},
    {"jax", "torch"},
    {"__init__"},
    {"numpy_ufuncs"},
    {"array_api"},
    {"numpy_functions"},
    {"compiling", "info", "notebook_copies"},
    {"demo", "train"},
    {"__main__"},
)


#: Modules of `kernels` that lay out launches for given arrays, rather than device code.
LAUNCHES = re.compile(r"launch(es)?$|geometry$|_tables$|_choice$|\.copy$|\.inspection$")


def module_name(path):
    for name, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            return ".".join([name, *path.relative_to(folder).with_suffix("").parts])
    raise ValueError(path)


TEXTS = {module_name(path): path.read_text() for path in SOURCES}


@cache
def all_imports():
    """Module -> what it imports."""
    return {module: imports(text, module.rpartition(".")[0]) for module, text in TEXTS.items()}


def reaches(module, *targets):
    """What a module imports of these modules and those below them."""
    return {name for name in all_imports()[module] for target in targets if f"{name}.".startswith(f"{target}.")}


def importers(*targets):
    return {module for module in all_imports() if reaches(module, *targets)}


def numbacc_modules(*names):
    return [f"numbacc.{name}" for name in names]


def folder_of(module):
    """The folder of a module of numbacc, or its own name where it lies at the top."""
    return module.split(".")[1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from numba import cuda", {"numba", "numba.cuda"}),
        ("def f():\n    import numba.cuda.cudadrv", {"numba.cuda.cudadrv"}),
        ("from . import plans", {"numbacc.kernels", "numbacc.kernels.plans"}),
        ("from .. import plans", {"numbacc", "numbacc.plans"}),
        ("from ..plans import MapPlan", {"numbacc.plans", "numbacc.plans.MapPlan"}),
    ],
)
def test_imports_are_found(source, expected):
    assert imports(source, "numbacc.kernels") == expected


# ---------------------------------------------------------------- floors and circles


def graph_of(texts):
    """Module -> the modules of numbacc that it imports, given all their sources."""
    files = {name.removesuffix(".__init__"): name for name in texts}  # a package is its __init__

    def targets(module):
        # What is taken of a package is one of its modules, or else the package's own.
        pairs = imported(texts[module], module.rpartition(".")[0])
        return {files[name if name in files else base] for base, name in pairs if name in files or base in files}

    return {module: targets(module) - {module} for module in texts}


@cache
def whole_graph():
    return graph_of({module: text for module, text in TEXTS.items() if module.startswith("numbacc.")})


def upward(graph):
    """The imports that do not go to a lower floor, nor stay in their folder."""
    floor = {folder: number for number, folders in enumerate(FLOORS) for folder in folders}
    return {
        (module, target)
        for module, targets in graph.items()
        for target in targets
        if folder_of(module) != folder_of(target) and floor[folder_of(module)] <= floor[folder_of(target)]
    }


def circle(graph):
    """The modules of a circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_contributing_lists_the_floors_from_the_lowest_up():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", text.partition("## Tests")[0], re.MULTILINE)
    listed = [{name.removesuffix(".py").rstrip("/") for name in re.findall(r"`(.*?)`", row)} for row in rows]
    floor = {folder: number for number, folders in enumerate(FLOORS) for folder in folders}
    numbers = [max(floor[name] for name in row) for row in listed]
    assert numbers == sorted(numbers)
    assert set.union(*listed) == {*map(folder_of, whole_graph())} - {"__init__", "_version"}


def test_everything_has_a_floor():
    folders = [folder for floor in FLOORS for folder in floor]
    assert len(folders) == len(set(folders))
    assert {*map(folder_of, whole_graph())} == {*folders}


def test_imports_go_downward():
    assert upward(whole_graph()) == set()


def test_there_is_no_circle():
    """Not even one through imports inside functions."""
    assert circle(whole_graph()) == []


#: Sources that are not to be, beside modules that import nothing.
WRONG = {
    "upward": {"numbacc.kernels.a": "from ..plan import b", "numbacc.plan.b": ""},
    "in a function": {"numbacc.base.a": "def f():\n    from ..arrays.b import c", "numbacc.arrays.b": ""},
    "to a neighbour": {"numbacc.arrays.a": "from ..libraries import b", "numbacc.libraries.b": ""},
    "to another family": {"numbacc.fft.a": "from .. import gated", "numbacc.gated": ""},
    "to the package": {"numbacc.plan.a": "from .. import empty, base", "numbacc.__init__": ""},
    "to all of it": {"numbacc.runtime.a": "import numbacc", "numbacc.__init__": ""},
    "to a folder": {"numbacc.libraries.a": "from ..fft import plan", "numbacc.fft.__init__": ""},
}


@pytest.mark.parametrize("sources", WRONG.values(), ids=WRONG)
def test_imports_that_go_upward_are_found(sources):
    graph = graph_of(sources)
    assert upward(graph) == {tuple(sources)}
    assert not circle(graph)


@pytest.mark.parametrize(
    "late", ["from . import a", "def f():\n    from .a import g"], ids=["at once", "in a function"]
)
def test_circles_are_found(late):
    sources = {"a": "from . import b", "b": "from .c import d", "c": late}
    graph = graph_of({f"numbacc.base.{name}": text for name, text in sources.items()})
    assert len(circle(graph)) == 4 and not upward(graph)


def test_imports_name_modules_that_exist():
    """mypy takes a missing module for one without types."""
    files = {name.removesuffix(".__init__") for name in TEXTS}
    missing = {
        (module, base)
        for module, text in TEXTS.items()
        for base, full in imported(text, module.rpartition(".")[0])
        if base.partition(".")[0] in PACKAGES and not {base, full} & files
    }
    assert missing == set()


def test_few_import_by_name():
    """Where no test sees it: what brings Numba, what is imported late, and modules that users' kernels name."""
    allowed = numbacc_modules(
        "__init__", "__main__", "base._numba", "base.dispatch", "cuda", "runtime.kernel_code", "tracing.compiler"
    )
    by_name = {m for m, text in TEXTS.items() if re.search(r"\bimport_module\b|\b__import__\b", text)}
    assert by_name == {*allowed}


def test_dispatch_names_a_real_and_a_simulated_module():
    pairs = re.findall(r'_module\("([\w.]+)", "([\w.]+)"\)', TEXTS["numbacc.base.dispatch"])
    assert len(pairs) == 6
    for real, simulated in pairs:
        assert {*numbacc_modules(real, simulated)} <= whole_graph().keys()
        assert real.startswith(("runtime.", "libraries.")) and simulated.startswith("simulator.")
    users = {folder_of(module) for module in importers("numbacc.simulator")}
    assert users == {"simulator", "tracing", "cuda", "device", "__init__"}


# ---------------------------------------------------------------- who knows what else


def test_one_door_to_numba_cuda():
    assert importers("numba.cuda") == {*numbacc_modules("base._numba", "base._compiler", "cuda")}
    assert importers("numbacc.base._compiler") == {"numbacc.base._numba"}
    allowed = numbacc_modules(
        "base._numba", "base._compiler", "cuda", "runtime.builtin", "runtime.host_cache",
        "runtime.native", "runtime.native_ffi", "runtime.native_graphs", "reference.c_library",
    )  # fmt: skip
    # The compiled simulator compiles by Numba for the CPU, and knows no CUDA.
    compiled = {module for module in all_imports() if module.startswith("numbacc.simulator.compiled.")}
    assert importers("numba", "llvmlite") - compiled <= {*allowed}
    assert not importers("cuda", "numba_cuda", "numbacc_bindings", "numbacc.base._numba") & compiled


def generated(source):
    """What a module has of LLVM's builders and of inline assembly: names, in order."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = [getattr(node, field, None) for field in ("id", "attr", "arg", "module")]
        names += [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        found |= {"builder", "assembly", "InlineAsm", "intrinsic", "ir"} & {*names}
        found |= {name for name in names if name and name.partition(".")[0] == "llvmlite"}
    return sorted(found)


def test_kernels_generate_code_in_one_folder():
    """LLVM code and inline assembly are in `kernels/primitives`, each with its simulated twin in the same file."""
    kernels = {module: generated(text) for module, text in TEXTS.items() if module.startswith("numbacc.kernels.")}
    inside = {module for module in kernels if module.startswith("numbacc.kernels.primitives.")}
    assert {module: found for module, found in kernels.items() if found and module not in inside} == {}
    assert any(kernels[module] for module in inside)
    assert [module for module in kernels if "simulated" in module] == numbacc_modules("kernels.primitives.simulated")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(builder): return builder.add(1, 2)", ["builder"]),
        ("from ...base._numba import intrinsic, ir", ["intrinsic", "ir"]),
        ("from llvmlite import ir\nimport llvmlite.binding", ["ir", "llvmlite", "llvmlite.binding"]),
        ("def f(x): return api.ir.InlineAsm(x)", ["InlineAsm", "ir"]),
        ("from ..primitives.instructions import assembly", ["assembly"]),
        ("from ..primitives.partials import parts_intrinsics\n'builder.add'", []),
    ],
)
def test_generated_code_is_found(source, expected):
    assert generated(source) == expected


def test_what_native_imports_decides_its_cache():
    """Its constants are part of the machine code that `host_cache` keeps."""
    kept_by = {name.removesuffix(".py").replace("/", ".") for name in host_cache.SOURCES}
    for module in numbacc_modules("runtime.native", "runtime.native_graphs"):
        assert whole_graph()[module]
        assert {*whole_graph()[module], module} - {*numbacc_modules(*kept_by)} == set()


def test_bindings_know_no_arrays():
    for module in all_imports():
        if module.startswith("numbacc_bindings"):
            assert not reaches(module, "numpy", "numba", "numbacc", "ml_dtypes"), module


def test_reference_knows_no_gpu():
    for module in all_imports():
        if module.startswith("numbacc.reference"):
            above = numbacc_modules("base._numba", "base.dispatch")
            assert not reaches(module, *above, "numba.cuda", "numbacc_bindings"), module


def test_only_families_and_what_stands_in_for_gpus_know_the_reference():
    knowing = {folder_of(module) for module in importers("numbacc.reference")}
    # A function of the kernels brings its meaning with it.
    assert knowing <= {*FAMILIES, "functions", "kernels", "reference", "simulator"}
    kernels = {module for module in importers("numbacc.reference") if folder_of(module) in ("functions", "kernels")}
    assert kernels == {
        *numbacc_modules(
            "kernels.conv.epilogue",
            "kernels.primitives.device.random_words",
            "functions.symbolic.ieee_math",
            "functions.symbolic.vectorized",
            "functions.epilogues",
            "functions.gates",
            "functions.activations",
            "functions.unary",
            "functions.binary",
        )
    }


def test_kernels_know_no_validation_and_no_library():
    for module in all_imports():
        if module.startswith(("numbacc.functions", "numbacc.kernels")) and not LAUNCHES.search(module):
            above = numbacc_modules("base.checks", "base.layout", "errors")
            assert not reaches(module, *above, "numbacc_bindings", "ctypes"), module


def test_public_modules_know_no_ctypes():
    below = numbacc_modules("base._numba", "runtime.native", "runtime.device")
    for module in whole_graph():
        if folder_of(module) in FAMILIES:
            assert not reaches(module, "ctypes", "numba", "llvmlite", "cuda", "numbacc_bindings", *below), module


def test_plans_know_neither_device_arrays_nor_plans_of_cudnn():
    """To follow a call one reads how operands are made, not what they are, and graphs, not how cuDNN gets them."""
    assert not importers("numbacc.arrays.device_array")
    for folder in ("attention", "conv"):
        modules = [module for module in whole_graph() if folder_of(module) == folder]
        below = numbacc_modules("libraries.cudnn_plans", "libraries.cudnn_descriptors")
        assert not any(reaches(module, *below) for module in modules)


def test_what_is_installed_knows_no_benchmarks_and_tools():
    assert not importers("benchmarks", "tools", "tests")


@pytest.mark.parametrize("folder", ["numbacc", "bindings", "benchmarks", "tools", "tests"])
def test_files_are_short(folder):
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in (ROOT / folder).rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 1000} == {}


#: Files under 60 lines, and why each stands alone. A folder's `__init__` holds its public names, or its one sentence.
SMALL = {
    "_version": "setup.py reads it",
    "__main__": "`python -m numbacc`",
    "notebook_copies": "a command of `python -m numbacc`, as compiling, info and demo are",
    "cudnn": "a public name",
    "base.codes": "constants of compiled host code: they are part of its cache's key",
    "base.garbage": "the compilers for GPUs and for CPUs share it",
    "base.replacing": "the compilers for GPUs and for CPUs share it",
    "base.ownership": "the base of all that owns memory or handles, on four floors",
    "conv.operand_copies": "what four ways to compute a convolution have in common",
    "kernels.attention.spec": "plans describe kernels without device code, which brings Numba",
    "kernels.attention.varlen": "formulas that the fused and the unfused path share",
    "kernels.conv.im2col_spec": "as kernels.attention.spec",
    "kernels.conv.transposition_spec": "as kernels.attention.spec",
    "kernels.elementwise.copy": "what device arrays need of kernels",
    "kernels.elementwise.optimizers": "formulas of kernels over lists of arrays",
    "kernels.fft.spec": "as kernels.attention.spec",
    "kernels.gemm.tiles": "the order of tiles, so that the kernel reads straight down",
    "plan.tensors": "elementwise calls and the calls of planned functions share it",
    "runtime.kernel_code": "launchers of GPUs and of the simulator share it",
    "simulator.compiled.functions": "a table that kernels look functions up in",
    "simulator.compiled.inference": "a step of the compiler, as its neighbours are",
    "simulator.own": "as simulator.launches, in a process where Numba's simulator is off",
    "simulator.launches": "works without greenlet, which simulator.calls needs",
    "tracing.simulators": "says what to do where the rest of tracing cannot be imported",
}


def test_small_files_have_a_reason():
    small = {
        name.removeprefix("numbacc.")
        for name, text in TEXTS.items()
        if len(text.splitlines()) < 60 and not name.endswith("__init__")
    }
    assert small - {*SMALL} == set(), "merge it with what is always imported with it, or say here why not"
    files = {name.removeprefix("numbacc.") for name in TEXTS}
    assert {*SMALL} - files == set(), "no longer there"


#: Names that two classes have, and why.
TWINS = {
    "Borrowed": "the runtime's and the simulator's: `runtime()` is either",
    "Kernel": "elementwise's, which users see, and the compiled simulator's",
    "Launcher": "as Borrowed",
    "TensorLauncher": "as Borrowed",
    "Recording": "as Borrowed",
    "Storage": "as Borrowed",
    "Runner": "a library's call, of cuBLASLt and cuDNN, and of the simulator's likeness of each",
    "Transform": "cuFFT's, and its likeness in the simulator",
    "Status": "the statuses of each of NVIDIA's libraries, by their own name",
    "Request": "public in attention and in conv",
    "Dropout": "numbacc.torch's and numbacc.nn's modules, and the reference's options of attention",
    **dict.fromkeys(("Attention", "LayerNorm", "Linear", "RMSNorm"), "numbacc.torch's and numbacc.nn's modules"),
    "AdamW": "numbacc.torch's and numbacc.nn's optimizers",
    "DeviceArray": "the class, and its type for annotations, in numbacc.typing",
}


def test_a_class_name_is_defined_once():
    places = defaultdict(list)
    for module, text in TEXTS.items():
        for name in re.findall(r"^class (\w+)", text, re.MULTILINE):
            places[name].append(module)
    twice = {name: modules for name, modules in places.items() if len(modules) > 1 and name not in TWINS}
    assert twice == {}
    assert len(TWINS) <= 17 and all(len(places[name]) > 1 for name in TWINS)


def test_a_test_file_imports_helpers_only():
    """Of two files that share something, none is a test; and as each folder is on the path, no two have one name."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "fuzz"]
    assert len({path.name for path in files}) == len(files)
    tests = {path.stem for path in files if path.name.startswith(("test_", "recorded_"))}
    users = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    assert {str(path): found for path in users if (found := imports(path.read_text(), "") & tests)} == {}
