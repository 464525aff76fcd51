"""Files in the safetensors format: their bytes, exchange with the package, wrong files."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pytest
from conftest import any_bits, bits, refused
from skips import needed, skip_if

import numbacc
from numbacc.arrays import files
from numbacc.base import dtypes
from numbacc.base.dispatch import has_gpu

DTYPES = [row.numpy for name, row in dtypes.TABLE.items() if name != "complex128"]


def arrays(place):
    """Name -> (array, its values), of each dtype, some strided, empty or of rank 0."""
    found = {}
    for k, dtype in enumerate(DTYPES):
        values = any_bits((5, 6), dtype, k) if dtype.kind != "b" else np.eye(5, 6, dtype=bool)
        found[f"{dtype.name}/é"] = place.put(values).T[::2], values.T[::2]
    found["empty"] = place.put(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32)
    found["scalar"] = place.put(np.array(7, np.int16)), np.array(7, np.int16)
    return found


def written(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.safetensors"


def test_the_bytes_of_a_file(place, path):
    one, two = place.put(np.array([[1, 2], [3, 4]], "i2")), place.put(np.array([0.5], "f4"))
    numbacc.save(path, {"one": one.T, "two": two}, metadata={"step": "7"})
    header = b'{"__metadata__":{"step":"7"},"two":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    header += b'"one":{"dtype":"I16","shape":[2,2],"data_offsets":[4,12]}}'
    header += b" " * (-len(header) % 8)
    assert path.read_bytes() == written(header, b"\0\0\0\x3f" + b"\1\0\3\0\2\0\4\0")
    assert numbacc.load_metadata(path) == {"step": "7"} and os.listdir(path.parent) == [path.name]


def test_every_dtype_is_read_as_it_was_written(place, path):
    given = arrays(place)
    numbacc.save(path, {name: array for name, (array, _) in given.items()})
    for device in (None, "cpu"):
        found = numbacc.load(path, device=device)
        assert found.keys() == given.keys() and numbacc.load_metadata(path) == {}
        for name, (_, values) in given.items():
            array = found[name]
            assert (array.shape, array.dtype) == (values.shape, values.dtype)
            assert isinstance(array, np.ndarray) == (device == "cpu" or not (place.is_device or has_gpu()))
            np.testing.assert_array_equal(bits(place.get(array)), bits(np.ascontiguousarray(values)))
            assert place.get(array).ctypes.data % values.itemsize == 0
    assert list(numbacc.load(path, names=["scalar", "empty"])) == ["empty", "scalar"]  # in the order of the file
    assert numbacc.load(str(path), names=()) == {}


def test_arrays_are_a_mapping_of_the_file(numpy_place, path):
    numbacc.save(path, {"a": np.arange(1000.0), "b": np.zeros(3, np.int8)})
    before = path.read_bytes()
    found = numbacc.load(path, device="cpu")
    found["a"] += 1  # they can be written, and the file stays
    assert path.read_bytes() == before and not found["a"].flags.owndata
    numbacc.save(path, {"a": found["a"]})  # a new file, while the old one is mapped
    again = numbacc.load(path, device="cpu")
    assert found["a"][-1] == 1000 == again["a"][-1] and again.keys() == {"a"}
    # Bytes after an odd header: another library's file.
    path.write_bytes(written(b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}} ', np.array([2.5]).tobytes()))
    again = numbacc.load(path, device="cpu")
    assert again["a"].flags.aligned and again["a"][0] == 2.5


def test_a_failed_write_leaves_the_old_file(place, path, monkeypatch):
    numbacc.save(path, {"a": np.ones(3)})
    os.chmod(path, 0o640)
    before = path.read_bytes()

    def fails(array, handle):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "_bytes_of", fails)
        numbacc.save(path, {"a": np.zeros(3)})
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    numbacc.save(path, {"a": np.zeros(3)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # the permissions of the file that it replaces
    numbacc.save(path.with_name("new"), {})
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.with_name("new").stat().st_mode) == 0o666 & ~mask


def test_wrong_arguments(place, path):
    x = place.put(np.ones(3, np.float32))
    refused(numbacc.DTypeError, "arrays is a list", run=lambda: numbacc.save(path, [x]))
    refused(numbacc.DTypeError, "name 3", run=lambda: numbacc.save(path, {3: x}))
    refused(numbacc.DTypeError, "__metadata__", run=lambda: numbacc.save(path, {"__metadata__": x}))
    refused(numbacc.DTypeError, "arrays['a']", "complex128", run=lambda: numbacc.save(path, {"a": np.ones(1, "c16")}))
    refused(numbacc.DTypeError, "arrays['a']", run=lambda: numbacc.save(path, {"a": [1.0]}))
    refused(numbacc.DTypeError, "metadata", "str()", run=lambda: numbacc.save(path, {"a": x}, metadata={"step": 3}))
    assert not os.listdir(path.parent)
    numbacc.save(path, {"weight": x})
    refused(numbacc.OptionError, "'weigth'", '"weight"', run=lambda: numbacc.load(path, names=["weigth"]))
    refused(numbacc.OptionError, "names", run=lambda: numbacc.load(path, names="weight"))
    refused(numbacc.DeviceError, "device", run=lambda: numbacc.load(path, device="x"))
    for call in (numbacc.load, numbacc.load_metadata):
        with pytest.raises(FileNotFoundError):
            call(path.with_name("none"))


ENTRY = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
#: The bytes of a wrong file -> a word of the message.
WRONG = [
    (b"", "0 bytes"),
    (b"\1\0\0", "3 bytes"),
    (written({}, length=2**63), str(2**63)),
    (written({}, length=3), "3"),
    (written(b"\xff\xfe"), "JSON"),
    (written(b"[" * 100_000), "JSON"),
    (written([]), "object"),
    (written({"a": ENTRY}), "cut off"),
    (written({"a": ENTRY}, b"\0"), "cut off"),
    (written({"a": ENTRY}, b"\0\0\0"), "cut off"),
    (written(b'{"a":' + json.dumps(ENTRY).encode() + b',"a":' + json.dumps(ENTRY).encode() + b"}", b"\0\0"), "twice"),
    (written({"__metadata__": {"a": 1}}), "__metadata__"),
    (written({"__metadata__": [1]}), "__metadata__"),
    (written({"a": ENTRY, "b": ENTRY}, b"\0\0"), "'b' begins at byte 0"),
    (written({"a": ENTRY | {"data_offsets": [1, 3]}}, b"\0\0\0"), "begins at byte 1"),
    (written({"a": ENTRY | {"data_offsets": [2, 0]}}, b"\0\0"), "data_offsets"),
    (written({"a": ENTRY | {"data_offsets": [0, 2, 4]}}, b"\0\0"), "data_offsets"),
    (written({"a": ENTRY | {"data_offsets": [-2, 0]}}, b"\0\0"), "data_offsets"),
    (written({"a": ENTRY | {"shape": [3]}}, b"\0\0"), "needs 3 bytes"),
    (written({"a": ENTRY | {"shape": [2**62, 2**62]}}, b"\0\0"), "needs"),
    (written({"a": ENTRY | {"shape": [True, 2]}}, b"\0\0"), "shape"),
    (written({"a": ENTRY | {"shape": [-1, -2]}}, b"\0\0"), "shape"),
    (written({"a": ENTRY | {"shape": 2}}, b"\0\0"), "shape"),
    (written({"a": ENTRY | {"dtype": 3}}, b"\0\0"), "dtype"),
    (written({"a": ENTRY | {"more": 3}}, b"\0\0"), "entry"),
    (written({"a": {"dtype": "U8"}}, b"\0\0"), "entry"),
    (written({"a": 3}), "entry"),
]


def test_wrong_files(place, path):
    for data, word in WRONG:
        path.write_bytes(data)
        for call in (numbacc.load, numbacc.load_metadata):
            refused(numbacc.OptionError, "is not a safetensors file", word, run=lambda call=call: call(path))
    path.write_bytes(written({"a": ENTRY, "b": ENTRY | {"dtype": "F4", "data_offsets": [2, 3]}}, b"\1\2\3"))
    refused(numbacc.DTypeError, "F4", "names=", run=lambda: numbacc.load(path))
    assert place.get(numbacc.load(path, names=["a"])["a"]).tolist() == [1, 2]


def test_the_package_reads_and_writes_the_same_files(place, path):
    numpy_api, package = needed("safetensors.numpy", "safetensors"), needed("safetensors", "safetensors")
    given = {name: each for name, each in arrays(place).items() if "float8" not in name}  # which it does not read
    numbacc.save(path, {name: array for name, (array, _) in given.items()}, metadata={"a": "é"})
    with package.safe_open(path, "numpy") as file:
        assert file.metadata() == {"a": "é"} and {*file.keys()} == given.keys()
    found = numpy_api.load_file(path)
    for name, (_, values) in given.items():
        assert (found[name].shape, found[name].dtype) == (values.shape, values.dtype)
        np.testing.assert_array_equal(bits(found[name]), bits(np.ascontiguousarray(values)))
    theirs = path.with_name("theirs")
    numpy_api.save_file({name: np.ascontiguousarray(values) for name, (_, values) in given.items()}, theirs, {"b": "c"})
    ours = numbacc.load(theirs)
    assert numbacc.load_metadata(theirs) == {"b": "c"} and ours.keys() == given.keys()
    for name, (_, values) in given.items():
        np.testing.assert_array_equal(bits(place.get(ours[name])), bits(np.ascontiguousarray(values)))


@skip_if(not has_gpu(), "device")
def test_a_stream_that_writes_is_waited_for(place, path):
    s = numbacc.stream()
    x = numbacc.empty((64, 64))
    with s:
        for k in range(50):
            x[...] = float(k)
    numbacc.save(path, {"x": x})
    assert (numbacc.asnumpy(numbacc.load(path, stream=s)["x"]) == 49).all()
