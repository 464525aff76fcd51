"""Files of named arrays, in the safetensors format: `save`, `load` and `load_metadata`.

A file is the header's length (8 bytes, little-endian), the header, and the arrays' bytes without gaps. The header is
JSON. It maps each name to dtype, shape and the range of bytes after the header; "__metadata__" maps strings to strings.

numbacc does not use the package `safetensors`. Its functions for NumPy (version 0.8) copy each array that they read,
and cannot read float8. They write transposed arrays in the wrong order, and overwrite a file in place.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.layout import CPU, is_sequence
from ..errors import DTypeError, OptionError, nearest, shown
from ..runtime.streams import handle_of, target_of
from . import operands
from .creation import asarray, asnumpy

#: The format's name of each dtype.
_NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_METADATA = "__metadata__"
#: The most bytes of a header, as in the package `safetensors`.
_MOST_HEADER = 100_000_000


class _Stored(NamedTuple):
    """An array in a file: its dtype by the format's name, its shape, and its range of bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# ---------------------------------------------------------------- writing


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    metadata: Mapping[str, str] | None = None,
    stream: Any = None,
) -> None:
    """Write named arrays to a file in the safetensors format, which other libraries read, too.

    The file appears when it is complete, and then replaces an older one. So a program that is interrupted leaves the
    older file as it was.

    Args:
        path: the file.
        arrays: name -> array of any library, on a GPU or the CPU, with any strides. complex128 is not supported.
        metadata: strings to keep with the arrays, by name.
        stream: the stream that copies from the GPU are queued on. This waits for them.

    Raises:
        DTypeError: an argument or an element has the wrong type, or the format lacks a dtype.
        OSError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> numbacc.save(path, {"w": numbacc.zeros((2, 3), "bfloat16")}, metadata={"step": "7"})
        >>> numbacc.load(path)["w"].shape, numbacc.load_metadata(path)
        ((2, 3), {'step': '7'})
    """
    import json  # many programs do not need these
    import tempfile

    handle = handle_of(stream)
    target = os.path.abspath(os.fspath(path))
    if not isinstance(arrays, Mapping):
        raise DTypeError(f"arrays is a {type(arrays).__name__}; it must be a dict of arrays by name")
    found = {name: _checked(name, each, handle) for name, each in arrays.items()}
    # Wide dtypes come first, so that each array is aligned for its dtype.
    names = sorted(found, key=lambda name: (-operands.layout_of(found[name]).itemsize, name))
    header, place = dict[str, Any](), 0
    if metadata:
        if not isinstance(metadata, Mapping) or not all(
            type(each) is str for pair in metadata.items() for each in pair
        ):
            raise DTypeError(f"metadata={shown(metadata)} is not a dict of strings: convert its values with str()")
        header[_METADATA] = dict(metadata)
    for name in names:
        layout = operands.layout_of(found[name])
        entry = {"dtype": _NAMES[layout.dtype.name], "shape": [*layout.shape]}
        header[name] = entry | {"data_offsets": [place, place + layout.nbytes]}
        place += layout.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    number, temporary = tempfile.mkstemp(prefix=".", suffix=".safetensors", dir=os.path.dirname(target))
    try:
        with os.fdopen(number, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in names:
                file.write(_bytes_of(found[name], handle))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _checked(name: Any, array: Any, handle: int) -> Any:
    """Return an array to be saved, without a copy.

    Raises:
        DTypeError: the name is not a string, or the array cannot be saved.
    """
    if type(name) is not str or name == _METADATA:
        raise DTypeError(f"arrays has the name {shown(name)}; names must be strings other than {_METADATA!r}")
    found = operands.as_input(array, f"arrays[{name!r}]", handle)
    dtype = operands.layout_of(found).dtype
    if dtype.name not in _NAMES:
        raise DTypeError(
            f"arrays[{name!r}] has dtype {dtype}, which the safetensors format lacks: it has {', '.join(_NAMES)}"
        )
    return found


def _bytes_of(array: Any, handle: int) -> Any:
    """Return an array's bytes in C order, least significant byte first."""
    host = np.ascontiguousarray(asnumpy(array, stream=handle))
    if host.dtype.byteorder == ">":
        host = host.astype(host.dtype.newbyteorder("<"))
    return host.reshape(-1).view(np.uint8).data


def _mode(target: str) -> int:
    """Return the permissions of a new file: the replaced file's, if it exists."""
    try:
        return os.stat(target).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


# ---------------------------------------------------------------- reading


def load(
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    device: int | str | None = None,
    stream: Any = None,
) -> dict[str, Any]:
    """Read arrays from a file in the safetensors format, as `save` and other libraries write it.

    The file holds numbers and no code: nothing in it is run. The header is checked before any array is made.

    Args:
        path: the file.
        names: the arrays to read; all by default.
        device: a GPU's number or "cuda:0", or "cpu" for NumPy. None means the current GPU, or NumPy without one.
        stream: the stream that copies to the GPU are queued on.

    Returns:
        name -> array, in the order of the file. NumPy arrays are parts of a mapping of the file, which is read when
        they are used; writes to them stay in memory, and do not change the file.

    Raises:
        OptionError: the file is not valid, or an array of `names` is not in it.
        DTypeError: an array has a dtype that numbacc does not support.
        OSError: the file cannot be read.
        DeviceError: the GPU does not exist, or has too little memory.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> numbacc.save(path, {"w": np.ones(3), "b": np.zeros(2)})
        >>> numbacc.asnumpy(numbacc.load(path, names=["w"])["w"])
        array([1., 1., 1.])
    """
    import mmap

    handle, target = handle_of(stream), target_of(device)
    with open(path, "rb") as file:
        entries, _, start = _header(file, shown(os.fspath(path)))
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    if names is not None:
        if isinstance(names, str) or not (is_sequence(names) or isinstance(names, (set, frozenset, dict))):
            raise OptionError(f"names={shown(names)} is not a list of names")
        wanted = dict.fromkeys(names)
        for name in wanted:
            if name not in entries:
                raise OptionError(f"names: {shown(name)} is not in the file{nearest(name, entries)}")
        entries = {name: each for name, each in entries.items() if name in wanted}
    found = {}
    for name, entry in entries.items():
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            raise DTypeError(
                f"{name} has the dtype {entry.dtype}, which numbacc does not support: leave it out, names="
            )
        view = np.frombuffer(memory, np.uint8, entry.end - entry.begin, start + entry.begin)
        host = view.view(dtypes.dtype(dtype)).reshape(entry.shape)
        host = host if host.flags.aligned else host.copy()
        found[name] = host if target == CPU else asarray(host, device=device, stream=handle)
    return found


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the strings that were kept with the arrays of a file; see `save`. This reads the header only.

    Args:
        path: the file.

    Raises:
        OptionError: the file is not valid.
        OSError: the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> numbacc.save(path, {}, metadata={"step": "7"})
        >>> numbacc.load_metadata(path)
        {'step': '7'}
    """
    with open(path, "rb") as file:
        return _header(file, shown(os.fspath(path)))[1]


def _header(file: Any, path: str) -> tuple[dict[str, _Stored], dict[str, str], int]:
    """Read and check a file's header.

    Returns:
        (name -> entry, metadata, where the arrays' bytes start).

    Raises:
        OptionError: it is not a valid header.
    """
    import json

    def wrong(why: str) -> OptionError:
        return OptionError(f"path={path} is not a safetensors file: {why}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise wrong("its header has a name twice")
        return found

    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _MOST_HEADER):
        raise wrong(f"it has {size} bytes, and its first 8 say that the header has {length}")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, OptionError):
            raise
        raise wrong(f"its header is not JSON ({shown(str(error))})") from None
    if not isinstance(header, dict):
        raise wrong("its header is not a JSON object")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(type(each) is str for each in metadata.values()):
        raise wrong(f"its {_METADATA} is not an object of strings")
    entries = {name: _entry(name, each, wrong) for name, each in header.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != place:
            raise wrong(f"{shown(name)} begins at byte {entry.begin} of the arrays, where {place} was expected")
        place = entry.end
    if place != size - 8 - length:
        raise wrong(f"its arrays have {place} bytes, and {size - 8 - length} follow its header: it may be cut off")
    return entries, metadata, 8 + length


def _entry(name: str, found: Any, wrong: Any) -> _Stored:
    """Return a header's entry, checked."""
    if not isinstance(found, dict) or found.keys() != {"dtype", "shape", "data_offsets"}:
        raise wrong(f"the entry of {shown(name)} does not have dtype, shape and data_offsets")
    dtype, shape, offsets = found["dtype"], found["shape"], found["data_offsets"]
    for each, what in ((shape, "shape"), (offsets, "data_offsets")):
        if not isinstance(each, list) or not all(type(n) is int and 0 <= n < 2**63 for n in each):
            raise wrong(f"{what} of {shown(name)} is {shown(each)}, not a list of lengths")
    if type(dtype) is not str or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong(f"the entry of {shown(name)} is {shown(found)}")
    if dtype in _DTYPES:
        nbytes = math.prod(shape) * dtypes.dtype(_DTYPES[dtype]).itemsize
        if nbytes != offsets[1] - offsets[0]:
            raise wrong(f"{shown(name)} of {dtype} {shape} needs {nbytes} bytes, and has {offsets[1] - offsets[0]}")
    return _Stored(dtype, tuple(shape), *offsets)
