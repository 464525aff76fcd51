"""HTML for notebooks: tables and preformatted text, which `_repr_html_` methods return.

All text is escaped. Colours are the page's own, and lines are grey, so tables suit light and dark themes. Styles are
attributes of the elements, because notebooks drop style sheets in the outputs of files that the user did not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_TABLE = f"border-collapse: collapse; border: {_LINE}; margin: 0.4em 0; font-size: 90%"
_CAPTION = "caption-side: top; text-align: left; padding: 0.2em 0; color: inherit"
_CELL = f"border: {_LINE}; padding: 0.15em 0.6em; vertical-align: top"
_TEXT, _NUMBER = f"text-align: left; {_CELL}", f"text-align: right; white-space: nowrap; {_CELL}"

#: A cell of a column of numbers: 1,024, -1.5e-3, 98%, 3.1 ms, nan; an ellipsis, or an empty one.
_IS_NUMBER = re.compile(
    r"([-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf))( ?(%|[a-z\u00b5\u03bc/]{1,5}))?|\u2026|", re.IGNORECASE
)


def table(
    headers: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    caption: str | None = None,
    total: Sequence[Any] | None = None,
) -> str:
    """Return an HTML table.

    A column whose cells are all numbers, with or without a unit, is aligned to the right. Whole numbers get commas:
    1,024. Other values are shown by `str`.

    Args:
        headers: the names of the columns; empty for none, then the first cell of each row is its heading.
        rows: the cells of each row.
        caption: a line above the table, or None.
        total: the cells of a last row in bold, or None.

    Example:
        >>> "<td" in table(["kernel", "bytes"], [["silu", 1024]], "a launch")
        True
    """
    texts = [[cell_text(cell) for cell in row] for row in [*rows, *([] if total is None else [total])]]
    last = [] if total is None else [texts.pop()]
    width = max([len(headers), *map(len, texts + last)])
    columns = [[row[k] for row in texts + last if k < len(row)] for k in range(width)]
    styles = [_NUMBER if any(column) and all(map(_IS_NUMBER.fullmatch, column)) else _TEXT for column in columns]
    if not headers:
        styles[:1] = [_TEXT]
    parts = [f'<table style="{_TABLE}">']
    if caption is not None:
        parts.append(f'<caption style="{_CAPTION}">{escape(caption)}</caption>')
    if headers:
        parts.append(f"<thead>{_row(map(cell_text, headers), styles, width)}</thead>")
    parts += ["<tbody>", *(_row(row, styles, not headers) for row in texts), "</tbody>"]
    parts += [f"<tfoot>{_row(row, styles, width)}</tfoot>" for row in last]
    return "\n".join([*parts, "</table>"])


def _row(cells: Iterable[str], styles: Sequence[str], headings: int) -> str:
    """Return a row of a table, whose first cells are headings."""
    filled = enumerate(zip(cells, styles, strict=False))
    tags = (("th" if k < headings else "td", cell, style) for k, (cell, style) in filled)
    return "<tr>" + "".join(f'<{tag} style="{style}">{escape(cell)}</{tag}>' for tag, cell, style in tags) + "</tr>"


def cell_text(value: Any) -> str:
    """Return the text of a cell."""
    return f"{value:,}" if type(value) is int else str(value)


def code(text: str) -> str:
    """Return text in a fixed-width font, with its line breaks and spaces.

    Example:
        >>> code("a < b")
        '<pre style="white-space: pre; font-family: monospace">a &lt; b</pre>'
    """
    return f'<pre style="white-space: pre; font-family: monospace">{escape(text)}</pre>'


def line(text: str) -> str:
    """Return a paragraph.

    Example:
        >>> line("no values & no error")
        '<p style="margin: 0.2em 0">no values &amp; no error</p>'
    """
    return f'<p style="margin: 0.2em 0">{escape(text)}</p>'
