"""The devices that `device=` arguments name: a GPU by its number, or NumPy."""

from __future__ import annotations

import threading

from ..base.dispatch import has_gpu, runtime
from ..base.layout import CPU
from ..errors import DeviceError, shown


class _Default(threading.local):
    """The GPU of the stream that `with` has made this thread's default; None where it belongs to none."""

    number: int | None = None


default = _Default()


def target_of(device: int | str | None) -> int:
    """The number of the device that a `device=` argument names, CPU for NumPy.

    Raises:
        DeviceError: it names none that exists.
    """
    if device is None:
        number = default.number
        return (runtime().current_device() if has_gpu() else CPU) if number is None else number
    number = named(device)
    if number is None:
        number = runtime().current_device()
    elif number != CPU:
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
    if text == "cuda":
        return None
    digits = text.removeprefix("cuda").removeprefix(":")
    if isinstance(device, bool) or not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise DeviceError(f'device={shown(device)} is unknown; pass a number, "cuda:0" or "cpu"')
    return int(digits)
