"""The HTML forms that notebooks show."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import ml_dtypes
import numpy as np
import pytest
from skips import skip_if

import numbacc
from numbacc import attention, conv, elementwise, fft, gated, gemm
from numbacc.base import html
from numbacc.base.dispatch import has_gpu, simulated


class Read(HTMLParser):
    """Read a table: its rows of texts, the elements of its cells, and whether each is aligned to the right.

    It fails at elements that are not closed, or that text must not open.
    """

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags, self.right, self.texts = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert tag in ("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "pre", "p")
        style = dict(attributes)["style"] if attributes else ""
        # Fixed colours would vanish in one of the themes.
        assert {*re.findall(r"color: (\w+)|rgba\((.*?)\)", style)} <= {("inherit", ""), ("", "128, 128, 128, 0.4")}
        self.open.append(tag)
        if tag == "tr":
            for each in (self.rows, self.tags, self.right):
                each.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
            self.tags[-1].append(tag)
            self.right[-1].append("text-align: right" in style)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        elif data.strip():
            self.texts.append(data)


# ---------------------------------------------------------------- tables


HOSTILE = "<script>alert(\"x\")</script> & 'y'"


def test_text_is_escaped():
    read = Read(html.table([HOSTILE, "b"], [[HOSTILE, "<b>"]], caption=HOSTILE))
    assert read.rows == [[HOSTILE, "b"], [HOSTILE, "<b>"]] and read.texts == [HOSTILE]
    assert Read(html.code(HOSTILE) + html.line(HOSTILE)).texts == [HOSTILE] * 2
    assert '"x"' not in html.table([], [[HOSTILE]])


def test_numbers_are_aligned_to_the_right():
    cells = ["1,024", "-1.5e-3", "98%", "3.1 ms", "nan", "-inf", "", ".5", "2.5 MB/s"]
    assert all(Read(html.table(["k"], [[cell] for cell in cells])).right[1])
    for text in ("float32", "1 x 2", "(3,)", "e5", "1.2.3", "0x10"):
        read = Read(html.table(["k", "text"], [[1, text], [2, 7]]))
        assert read.right == [[True, False]] * 3, text


def test_whole_numbers_have_commas():
    assert Read(html.table(["k"], [[1234567], [1234.5], [None], [True]])).rows[1:] == [
        ["1,234,567"], ["1234.5"], ["None"], ["True"]
    ]  # fmt: skip


def test_headings():
    assert Read(html.table(["a", "b"], [[1, 2]])).tags == [["th", "th"], ["td", "td"]]
    read = Read(html.table([], [["op", 1], ["bytes", 2]]))
    assert read.tags == [["th", "td"]] * 2 and read.right == [[False, True]] * 2


def test_totals():
    read = Read(html.table(["a", "b"], [["x", 1]], total=["total", 1000]))
    assert read.rows[-1] == ["total", "1,000"] and read.tags[-1] == ["th", "th"] and read.right[-1] == [False, True]


@pytest.mark.parametrize("headers", [[], ["a", "b"]])
def test_tables_may_be_empty(headers):
    assert Read(html.table(headers, [])).rows == [headers] * bool(headers)


def test_rows_may_come_from_an_iterator():
    assert Read(html.table(["a"], ([k] for k in range(2)))).rows == [["a"], ["0"], ["1"]]


# ---------------------------------------------------------------- arrays


def placed(host):
    """A device array where there is a GPU or the simulator, else a portable one."""
    if has_gpu():
        return numbacc.asarray(host)
    with numbacc.portable():
        return numbacc.asarray(host)


def forms(array):
    """The table of an array's attributes, and that of its values."""
    read = Read(array._repr_html_())
    assert read.rows[0] == ["shape", "dtype", "device", "layout", "bytes"]
    return read.rows[1], read.rows[2:], read.texts


def test_a_matrix():
    facts, values, texts = forms(placed(np.array([[1.5, -2, np.nan], [1 / 3, 1e-9, 1e9]])))
    assert facts == ["(2, 3)", "float64", "cuda:0", "C-contiguous", "48"]
    assert values == [["", "0", "1", "2"], ["0", "1.5", "-2", "nan"], ["1", "0.333333", "1e-09", "1e+09"]]
    assert texts in (["DeviceArray"], ["PortableArray"])


def test_long_axes_show_their_ends():
    host = np.arange(20 * 30).reshape(20, 30)
    shown = [0, 1, 2, 3, None, 26, 27, 28, 29]
    _, values, _ = forms(placed(host))
    assert values[0] == ["", *("" if k is None else str(k) for k in shown)]
    assert values[1] == ["0", "0", "1", "2", "3", "\u2026", "26", "27", "28", "29"]
    assert values[5] == ["", *["\u2026"] * 9] and values[-1][0] == "19" and values[-1][-1] == "599"
    assert [len(row) for row in values] == [10] * 10
    assert Read(placed(host)._repr_html_()).right[-1] == [True] * 10
    _, (head, row), _ = forms(placed(np.arange(9.0)))
    assert head == ["0", "1", "2", "3", "", "5", "6", "7", "8"] and row[3:6] == ["3", "\u2026", "5"]
    assert forms(placed(np.arange(8.0)))[1] == [[str(k) for k in range(8)]] * 2


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_dtypes(dtype):
    _, values, _ = forms(placed(np.array([0, 1, 3]).astype(dtype)))
    shown = {"b": ["False", "True", "True"], "c": ["0+0j", "1+0j", "3+0j"]}
    assert values[1] == shown.get(np.dtype(dtype).kind, ["0", "1", "3"])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_dtypes(name):
    facts, values, _ = forms(placed(np.array([0.5, -1.5, np.nan]).astype(getattr(ml_dtypes, name))))
    assert facts[1] == name and values[1] == ["0.5", "-1.5", "nan"]
    assert forms(placed(np.full(1, 0.1).astype(ml_dtypes.bfloat16)))[1][1] == ["0.1001"]


def test_rank_zero():
    facts, values, _ = forms(placed(np.array(2.5)))
    assert facts[0] == "()" and values == [["value"], ["2.5"]]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)])
def test_empty_arrays(shape):
    facts, values, texts = forms(placed(np.ones(shape)))
    assert facts[0] == str(shape) and facts[-1] == "0" and values == [] and texts[1:] == ["no elements"]


def test_more_axes_show_a_matrix():
    host = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    _, values, texts = forms(placed(host))
    assert texts[1:] == ["x[0, 0, :, :]"]
    assert [row[1:] for row in values[1:]] == [[str(k) for k in row] for row in host[0, 0]]


STRIDED = {
    "F-contiguous": lambda x: x.T,
    "strides (192, 16) bytes": lambda x: x[:, ::2],
    "strides (192, -8) bytes": lambda x: x[:, ::-1],
    "strides (-192, 8) bytes": lambda x: x[::-1],
    "strides (192, 8) bytes": lambda x: x[:, 3:9],
}


@pytest.mark.parametrize("order", STRIDED)
def test_strided_arrays(order):
    host = np.arange(10.0 * 24).reshape(10, 24)
    facts, values, _ = forms(STRIDED[order](placed(host)))
    view = STRIDED[order](host)
    assert order in facts[3] and facts[0] == str(view.shape)
    for row in values[1:]:
        for name, text in zip(values[0][1:], row[1:], strict=True):
            assert text == ("\u2026" if "" in (name, row[0]) else f"{view[int(row[0]), int(name)]:g}")


def test_broadcast_arrays_and_those_that_are_read_only():
    x = placed(np.arange(3.0)).broadcast_to((2, 3))
    assert forms(x)[1][1:] == [["0", "0", "1", "2"], ["1", "0", "1", "2"]]
    x._readonly = True
    assert forms(x)[0][3] == "strides (0, 8) bytes, read-only"


def test_of_huge_arrays_little_is_copied(monkeypatch):
    big = placed(np.zeros((2048, 4096), np.float32))
    kind, copied = type(big), []
    copy = kind._copy_to_host

    def noted(array, *rest):
        copied.append(array.nbytes)
        return copy(array, *rest)

    monkeypatch.setattr(kind, "_copy_to_host", noted)
    for x in (big, big.T, big[::3, ::-2]):
        copied.clear()
        assert len(forms(x)[1]) == 10
        assert sum(copied) == 64 * 4
    copied.clear()
    forms(placed(np.zeros(1000, np.float32)))
    assert copied == [4000]


def test_an_error_is_shown_instead_of_values(monkeypatch):
    """As on a GPU whose context a kernel has broken."""

    def broken(*arguments):
        raise RuntimeError("cuMemcpyDtoHAsync: <illegal address>")

    x = placed(np.zeros((2, 3), np.float32))
    monkeypatch.setattr(type(x), "_copy_to_host", broken)
    facts, values, texts = forms(x)
    said = "no values: RuntimeError: cuMemcpyDtoHAsync: <illegal address>"
    assert facts[0] == "(2, 3)" and values == [] and texts[1:] == [said]
    assert repr(x) == f"{type(x).__name__}(shape=(2, 3), dtype=float32, device=cuda:0)\n{said}"


@skip_if(not has_gpu(), "device")
def test_in_a_capture_there_are_no_values():
    x = numbacc.asarray(np.ones((2, 3), np.float32))
    with numbacc.graph() as g:
        y = gated.forward((x, x))
        for array in (x, y, x.T[::2]):
            assert repr(array) == f"DeviceArray(shape={array.shape}, dtype=float32, device=cuda:0)"
            _, values, texts = forms(array)
            assert values == [] and "after g.launch()" in texts[1]
    g.launch()
    assert forms(y)[1][1][1] == "0.731059"


BROKEN = """
import numpy as np
import numbacc
from numbacc import cuda, gated

@cuda.jit
def far_away(x):
    x[1 << 44] = 1

x = numbacc.asarray(np.ones((2, 4), np.float32))
plan = gated.forward.plan(x)
far_away[1, 1](x.ravel())
print(repr(x))
print(x._repr_html_())
print(repr(plan))
print(plan._repr_html_())
"""


@pytest.mark.gpu
def test_a_broken_context_is_named():
    run = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert lines[0] == "DeviceArray(shape=(2, 4), dtype=float32, device=cuda:0)" and "ILLEGAL_ADDRESS" in lines[1], run
    assert run.stdout.count("no values: ") == 2 and "plan of gated.forward" in run.stdout, run


# ---------------------------------------------------------------- plans and inspections


def test_a_plan():
    x = placed(np.ones((4, 6), np.float32))
    read = Read(gated.forward.plan(x.T, axis=0)._repr_html_())
    facts = dict(row for row in read.rows if len(row) == 2)
    assert read.texts == ["plan of gated.forward"]
    assert facts["backend"] == ("kernel" if has_gpu() and not simulated() else facts["backend"])
    assert facts["workspace"] == "0 bytes" and facts["math dtype"] == "float32" and facts["deterministic"] == "yes"
    assert "accumulator dtype" not in facts and facts["algorithm"]
    assert read.rows[-3:] == [
        ["array", "dtype", "shape", "layout"],
        ["x", "float32", "(6, 4)", "F-contiguous"],
        ["out", "float32", "(3, 4)", "F-contiguous"],
    ]


def test_plans_of_numpy_arrays():
    x = np.ones((4, 6), np.float32)
    read = Read(gemm.matmul.plan(x, x.T)._repr_html_())
    assert ["runs on", "NumPy"] in read.rows and ["accumulator dtype", "float32"] in read.rows
    assert Read(gemm.matmul.plan(x, x.T).info._repr_html_()).rows[-1] == ["dtypes", "float32, float32, float32"]


def test_plans_name_their_arrays():
    x, w, image = (placed(np.ones(shape, np.float32)) for shape in ((3, 8), (8, 6), (1, 2, 6, 6)))
    for plan in (
        gemm.matmul.plan(x, w, bias=placed(np.ones(6, np.float32)), epilogue="relu_aux_bias"),
        attention.forward.plan(image, image, image, return_stats=True),
        conv.forward.plan(image, image[:, :, :3, :3]),
        fft.rfft.plan(x),
        elementwise.layer_norm.plan(x),
        elementwise.cumsum.plan(x, axis=1),
        elementwise.mean.plan(x),
    ):
        rows = Read(plan._repr_html_()).rows
        arrays = rows[rows.index(["array", "dtype", "shape", "layout"]) + 1 :]
        shapes = [str(each.shape) for each in (*plan.inputs, *plan.outputs)]
        assert [(row[0], row[2]) for row in arrays] == [*zip(plan.names, shapes, strict=True)]
        assert not [row for row in rows if row[0] == "error"]


def test_plans_of_several_plans_and_of_lists():
    x = np.ones((4, 6), np.float32)
    read = Read(elementwise.concatenate.plan([x, x])._repr_html_())
    assert read.rows[-1][0] == "out" and read.rows[-1][2] == "(8, 6)"
    read = Read(elementwise.cross_entropy.plan(x, np.ones(4, np.int64))._repr_html_())
    assert [row[0] for row in read.rows[-3:]] == ["x", "target", "out"]
    p, g, m, v = ([np.ones(3), np.ones(2)] for _ in range(4))
    assert Read(elementwise.adamw_step.plan(p, g, m, v, 1)._repr_html_()).texts == ["plan of elementwise.adamw_step"]


def test_the_error_of_a_plan_is_shown(monkeypatch):
    plan = gated.forward.plan(np.ones((4, 6), np.float32))
    monkeypatch.setattr(type(plan), "info", property(lambda self: 1 // 0))
    assert ["error", "ZeroDivisionError: integer division or modulo by zero"] in Read(plan._repr_html_()).rows


def test_an_inspection():
    @elementwise.kernel
    def less(x, y):
        return x if x < y else y

    found = less.inspect(np.ones(1000, np.float32), np.ones(1000, np.float32))
    text = found._repr_html_()
    read = Read(text)
    assert read.texts[0] == "less, for compute capability 9.0" or has_gpu()
    assert read.rows[0] == ["kernel", "bytes a thread", "registers", "local bytes", "spilled bytes"]
    assert read.rows[1][0].startswith("vector") and read.rows[1][1] == str(found.bytes_per_thread)
    assert read.texts[-1] == found.source and "x < y" not in text


# ---------------------------------------------------------------- what it loads


NUMPY_ONLY = """
import sys
import numpy as np
import numbacc
from numbacc import gated
x = np.ones((4, 6), np.float32)
gated.forward.plan(x)._repr_html_()
with numbacc.portable():
    numbacc.asarray(x)._repr_html_()
print(*[name for name in ("numba", "llvmlite", "matplotlib", "IPython", "pandas", "cuda.core") if name in sys.modules])
"""


@skip_if(simulated() or has_gpu(), "numpy")
def test_nothing_heavy_is_imported():
    run = subprocess.run([sys.executable, "-c", NUMPY_ONLY], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "\n", run
