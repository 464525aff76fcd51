"""The HTML forms that notebooks show."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from numbacc.base import html


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
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "p")
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


@pytest.mark.parametrize("headers", [[], ["a", "b"]])
def test_tables_may_be_empty(headers):
    assert Read(html.table(headers, [])).rows == [headers] * bool(headers)


def test_rows_may_come_from_an_iterator():
    assert Read(html.table(["a"], ([k] for k in range(2)))).rows == [["a"], ["0"], ["1"]]
