"""Functions of integers that are translated statement by statement give Python's results."""

from __future__ import annotations

import ctypes
import random

import numpy as np

from numbacc.simulator.compiled import integers
from numbacc.simulator.compiled.integers import call, load, store

SHIFT = 3


def operators(a, b, c):
    total = a + b * c - (a & b | c ^ a) + ~b + -c
    total += (a << (c & 7)) + (b >> (c & 15))
    if b != 0:
        total ^= a // b + 5 * (a % b)
    return total + min(a, b, c) * max(b, c) + (a if b < c <= 20 else c)


def logic(a, b, c):
    found = (a and b) + (b or c or 7) + (not a) + 2 * (a < b < c) + 4 * (a in (b, c, SHIFT)) + 8 * (b not in (1, 2))
    if a > b and c != 0 and (b // c > 1 or not a):
        found = -found
    elif a == c or b == c:
        return found + 1
    else:
        pass
    return square(found)


def square(x):
    if x > 10:
        return x * x
    return x


def loops(a, b, c):
    total, last = 0, -1
    for i in range(a & 15):
        if i == b & 7:
            continue
        for j in range(b & 7, c & 15, 2):
            total += i * j
            if total > 500:
                break
            last = j
        for j in range(c & 7, -3, -1):
            total -= j
    i = low = 0
    while low < (a & 31):
        i, low = low, low + 1 + (i & 1)
        if low == 21:
            return square(total) + last
    return total + 100 * last + 1000 * i


def memory(at, k, function):
    store(at + 8 * k, load(at) + call(function, k, 5))
    return load(at + 8 * k)


def test_results_are_pythons(tmp_path, monkeypatch):
    """Also when the machine code comes from the disk, and when the file on the disk is damaged."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    functions = {1: operators, 2: logic, 3: loops, 4: memory}
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
    rng, translated = random.Random(1), []
    plain = integers.Translation.function
    monkeypatch.setattr(
        integers.Translation, "function", lambda self, f, n="": (translated.append(f), plain(self, f, n))[1]
    )
    for turn in range(3):
        found, library = integers.addresses(functions, "trial")
        for number in (1, 2, 3):
            for _ in range(200):
                given = [rng.choice((rng.randint(-9, 9), rng.randint(-40, 40), rng.randint(0, 1 << 20))) for _ in "abc"]
                assert kind(found[number])(*given) == functions[number](*given), (functions[number].__name__, given)
        room = np.zeros(4, np.int64)
        room[0] = 100
        added = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda a, b: 10 * a + b)
        assert kind(found[4])(room.ctypes.data, 2, ctypes.cast(added, ctypes.c_void_p).value) == 125
        assert list(room) == [100, 0, 125, 0]
        (file,) = (tmp_path / "simulate").iterdir()
        assert len(translated) == (6, 6, 12)[turn]  # with two calls of `square`
        if turn:
            file.write_bytes(file.read_bytes()[:-100] + bytes(100))
        del library
