"""Complete the docstrings of public functions, so that `help` shows each argument and error.

A docstring in a source file describes the special arguments and errors of its function. `like` adds the descriptions
from another function's docstring, and `complete` adds those that are the same everywhere. `import_in_examples` adds the
imports that an example needs to run when it is pasted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., object])

#: The arguments that all functions share.
COMMON = {
    "device": 'a GPU\'s number or "cuda:0", or "cpu"; by default the current GPU, or NumPy without one.',
    "stream": "the stream to run on; the default stream if None. The call does not wait for the result.",
}
#: The errors of functions with array arguments. The first one belongs to functions with an `out`.
ERRORS = {
    "LayoutError": "out is read-only, shares memory with an input where it may not, or has elements that share memory.",
    "DeviceError": "arrays on different devices; not enough memory.",
}
_ENTRY = re.compile(r"^    (\w[\w, ]*):", re.MULTILINE)
_TITLE = re.compile(r"^( +)(?:Args|Returns|Raises|Example):$", re.MULTILINE)
_WIDTH = 120
_EXAMPLE = re.compile(r"Example:\n( *)(?=>>> )")
_CODE = re.compile(r"^ *(?:>>>|\.\.\.) (.*)$", re.MULTILINE)
_IMPORTED = re.compile(r"^(?:from \S+ )?import (.*)$", re.MULTILINE)
#: The modules that examples use.
_USED = re.compile(r"(?<![\w.\"'])(np|numbacc|attention|conv|cudnn|elementwise|fft|gated|gemm|nn|random)\.")
#: Functions that public functions have as attributes.
_PARTS = ("plan", "request", "supports")


def complete(function: FunctionType, more: Mapping[str, str] = COMMON, has_all: bool = False) -> None:
    """Add missing descriptions of arguments and errors to a docstring.

    Args:
        function: the function with the docstring.
        more: an error's name, or the names of parameters -> the text. Its lines after the first are indented by four.
        has_all: True to also add sections that the docstring lacks.
    """
    text = _clean(function)
    if has_all:
        text = _with_sections(text)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    section = _section(text, "Args")
    known = [name for key in _ENTRY.findall(section) for name in key.split(", ")]
    added: dict[str, str] = {}
    for key, told in more.items():
        if new := [name for name in key.split(", ") if name in names and name not in known]:
            added[", ".join(new)] = entry(", ".join(new), told)
    if added:
        lines = [section, *added.values()] if section else [*added.values()]
        if list(added) != [names[-1]]:
            lines = _sorted(_entries(text, "Args") | added, names)
        text = _replaced(text, "Args", "\n".join(lines))
    section = _section(text, "Raises")
    lines = [entry(name, told) for name, told in more.items() if name.endswith("Error") and name not in section]
    if lines:
        text = _replaced(text, "Raises", "\n".join([section, *lines] if section else lines))
    function.__doc__ = text.rstrip() + "\n"


def like(other: Callable[..., object] | Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator that adds another function's descriptions of arguments and errors to a docstring.

    Only arguments and errors that both functions have are added. A mapping, as for `complete`, may replace the other
    function.
    """
    found = dict(other) if isinstance(other, Mapping) else {}
    text = "" if isinstance(other, Mapping) else _clean(other)
    for title in ("Args", "Raises"):
        for key, lines in _entries(text, title).items():
            told = lines.partition(": ")[2].replace("\n    ", "\n")
            if key and key != "return_saved":
                found[key] = told

    def decorate(function: F) -> F:
        assert isinstance(function, FunctionType)
        complete(function, found, has_all=True)
        return function

    return decorate


def import_in_examples(things: Iterable[Any]) -> None:
    """Add imports to the examples of functions, of their plans and requests, and of classes."""
    for thing in things:
        for each in (thing, *(getattr(thing, part, None) for part in _PARTS)):
            text = getattr(each, "__doc__", None)
            if text and ">>> " in text and isinstance(each, (FunctionType, type)):
                each.__doc__ = _importing(text)


def _importing(text: str) -> str:
    """Return a docstring with the imports that its example needs."""
    found = _EXAMPLE.search(text, max(text.rfind("Example:\n"), 0))
    if found is None:
        return text
    code = "\n".join(_CODE.findall(text, found.start()))
    imported = " ".join(_IMPORTED.findall(code))
    used = set(_USED.findall(code)) - set(re.findall(r"\w+", imported))
    families = ", ".join(sorted(used - {"np", "numbacc"}))
    lines = ["import numpy as np"] * ("np" in used) + ["import numbacc"] * ("numbacc" in used)
    lines += [f"from numbacc import {families}"] * bool(families)
    added = "".join(f"{found[1]}>>> {line}\n" for line in lines)
    return text[: found.start(1)] + added + text[found.start(1) :]


def _sorted(arguments: dict[str, str], names: tuple[str, ...]) -> list[str]:
    """Return the entries in the order of the parameters. An entry that names no parameter keeps its predecessor."""
    place: dict[str, int] = {}
    last = 0
    for key in arguments:
        first = key.partition(",")[0]
        place[key] = last = names.index(first) if first in names else last
    return [arguments[key] for key in sorted(arguments, key=place.__getitem__)]


def _clean(function: Callable[..., object]) -> str:
    """Return a docstring without its indentation (Python 3.13 removes it itself), and with a blank line at its end."""
    text = (function.__doc__ or "").rstrip() + "\n\n"
    indented = _TITLE.search(text)
    return text.replace(f"\n{indented[1]}", "\n") if indented else text


def _with_sections(text: str) -> str:
    """Return the text with sections Args and Raises; add empty ones."""
    titles = [f"\n{title}:\n" for title in ("Args", "Returns", "Raises", "Example")]
    if titles[0] not in text:
        at = min(text.index(each) for each in titles if each in text)
        text = f"{text[:at]}{titles[0]}\n{text[at:]}"
    if titles[2] not in text:
        last = titles[1] if titles[1] in text else titles[0]
        at = text.index("\n\n", text.index(last) + len(last)) + 1
        text = f"{text[:at]}{titles[2]}\n{text[at:]}"
    return text


def _section(text: str, name: str) -> str:
    """Return the lines of a section, without its title; an empty text if it is missing."""
    return text.partition(f"\n{name}:\n")[2].partition("\n\n")[0]


def _replaced(text: str, name: str, lines: str) -> str:
    """Return the text with other lines in a section."""
    before, title, rest = text.partition(f"\n{name}:\n")
    return f"{before}{title}{lines}{rest[rest.index(chr(10) * 2) :]}" if title else text


def _entries(text: str, name: str) -> dict[str, str]:
    """Return the entries of a section: the text before the colon -> the lines."""
    found: dict[str, str] = {}
    key = ""
    for line in _section(text, name).split("\n"):
        match = _ENTRY.match(line)
        if match is not None:
            key = match[1]
            found[key] = line
        elif line:
            found[key] = f"{found[key]}\n{line}" if key in found else line
    return found


def entry(name: str, told: str) -> str:
    """Return the lines of an entry."""
    entry = f"    {name}: {told}".replace("\n", "\n    ")
    end = entry.rfind("\n") + 1
    while len(entry) - end > _WIDTH:
        cut = entry.rindex(" ", 0, end + _WIDTH + 1)
        entry, end = f"{entry[:cut]}\n        {entry[cut + 1 :]}", cut + 1
    return entry
