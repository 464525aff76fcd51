"""The public names of numbacc, from each module's `__all__`, and the pages of the API reference made of them.

A page describes a function together with its plan and its gradient, so that both are found with it.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numbacc
from numbacc import typing as types
from numbacc.elementwise import norms, reductions, scans
from numbacc.functions import activations, binary, unary

#: Module -> the title of its page.
MODULES = {
    "numbacc": "Arrays, devices and errors",
    "elementwise": "Elementwise functions, reductions, norms and losses",
    "gated": "Gated activations",
    "gemm": "Matrix products",
    "conv": "Convolution",
    "attention": "Attention",
    "nn": "Models and their training",
    "distributed": "Several GPUs",
    "fft": "Fourier transforms",
    "random": "Random numbers",
    "cudnn": "cuDNN plans without a GPU",
}
#: Pages of objects that functions return or accept: module -> title, classes. Without classes, a page is the docstring;
#: "__all__" stands for all public names.
OBJECTS = {
    "arrays": ("Methods of device arrays", ""),
    "tracing": ("Traces", "Trace"),
    "profiling": ("Records of calls", "CallLog, RecordedCall, RecordedKernel, ArrayArgument"),
    "cuda": ("Names for writing kernels", ""),
    "torch": ("Functions and modules for torch models", "__all__"),
    "jax": ("Functions for JAX programs", "__all__"),
}
#: Functions that public functions have as attributes.
PARTS = ("plan", "request", "supports")
#: Title of a subject -> names in `elementwise`, or modules that define its functions. The rest is at the end.
SUBJECTS = {
    "Arrays": {"creation"},
    "Functions of one array": {each.name for each in unary.FUNCTIONS},
    "Functions of several arrays": {each.name for each in binary.FUNCTIONS},
    "Activations": {each.name for each in activations.FUNCTIONS},
    "Reductions": set(reductions.__all__),
    "Scans": set(scans.__all__),
    "Softmax and normalization": set(norms.__all__),
    "Losses, optimizers and parts of transformers": {"losses", "optimizers", "clipping", "transformer"},
    "Arrays by position": {"positions"},
    "Indexing and joining": {"indexing", "joining"},
    "Conversions and copies": {"casting", "where_clamp"},
    "Custom kernels and reductions": {"custom_kernels", "custom_reductions"},
    "Streams and graphs": {"streams", "events", "graphs", "compiled_steps"},
    "Simulator, tracer, debugger and profiler": {"launches", "tracing", "profiling"},
    "Errors": {"errors"},
    "Data types": {"ml_dtypes"},
}
_REST = "More"
#: Page -> its first lines.
NOTES = {
    "errors": "All errors of numbacc derive from `numbacc.Error` and from the exception of Python that fits.",
    "dtypes": "Types that NumPy lacks, from ml_dtypes. `dtype=` accepts these, NumPy's types, and their names.",
}


def module_of(name: str) -> ModuleType:
    """Return numbacc or a family."""
    found: ModuleType = numbacc if name == "numbacc" else getattr(numbacc, name)
    return found


def names_of(module: str) -> dict[str, Any]:
    """Return what a module makes public, by its name there: functions, classes and constants, but no modules."""
    found = {each: getattr(module_of(module), each) for each in module_of(module).__all__}
    return {name: thing for name, thing in found.items() if not inspect.ismodule(thing) and name[0] != "_"}


def is_own(thing: Any) -> bool:
    """Return whether numbacc defines a function or a class: not for constants and the types of ml_dtypes."""
    return callable(thing) and thing.__module__.startswith("numbacc")


def public() -> dict[str, Any]:
    """Return all functions and classes with the parts of functions, such as `gated.forward.plan`, by their names."""
    found = {
        f"{module}.{name}": thing for module in MODULES for name, thing in names_of(module).items() if is_own(thing)
    }
    return found | {
        f"{name}.{part}": getattr(thing, part)
        for name, thing in found.items()
        for part in PARTS
        if inspect.isfunction(thing) and hasattr(thing, part)
    }


def methods(kind: type) -> dict[str, Any]:
    """Return the public methods that a class defines, by name."""
    return {name: each for name, each in vars(kind).items() if inspect.isfunction(each) and name[0] != "_"}


def companions(module: str) -> dict[str, list[str]]:
    """Return, for each page of a module, the names that it describes: a function, its gradient, a class named alike.

    A file system may not distinguish `Kernel` and `kernel`, so they need to share a page.
    """
    names = names_of(module)
    errors = [name for name, thing in names.items() if inspect.isclass(thing) and issubclass(thing, Exception)]
    types = [name for name, thing in names.items() if not is_own(thing) and callable(thing)]
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda each: (each in errors, each != "Error", each.lower(), each[0].isupper())):
        page = name.removesuffix("_backward") if name.endswith("_backward") else name.lower()
        page = "errors" if name in errors else "dtypes" if name in types else page
        page = "cache" if name.startswith("cache_") else page
        at = next((each for each in found if each.lower() == page.lower()), name if page == name.lower() else page)
        found.setdefault(at, []).append(name)
    return found


def subjects(module: str) -> dict[str, list[str]]:
    """Return title -> pages of a module, in the order of `SUBJECTS`."""
    names = names_of(module)
    found: dict[str, list[str]] = {}
    for page, described in companions(module).items():
        home = getattr(names[described[0]], "__module__", "").rpartition(".")[2]
        own = {described[0]} if module == "elementwise" else set()
        title = next((title for title, each in SUBJECTS.items() if {home, *own} & each), _REST)
        found.setdefault(title, []).append(page)
    order = [*SUBJECTS, _REST]
    return {title: found[title] for title in sorted(found, key=order.index)}


def _described(module: str, name: str) -> list[str]:
    """Return the directive that describes a name."""
    thing = names_of(module)[name]
    full = f"numbacc.{name}" if module == "numbacc" else f"numbacc.{module}.{name}"
    if not is_own(thing):
        value = f"{thing.__module__}.{name}" if callable(thing) else repr([*thing])
        return [f".. py:data:: {full}", f"    :value: {value}", ""]
    if inspect.isfunction(thing):
        return [f".. autofunction:: {full}", ""]
    if issubclass(thing, Exception):
        return [f".. autoexception:: {full}", "    :show-inheritance:", ""]
    return [f".. autoclass:: {full}", "    :members:", ""]


def _heading(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def _types() -> list[str]:
    """Return the page of `numbacc.typing`: its arrays and numbers, then the names that options accept."""
    text = inspect.getsource(types)
    described = {name: line for line, name in re.findall(r"^#: (.+)\n(\w+)(?:: TypeAlias)? = ", text, re.MULTILINE)}
    lines = [
        *_heading("Types for annotations", "="),
        ".. automodule:: numbacc.typing",
        "",
        ".. py:currentmodule:: None",
        "",
    ]
    for title, is_option in (("Arrays and scalars", False), ("Names that options accept", True)):
        lines += _heading(title, "-")
        for name in types.__all__:
            thing = getattr(types, name)
            values = [each for each in get_args(thing) if isinstance(each, str)]
            if bool(values) != is_option:
                continue
            about = ", ".join(f'``"{each}"``' for each in values)
            if not values:
                about = (inspect.getdoc(thing) or "").partition("\n")[0] if name not in described else described[name]
                about = re.sub(r"`([^`]+)`", r"``\1``", about)
            lines += [f".. py:data:: numbacc.typing.{name}", "", f"    {about}", ""]
    return lines


def pages() -> dict[str, str]:
    """Return the reference's pages in reStructuredText, by their files."""
    made: dict[str, str] = {}
    counts = [page for module in MODULES for page in companions(module)]
    for module, title in MODULES.items():
        path = "numbacc" if module == "numbacc" else f"numbacc.{module}"
        lines = [*_heading(title, "="), f".. automodule:: {path}", ""]
        own = companions(module)
        for subject, listed in subjects(module).items():
            lines += _heading(subject, "-") if len(subjects(module)) > 1 else []
            lines += [".. autosummary::", "    :nosignatures:", ""]
            lines += [f"    {name}" for page in listed for name in own[page] if not name.endswith("_backward")] + [""]
            lines += [".. toctree::", "    :hidden:", "", *(f"    {module}/{page}" for page in listed), ""]
        made[f"{module}.rst"] = "\n".join(lines)
        for page, described in own.items():
            alone = page if counts.count(page) == 1 else f"{module}.{page}"
            text = [*_heading(alone, "="), NOTES.get(page, ""), ""]
            text += [line for name in described for line in _described(module, name)]
            made[f"{module}/{page}.rst"] = "\n".join(text)
    made["typing.rst"] = "\n".join(_types())
    for module, (title, classes) in OBJECTS.items():
        members = [f"    :members: {classes}", "    :exclude-members: __init__"] if classes else []
        if classes == "__all__":
            members = ["    :members:", "    :imported-members:", "    :exclude-members: __init__"]
        made[f"{module}.rst"] = "\n".join([*_heading(title, "="), f".. automodule:: numbacc.{module}", *members, ""])
    made["device.rst"] = "\n".join(_device_functions())
    return made


def _device_functions() -> list[str]:
    """Return the page of `numbacc.device`. Its functions are objects that kernels call, which Sphinx does not know."""
    lines = [*_heading("Device functions for kernels", "="), ".. automodule:: numbacc.device", ""]
    for name in sorted(numbacc.device.__all__, key=str.lower):
        thing = getattr(numbacc.device, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            lines += [f".. auto{'class' if inspect.isclass(thing) else 'function'}:: numbacc.device.{name}", ""]
            continue
        function = getattr(thing, "py_func", thing)
        taken = ", ".join(inspect.signature(function).parameters)
        about = re.sub(r"`([^`]+)`", r"``\1``", inspect.getdoc(function) or "").replace("Args:\n", "Args::\n\n")
        lines += [f".. py:function:: numbacc.device.{name}({taken})", ""]
        lines += [f"    {line}".rstrip() for line in about.splitlines()] + [""]
    return lines


def write(folder: Path) -> None:
    """Write the pages that changed, and delete pages of functions that no longer exist. Other builds may run."""
    wanted = {folder / file: text for file, text in pages().items()}
    for path in folder.glob("**/*.rst"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            made = path.with_suffix(f".{os.getpid()}")
            made.write_text(text)
            made.replace(path)
