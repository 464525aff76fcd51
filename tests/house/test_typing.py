"""Type checkers accept correct programs and find the errors of wrong ones; completion lists public names alone.

`typing_cases` holds the programs. Each line of a wrong one that has an error ends in `# error:` and mypy's code for it.
"""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import typing
from importlib import import_module
from importlib.util import find_spec

import pytest
from doc_blocks import blocks_of
from paths import ROOT
from skips import skip_if
from stored_notebooks import FOLDER, NOTEBOOKS, read

import numbacc
import numbacc.array_api
import numbacc.typing
from numbacc.arrays.methods import Methods
from numbacc.arrays.portable import PortableArray
from numbacc.arrays.protocols import METHODS
from tools import stubs

CASES = ROOT / "tests" / "house" / "typing_cases"
CORRECT, WRONG = (sorted(CASES.glob(f"{name}_*.py")) for name in ("correct", "wrong"))
PUBLIC = ("numbacc", *(f"numbacc.{name}" for name in numbacc.__all__ if inspect.ismodule(getattr(numbacc, name))))


# ---------------------------------------------------------------- completion


def test_there_are_public_modules():
    assert {"numbacc.gated", "numbacc.cuda", "numbacc.elementwise", "numbacc.cudnn", "numbacc.random"} < {*PUBLIC}


@pytest.mark.parametrize("name", [*PUBLIC, "numbacc.device", "numbacc.tracing", "numbacc.typing"])
def test_dir_lists_public_names_alone(name):
    module = import_module(name)
    listed = dir(module)
    if name == "numbacc.cuda":  # it has Numba's names
        assert {"jit", "grid", "to_device"} <= {*listed}
        assert not [each for each in listed if each.startswith("_")]
    else:
        assert listed == sorted(module.__all__)
        assert not [each for each in listed if each.startswith("_") and each != "__version__"]
    for each in listed:
        assert hasattr(module, each), each


def test_dir_of_the_array_api_lists_the_standards_names():
    listed = dir(import_module("numbacc.array_api"))
    assert {"asarray", "exp", "float32", "tensordot", "unstack"} <= {*listed}
    assert not {"math", "np", "Any", "Sequence", "AxisError", "axes_of", "list_only"} & {*listed}
    found = [getattr(numbacc.array_api, name) for name in listed]
    assert not [each for each in found if inspect.ismodule(each) or inspect.isclass(each)]


def test_private_names_can_be_imported():
    from numbacc.gated import _plan, plan_of

    assert callable(_plan) and callable(plan_of)


# ---------------------------------------------------------------- the stubs


def test_stubs_are_current():
    old = [str(path.relative_to(ROOT)) for path, text in stubs.texts().items() if path.read_text() != text]
    assert old == [], "run python -m tools.stubs"


@pytest.mark.parametrize(("name", "values"), stubs.options().items(), ids=stubs.options())
def test_types_of_options_name_what_they_accept(name, values):
    assert typing.get_args(getattr(numbacc.typing, name)) == values


def test_every_module_with_a_family_has_a_stub():
    # cudnn has its types in the source, and the stub of cuda is made apart.
    # device is public, and imports Numba.
    assert {*PUBLIC, "numbacc.device"} - {"numbacc.cuda", "numbacc.cudnn"} == {*stubs.STUBS}


def test_stubs_declare_each_public_name_once():
    for module, path in stubs.STUBS.items():
        text = (ROOT / path).read_text()
        for name in import_module(module).__all__:
            declared = re.findall(rf"^(?:{name}: |class {name}\b|def {name}\(|from .* as {name}$)", text, re.MULTILINE)
            assert len(set(declared)) == 1, (module, name)


def test_the_type_of_device_arrays_has_their_attributes():
    class Empty(typing.Protocol):
        """A protocol without members."""

    declared = {*dir(numbacc.typing.DeviceArray)} - {*dir(Empty)}
    only_numbas = {"__cuda_array_interface__", "bind", "split", "stream"}
    assert len(declared) > 90 and only_numbas < declared
    assert declared - {*dir(PortableArray)} == only_numbas
    # A program has an operator `x += 1` if it has `x + 1`. The others are for NumPy, Python and numbacc itself.
    others = {"__array_function__", "__array_priority__", "__array_ufunc__", "__contains__", "__copy__", "__deepcopy__"}
    own = {name for name in {*dir(PortableArray)} - {*dir(object)} if not re.match(r"_(?!_)|__i\w+__$", name)}
    assert own - {*dir(Empty), "__annotations__"} - declared == {*others, "__getattr__", "host"}


@pytest.mark.parametrize("name", sorted(name for name, each in vars(Methods).items() if inspect.isfunction(each)))
def test_methods_have_the_parameters_that_their_types_say(name):
    if name.startswith("_") or name in METHODS:
        return
    ours, declared = (inspect.signature(getattr(kind, name)) for kind in (PortableArray, numbacc.typing.DeviceArray))
    assert [(each.name, each.kind, each.default) for each in ours.parameters.values()] == [
        (each.name, each.kind, each.default) for each in declared.parameters.values()
    ]


# ---------------------------------------------------------------- type checkers


def mypy(folder, *paths, strict=True, options=""):
    """(file's name, line) -> the codes of mypy's errors in programs. `options` are lines of its configuration."""
    config = folder / "mypy.ini"
    config.write_text(
        f"[mypy]\nstrict = {strict}\n{options}\n[mypy-numba.*,torch.*,cupy.*,jax.*,matplotlib.*,scipy.*]\n"
        "ignore_missing_imports = true\nfollow_imports = skip\n"
        "[mypy-numbacc.*,numbacc_bindings.*]\nignore_errors = true\n"  # the project's own settings check its sources
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(folder / "cache")]
    run = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, env=PATHS)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = {}
    for name, line, code in re.findall(r"([\w.-]+):(\d+): error: .*\[([\w-]+)\]$", run.stdout, re.MULTILINE):
        found.setdefault((name, int(line)), set()).add(code)
    assert len(found) > 0 or run.returncode == 0, run.stdout
    return found


def pyright(folder, *paths, strict=True):
    """(file's name, line) -> the rules that pyright's errors in programs name."""
    config = folder / "pyrightconfig.json"
    options = {
        "typeCheckingMode": "standard" if strict else "basic",
        "include": [str(path) for path in paths],
        "reportMissingImports": False,
    }
    config.write_text(json.dumps({**options, "extraPaths": [str(ROOT), str(ROOT / "bindings")]}))
    command = [sys.executable, "-m", "basedpyright", "--project", str(config), "--pythonpath", sys.executable]
    run = subprocess.run([*command, "--outputjson"], capture_output=True, text=True, cwd=folder)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = {}
    for each in json.loads(run.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            place = each["file"].replace("\\", "/").rpartition("/")[2], each["range"]["start"]["line"] + 1
            found.setdefault(place, set()).add(each.get("rule", ""))
    return found


#: numbacc's sources come first, also where another copy is installed.
PATHS = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, [ROOT, ROOT / "bindings", FOLDER]))}
CHECKERS = [
    pytest.param(mypy, marks=[pytest.mark.slow, skip_if(find_spec("mypy") is None, "mypy")]),
    pytest.param(pyright, marks=[pytest.mark.slow, skip_if(find_spec("basedpyright") is None, "pyright")]),
]


def expected(path):
    """(file's name, line) -> mypy's code of the error that the line says it has."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {(path.name, number): line.rpartition("# error: ")[2] for number, line in lines if "# error: " in line}


@pytest.mark.parametrize("checker", CHECKERS)
def test_correct_programs_are_accepted_and_wrong_ones_are_not(checker, tmp_path):
    found = checker(tmp_path, *CORRECT, *WRONG)
    wanted = {place: code for path in WRONG for place, code in expected(path).items()}
    assert len(wanted) > 50
    assert {*found} == {*wanted}
    if checker is mypy:
        assert {place: codes for place, codes in found.items() if wanted[place] not in codes} == {}


#: Pages whose examples type checkers accept, and the names that examples in docstrings use.
PAGES = ("README.md", "docs/start.md", "docs/gemm.md", "docs/fft.md")
IMPORTS = """import math
import numpy as np
import numbacc
from numbacc import attention, conv, cudnn, elementwise, fft, gated, gemm, nn, random
"""


def public_docstrings():
    """Yield the names and docstrings of public functions, classes, and their parts."""
    for module in {*PUBLIC} - {"numbacc.cuda"}:
        for name in import_module(module).__all__:
            thing = getattr(import_module(module), name)
            parts = vars(thing) if inspect.isclass(thing) else {}
            parts = parts or {part: getattr(thing, part, None) for part in ("plan", "request", "supports")}
            for part, each in {"": thing, **parts}.items():
                if not part.startswith("_") and not inspect.ismodule(each) and isinstance(each.__doc__, str):
                    yield f"{module}.{name}.{part}", each.__doc__


@pytest.fixture
def examples(tmp_path):
    """Files with the examples of pages and of docstrings, except those that raise errors."""
    folder = tmp_path / "examples"
    folder.mkdir()
    found = {}
    for page in PAGES:
        for line, code in blocks_of(ROOT / page):
            if re.search(r"^(import|from) numbacc", code, re.MULTILINE):
                found[f"{page}_{line}"] = code
    assert len(found) > 5
    for name, text in public_docstrings():
        parts = doctest.DocTestParser().get_examples(text)
        if parts and not any(part.exc_msg for part in parts) and "gated.register(" not in text:
            found[name] = IMPORTS + "".join(part.source for part in parts)
    assert len(found) > 400
    for name, code in found.items():
        (folder / re.sub(r"\W", "_", name)).with_suffix(".py").write_text(code)
    return [*folder.iterdir()]


@pytest.mark.parametrize("checker", CHECKERS)
def test_examples_are_accepted(checker, examples, tmp_path):
    found = checker(tmp_path, *examples, strict=False)
    # prepare(...) is None; names that only some ways through an example define
    harmless = {"func-returns-value", "reportPossiblyUnboundVariable", "reportPossiblyUnbound"}
    assert {place: codes for place, codes in found.items() if not codes <= harmless} == {}


#: A cell may give a name of an earlier cell another type.
NOTEBOOK = """allow_redefinition_new = true
local_partial_types = true
disable_error_code = var-annotated, import-untyped
"""


@pytest.mark.slow
@skip_if(find_spec("mypy") is None, "mypy")
def test_notebooks_are_accepted(tmp_path):
    """The code cells of each notebook, as one program that its reader has copied."""
    files = []
    for path in NOTEBOOKS:
        cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
        files.append((tmp_path / re.sub(r"\W", "_", f"notebook {path.stem}")).with_suffix(".py"))
        files[-1].write_text("\n\n".join(cell for cell in cells if not cell.startswith("%%")) + "\n")
    assert len(files) > 5
    assert mypy(tmp_path, *files, strict=False, options=NOTEBOOK) == {}


@pytest.mark.parametrize("path", CORRECT, ids=lambda path: path.stem)
def test_correct_programs_run(path):
    """On arrays that have the errors of arrays on a GPU."""
    with numbacc.portable():
        runpy.run_path(str(path))
