"""The devices that `device=` arguments name: a GPU by its number, or NumPy."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..base.dispatch import has_gpu, runtime
from ..base.layout import CPU, PORTABLE
from ..errors import DeviceError, shown


class _Default(threading.local):
    """The GPU of the stream that `with` has made this thread's default; None where it belongs to none."""

    number: int | None = None


default = _Default()

#: Whether arrays without a GPU are portable; None where the environment decides.
_portable: ContextVar[bool | None] = ContextVar("_portable", default=None)
#: Not empty once there may be portable arrays, which "cuda:0" then means without a GPU.
_was_portable: list[bool] = []


def is_portable() -> bool:
    """Whether new arrays on a machine without a GPU are portable: inside `portable()`, or by NUMBACC_PORTABLE=1."""
    found = _portable.get()
    if found is None:
        found = os.environ.get("NUMBACC_PORTABLE", "0") not in ("", "0")
    if found and not _was_portable:
        _was_portable.append(True)
    return found


@contextmanager
def portable() -> Iterator[None]:
    """Make arrays, on a machine without a GPU, that raise the errors of device arrays.

    Inside, `numbacc.asarray` and the other functions that make arrays return portable arrays. NumPy computes on them.
    Masks as indices, NumPy arrays as operands, `np.sort` and other functions without a GPU version raise as they do on
    a GPU, so a script that passes on a laptop runs on a GPU. The environment variable NUMBACC_PORTABLE=1 does the same
    for a whole process. With a GPU this changes nothing.

    Example:
        >>> with numbacc.portable():
        ...     x = numbacc.asarray([1.0, -2.0])
        >>> numbacc.asnumpy(x + 1)
        array([ 2., -1.])
    """
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def _without_gpu() -> int:
    return PORTABLE if is_portable() else CPU


def target_of(device: int | str | None) -> int:
    """The number of the device that a `device=` argument names, CPU for NumPy.

    Raises:
        DeviceError: it names none that exists.
    """
    if device is None:
        number = default.number
        return (runtime().current_device() if has_gpu() else _without_gpu()) if number is None else number
    number = named(device)
    if not number and not has_gpu() and (_was_portable or is_portable()):
        return PORTABLE
    if number is None:
        number = runtime().current_device()
    elif number >= 0:
        runtime().require_device(number)
    return number


def named(device: int | str | None) -> int | None:
    """The number that a `device=` argument gives, whether that GPU exists or not; None for the current one.

    Raises:
        DeviceError: it does not name a device.
    """
    if device is None:
        return None
    text = shown(device) if isinstance(device, int) else str(device)  # str() of torch's devices is their name
    if text == "cpu":
        return CPU
    if text == "portable":
        return PORTABLE
    if text == "cuda":
        return None
    digits = text.removeprefix("cuda").removeprefix(":")
    if isinstance(device, bool) or not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise DeviceError(f'device={shown(device)} is unknown; pass a number, "cuda:0" or "cpu"')
    return int(digits)
