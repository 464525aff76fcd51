"""Arguments of the wrong kind."""

from __future__ import annotations

import numbacc

#: No argument of any kind; its name is the same in every process.
OBJECT = type("Nothing", (), {"__repr__": lambda self: "OBJECT"})()


HUGE = 10**5000  # has no repr, by default


def made(place, shape, dtype="float32"):
    return numbacc.zeros(shape, dtype, device=None if place.is_device else "cpu")


def full(place, *arguments):
    return numbacc.full(*arguments, device=None if place.is_device else "cpu")


class Broken:
    """An object whose attributes fail in their own ways."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        raise self._error

    def __repr__(self):
        raise self._error


class NoHandle:
    def __cuda_stream__(self):
        return (0, "none")


STREAMS = ["x", [], 1.5, True, -1, 2**64, HUGE, OBJECT, NoHandle(), NoHandle, Broken(KeyError("stream"))]
