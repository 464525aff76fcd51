"""Compiled kernels on disk: nothing there can do harm."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from skips import skip_if

from numbacc import CacheWarning
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime import disk_cache

SPEC = KernelSpec("vector", FORMULAS["gated.forward.glu"], ("float32",) * 2, ("float32",), 1, False, compute="float32")
CAPABILITY = (9, 0)
KEY = "ab" * 32
ENTRY, CUBIN = "_ZN5entryé", bytes(range(256)) * 300


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The cache, in a folder of its own."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files_in(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def entry_file(folder):
    """The one file that holds the entry."""
    (found,) = (path for path in files_in(folder) if b"numbacc" in path.read_bytes())
    return found


# ---------------------------------------------------------------- where


def test_the_directory_is_the_one_asked_for(folder):
    assert disk_cache.directory() == folder
    disk_cache.save(KEY, ENTRY, CUBIN)
    assert files_in(folder)


@skip_if(sys.platform == "win32", "posix")
@pytest.mark.parametrize("chosen", [None, ""], ids=["unset", "empty"])
def test_the_default_directory(chosen, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBACC_CACHE_DIR")
    if chosen is not None:
        monkeypatch.setenv("NUMBACC_CACHE_DIR", chosen)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.directory() == tmp_path / "xdg" / "numbacc"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert disk_cache.directory() == tmp_path / "home" / ".cache" / "numbacc"


def test_another_directory_is_another_cache(tmp_path, monkeypatch):
    disk_cache.save(KEY, ENTRY, CUBIN)
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "other"))
    assert disk_cache.load(KEY) is None


# ---------------------------------------------------------------- entries


def test_what_is_saved_is_loaded():
    assert disk_cache.load(KEY) is None
    disk_cache.save(KEY, ENTRY, CUBIN)
    assert disk_cache.load(KEY) == (ENTRY, CUBIN)
    assert disk_cache.load("cd" * 32) is None
    disk_cache.save(KEY, "other", b"")
    assert disk_cache.load(KEY) == ("other", b"")


PACKED = disk_cache.pack(ENTRY, CUBIN)


def flipped(place):
    return PACKED[:place] + bytes([PACKED[place] ^ 1]) + PACKED[place + 1 :]


DAMAGED = {
    "empty": b"",
    "one byte": b"n",
    "magic only": PACKED[:8],
    "in the checksum": PACKED[:30],
    "header only": PACKED[:40],
    "last byte missing": PACKED[:-1],
    "half": PACKED[: len(PACKED) // 2],
    "one byte more": PACKED + b"\0",
    "wrong magic": b"numbacc0" + PACKED[8:],
    "no magic": PACKED[8:],
    "foreign": b"\x7fELF" * 100,
    **{f"flipped {place}": flipped(place) for place in (0, 7, 8, 39, 40, 44, 60, len(PACKED) - 1)},
}
damaged = pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)


def test_an_entry_is_found_intact():
    assert disk_cache.unpack(PACKED) == (ENTRY, CUBIN)


@damaged
def test_a_damaged_entry_is_none(data):
    assert disk_cache.unpack(data) is None


@damaged
def test_a_damaged_file_is_replaced(data, folder):
    disk_cache.save(KEY, ENTRY, CUBIN)
    entry_file(folder).write_bytes(data)
    assert disk_cache.load(KEY) is None
    disk_cache.save(KEY, ENTRY, CUBIN)
    assert disk_cache.load(KEY) == (ENTRY, CUBIN)


# ---------------------------------------------------------------- the cache around a launch


@pytest.fixture
def loading(monkeypatch):
    """`launch.load_function` without a GPU: the list of what it compiled, and what it loaded last."""
    from numbacc.runtime import device, launch

    compiled, loaded = [], []

    def compile_cubin(spec, capability):
        compiled.append((spec, capability))
        return ENTRY, CUBIN

    def call(function, *arguments):
        loaded.append(arguments)
        return 7

    driver = SimpleNamespace(cuModuleLoadData="load", cuModuleGetFunction="get")
    monkeypatch.setattr(launch, "compile_cubin", compile_cubin)
    monkeypatch.setattr(launch, "driver", driver)
    monkeypatch.setattr(launch, "relaxed", nullcontext)
    monkeypatch.setattr(device, "call", call)
    monkeypatch.setattr(device, "capability", lambda device: CAPABILITY)
    monkeypatch.setattr(device, "on_device", lambda device: nullcontext())
    return lambda: (launch.load_function.__wrapped__(SPEC, 0), list(compiled), loaded[-1])


def test_a_kernel_is_compiled_once(loading):
    for _ in range(2):
        handle, compiled, (_, entry) = loading()
        assert (handle, entry) == (7, ENTRY.encode())
        assert compiled == [(SPEC, CAPABILITY)]


def test_a_damaged_kernel_is_compiled_again(loading, folder):
    loading()
    entry_file(folder).write_bytes(PACKED[:-1])
    for _ in range(2):
        _, compiled, (_, entry) = loading()
        assert entry == ENTRY.encode()
        assert len(compiled) == 2
    assert disk_cache.load(disk_cache.key(SPEC, CAPABILITY)) == (ENTRY, CUBIN)


# ---------------------------------------------------------------- others at work

_WRITER = """
import sys
from numbacc.runtime import disk_cache as kernel_cache
number = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    kernel_cache.save(sys.argv[2], f"entry{number}", bytes([number]) * 200_000)
    found = kernel_cache.load(sys.argv[2])
    assert found is not None, "damaged"
    entry, cubin = found
    assert cubin == bytes([int(entry[5:])]) * 200_000, "mixed"
"""


def test_processes_that_write_one_key_at_once_leave_a_whole_entry():
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(number), KEY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    entry, cubin = disk_cache.load(KEY)
    assert cubin == bytes([int(entry[5:])]) * 200_000


@pytest.fixture
def first_failure(monkeypatch):
    """As if nothing had failed in this process so far."""
    monkeypatch.setattr(disk_cache, "_failures", itertools.count())


def test_a_directory_that_cannot_be_made_is_warned_of_once(tmp_path, monkeypatch, loading, first_failure):
    (tmp_path / "file").write_bytes(b"a file, not a folder")
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "file" / "child"))
    with pytest.warns(CacheWarning) as caught:
        assert disk_cache.load(KEY) is None
        disk_cache.save(KEY, ENTRY, CUBIN)
        assert disk_cache.load(KEY) is None
    (warning,) = caught
    for word in (tmp_path / "file" / "child", "Not a directory", "NUMBACC_CACHE_DIR"):
        assert str(word) in str(warning.message)
    handle, compiled, _ = loading()
    assert (handle, len(compiled)) == (7, 1)


@skip_if(getattr(os, "geteuid", lambda: 1)() == 0, "no root")
def test_a_directory_that_cannot_be_written_is_warned_of(folder, first_failure):
    disk_cache.save(KEY, ENTRY, CUBIN)
    for path in (*files_in(folder), *(p for p in folder.rglob("*") if p.is_dir()), folder):
        path.chmod(0o555)
    try:
        assert disk_cache.load(KEY) == (ENTRY, CUBIN)
        with pytest.warns(CacheWarning, match=re.escape(str(folder))):
            disk_cache.save("cd" * 32, ENTRY, CUBIN)
        assert disk_cache.load("cd" * 32) is None
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
