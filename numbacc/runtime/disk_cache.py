"""A disk cache of compiled kernels, shared between processes.

An entry's key covers everything that its machine code depends on: the source of the module that makes the kernel and of
its imports, the kernel's spec, the compute capability, and the installed compilers. Entries carry a checksum. If it
does not match, the kernel is compiled again.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import itertools
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from ..errors import CacheWarning
from . import installed
from .launch_order import Spec

_MAGIC = b"numbacc1"

#: Distributions that take part in compiling Python to machine code. `installed.compilers` lists the libraries.
_COMPILERS = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings")


def directory() -> Path:
    """Return the folder of compiled code: $NUMBACC_CACHE_DIR, or else a folder in the user's cache.

    Raises:
        FileNotFoundError: the user has no home directory.
    """
    chosen = os.environ.get("NUMBACC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    variable, below = ("LOCALAPPDATA", "AppData/Local") if sys.platform == "win32" else ("XDG_CACHE_HOME", ".cache")
    base = os.environ.get(variable)
    try:
        return Path(base or Path.home() / below) / "numbacc"
    except RuntimeError as error:  # an unknown user, and $HOME is not set
        raise FileNotFoundError(errno.ENOENT, f"the user has no home directory ({error})", "~") from None


#: Counts the calls of `warn_of`.
_failures = itertools.count()


def warn_of(error: OSError) -> None:
    """Warn, once per process, that compiled code cannot be stored. A cache that fails is not an error."""
    if next(_failures):
        return
    try:
        where = f" in {directory()}"
    except OSError:
        where = ""
    warnings.warn(
        f"numbacc cannot keep compiled code{where}: {error}. Calls still work, but each process compiles again; "
        "set NUMBACC_CACHE_DIR to a writable folder",
        CacheWarning,
        stacklevel=3,
    )


_PACKAGE = Path(__file__).parents[1]

#: The module that compiles every kernel.
_COMPILING = "runtime/launch"
#: Imports are followed into these folders and modules. They are not followed into `functions/`, because each scalar
#: function has a digest of its code, nor into the rest of `runtime/`, which launches kernels and does not change their
#: code.
_DECIDING = ("base/", "kernels/", "runtime/kernel_code", "runtime/launch")
#: An import of a module of this package. This reads plain text, since `ast` takes a hundred times as long.
_IMPORT = re.compile(rb"from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)")
_IMPORTED = re.compile(rb"(\w+)(?: as \w+)?")


def sources(module: str) -> dict[str, bytes]:
    """Return the sources that the machine code of a module's kernels depends on: {path inside the package: text}.

    These are the module, the modules of `_DECIDING` that it imports at its top or inside a function, and their imports.
    """
    found: dict[str, bytes] = {}
    folders: set[str] = set()
    todo = [(module, b""), (_COMPILING, b"")]
    while todo:
        path, text = todo.pop()
        if path in found:
            continue
        names = [name.decode() for name in _IMPORTED.findall(text)] or [""]
        if not any(f"{path}/{name}".startswith(_DECIDING) for name in names):
            continue
        if path not in folders:
            try:
                found[path] = (_PACKAGE / f"{path}.py").read_bytes()
                todo.extend(_imports(path, found[path]))
                continue
            except FileNotFoundError:
                folders.add(path)
        todo.extend((f"{path}/{name}", b"") for name in names if name)
    return dict(sorted(found.items()))


def _imports(module: str, text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (path, names) for each import of this package in a module's text; a path names a module or a folder."""
    parts = module.split("/")
    for match in _IMPORT.finditer(text):
        if text[text.rfind(b"\n", 0, match.start()) + 1 : match.start()].strip():
            continue  # part of a sentence
        dots, below, names = match.groups()
        above = parts[: -len(dots)]
        yield "/".join([*above, below.decode().replace(".", "/")] if below else above), names


@lru_cache(maxsize=32)
def fingerprint(module: str) -> bytes:
    """Return a digest of the sources of a module's kernels and of the compilers' versions."""
    digest = hashlib.sha256(_MAGIC + sys.version.encode())
    for name, source in sources(module).items():
        digest.update(name.encode() + source)
    for name in _COMPILERS:
        try:
            digest.update(f"{name}={importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            pass
    for identity in installed.compilers():
        digest.update(f"{identity}\n".encode())
    return digest.digest()


def key(spec: Spec, capability: tuple[int, int]) -> str:
    """Return the key of a kernel, computed from everything that its code depends on."""
    return hashlib.sha256(fingerprint(spec.module) + f"{spec.identity} {capability}".encode()).hexdigest()


def pack(entry: str, cubin: bytes) -> bytes:
    """Build an entry: magic, checksum of the rest, length of the entry point's name, name, machine code."""
    name = entry.encode()
    body = len(name).to_bytes(4, "little") + name + cubin
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes) -> tuple[str, bytes] | None:
    """Return (entry point, machine code), or None if the entry is damaged."""
    checksum, body = data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != checksum:
        return None
    length = int.from_bytes(body[:4], "little")
    return body[4 : 4 + length].decode(), body[4 + length :]


def load(entry_key: str) -> tuple[str, bytes] | None:
    """Load the kernel of a key, or return None if the cache has no valid entry."""
    try:
        data = _store().get(entry_key)
    except OSError as error:
        warn_of(error)
        return None
    return None if data is None else unpack(data)


def save(entry_key: str, entry: str, cubin: bytes) -> None:
    """Store a kernel. If the cache cannot be written (read-only home, full disk), this warns and raises no error."""
    try:
        _store()[entry_key] = pack(entry, cubin)
    except OSError as error:
        warn_of(error)


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the contents of a file of the cache. If there is no valid file of that name, `make` computes them."""
    try:
        file = directory() / name
        if file.exists() and (found := unpack(file.read_bytes())) is not None:
            return found[1]
    except OSError as error:
        warn_of(error)
        return make()
    data = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        other = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
        other.write_bytes(pack("", data))
        other.replace(file)
    except OSError as error:
        warn_of(error)
    return data


def _store():  # type: ignore[no-untyped-def]
    return _store_at(directory())


@lru_cache(maxsize=4)
def _store_at(path: Path):  # type: ignore[no-untyped-def]
    # cuda.core's store: one file per entry, written to a temporary file and renamed; the least recently read is
    # evicted.
    from cuda.core.utils import FileStreamProgramCache

    return FileStreamProgramCache(path, max_size_bytes=256 * 2**20)
