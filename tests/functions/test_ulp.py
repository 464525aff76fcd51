"""benchmarks/ulp.py measures errors rightly; docs/elementwise.md has what was measured, and tests allow that."""

from __future__ import annotations

import json
from functools import partial

import elementwise_oracle as oracle
import ml_dtypes
import numpy as np
import pytest
from paths import ROOT
from skips import skip

from benchmarks import functions, ulp
from numbacc import elementwise
from numbacc.elementwise.gradients import DIFFERENTIABLE
from numbacc.elementwise.rows import TABLE

BENCHMARKS = ROOT / "benchmarks"
FLOAT32 = np.dtype(np.float32)


def test_every_differentiable_function_is_measured():
    assert {name for name in DIFFERENTIABLE if "f" in TABLE[name].row.meanings} <= set(ulp.functions())
    assert set(ulp.CUDAS) <= set(ulp.functions())


@pytest.mark.parametrize("name", ulp.functions())
def test_arguments(name):
    """Of both signs, small and large, finite and not, in every dtype; all of 16 bits of functions of one number."""
    for dtype in oracle.DTYPES:
        xs = ulp.arguments(name, dtype, 8000)
        assert len({x.shape for x in xs}) == 1 and len(xs) == len(ulp.arrays_of(name)) - 2 * (name == "threshold")
        if len(xs) == 1 and dtype.itemsize == 2:
            assert len(np.unique(xs[0].view(np.uint16))) == 2**16
        for x in xs:
            if x.dtype == dtype:
                with np.errstate(all="ignore"):
                    wide = x.astype(np.float64)
                assert np.isnan(wide).any() and np.isinf(wide).any() and (wide == 0).any()
                assert (wide < -1e3).any() and (wide > 1e3).any() and ((wide > 0) & (wide < 1e-3)).any()


def test_pairs_of_16_bits_are_as_many_as_asked():
    for x in ulp.arguments("pow", np.dtype(np.float16), 2**18):
        numbers = np.isfinite(oracle.all_16_bit(np.float16)).sum()
        assert x.size == 2**18 and len(np.unique(x[np.isfinite(x)].view(np.uint16))) == numbers


def test_float32_is_tried_everywhere():
    (x,) = ulp.arguments("exp", FLOAT32, 2**16)
    words = np.sort(x.view(np.uint32).astype(np.int64))
    assert np.diff(words).max() <= 2 * 2**16 and words[0] < 2**16 and words[-1] >= 2**32 - 2**16
    one = np.float32(1).view(np.int32)
    assert {one - 5, one, one + 5} <= set(words)


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
def test_an_error_is_found_where_it_is(monkeypatch, dtype):
    """One result of all is three units off, or NaN."""

    def wrong(x, put):
        y = np.sqrt(x)
        place = np.flatnonzero(x == x.dtype.type(2.5))[0]
        y[place] += put
        return y

    for put, least, most in ((3 * float(ml_dtypes.finfo(dtype).eps), 2.5, 3.5), (np.nan, np.inf, np.inf)):
        monkeypatch.setattr(elementwise, "sqrt", partial(wrong, put=put))
        found = ulp.measure("sqrt", dtype, 4000, on_device=False)
        assert least <= found["ulp"] <= most and [float(x) for x in found["at"]] == [2.5]
        assert found["name"] == f"sqrt {dtype.name}"


def test_errors_where_terms_cancel():
    """3 + 1 (-3 + 2^-24): a unit of 3, which is off by half of the whole, and an overflow between."""
    xs = [np.array([3, 3, 2e38], np.float32) for _ in range(3)]
    wanted = np.array([2.0**-24, 2.0**-24, 1.0])
    found = np.array([2.0**-24 + 3 * 2.0**-23, np.nan, np.inf], np.float32)
    off = ulp.errors("addcmul", FLOAT32, xs, found, wanted)
    assert off.tolist() == [1.0, np.inf, 0.0]
    assert ulp.errors("fma", FLOAT32, xs, found, wanted)[0] > 1e6


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
@pytest.mark.parametrize("name", ["exp", "pow", "lerp", "threshold", "ldexp", "where", "silu", "lgamma"])
def test_a_figure(place, name, dtype):
    """By few numbers; those of NumPy and of the simulator are less exact than kernels."""
    if place.is_slow and dtype.itemsize == 2:
        skip("slow")
    found = ulp.measure(name, dtype, 40 if place.is_slow else 2000, place.is_device)
    most = ulp.allowed(name, dtype.name) if place.name == "gpu" else None
    assert found["ulp"] <= (most or 40)


def test_bounds():
    for name, most in (("exp", 2.5), ("relu", 2.0), ("pow", 4.5), ("cbrt", 2.0)):
        assert ulp.bound(name, "float32") == most and ulp.bound(name, "float64") is None
    assert 0.5 < ulp.bound("exp", "bfloat16") < ulp.bound("exp", "float16") < 0.501
    for name in ulp.functions():
        for dtype in ("float32", "float16", "bfloat16"):
            assert ulp.bound(name, dtype) <= ulp.allowed(name, dtype)


def test_committed_errors_are_allowed():
    """And what is aimed at is what the results say."""
    for figure in functions.figures("ulp").values():
        name, dtype = figure["name"].split()
        most = ulp.allowed(name, dtype)
        assert most is None or figure["ulp"] <= most, figure
        assert figure.get("bound") == ulp.bound(name, dtype), figure


def test_the_docs_have_the_committed_results():
    page = (BENCHMARKS.parent / "docs" / "elementwise.md").read_text()
    assert functions.written(page) == page, "run python -m benchmarks.functions"


def test_the_table_of_results(tmp_path):
    """Newer results replace older ones, function by function; what misses its bound is named."""

    def write(name, *figures):
        (tmp_path / name).write_text(json.dumps({"figures": figures}))

    write("2026-01-01-h200-elementwise.json", {"name": "exp float32, 2^28", "bandwidth": 0.5, "ms": 1.0, "peers": {}})
    assert "Errors are what tests allow" in functions.lines(tmp_path)[0]
    tail = {"count": 4096, "bound": 2.5}
    write(
        "2026-01-02-h200-ulp.json",
        {"name": "exp float32", "ulp": 1.0, "holds": True, **tail},
        {"name": "log float32", "ulp": 9.0, "holds": False, **tail},
    )
    write("2026-01-03-h200-ulp.json", {"name": "exp float32", "ulp": 1.28, "holds": True, **tail})
    log = {"name": "log float32, 2^28", "bandwidth": 0.75, "ms": 1.0, "peers": {"torch": 2.0}}
    write("2026-01-03-h200-elementwise.json", log)
    lines = functions.lines(tmp_path)
    assert "4,096" in lines[0] and lines[0].endswith("Above the target: `log float32`.")
    (exp,) = [line for line in lines if line.startswith("| `exp(x)`")]
    (log,) = [line for line in lines if line.startswith("| `log(x)`")]
    assert exp.endswith("| 1.28 - - - | 0.50 - - |  |") and log.endswith("| 9 - - - | 0.75 - - | 2.00 - - |")


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "ulp.json"
    alone = ["--numpy", "--processes", "1", "--json", str(path)]
    assert ulp.main([*alone, "--only", "sqrt float32", "--count", "4000"]) == 0
    written = json.loads(path.read_text())
    assert written["gpu"] is None and [f["name"] for f in written["figures"]] == ["sqrt float32", "rsqrt float32"]
    assert "sqrt float32" in capsys.readouterr().out
