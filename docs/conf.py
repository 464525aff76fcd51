"""Settings of the documentation's site: `python -m sphinx -W -c docs . build/site` in a checkout.

The root of the checkout is the source folder, so that links from pages to notebooks and to CONTRIBUTING.md are links of
the site, too.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bindings"), str(ROOT / "docs")]

import public_api  # noqa: E402

from numbacc._version import __version__  # noqa: E402

project = "numbacc"
author = "the numbacc authors"
copyright = "the numbacc authors"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/reference/**.rst",
    "notebooks/*.ipynb",
    "notebooks/data/README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
]

# Notebooks are shown with their stored outputs.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]

# The pages of numbacc.jax and numbacc.torch can be written where JAX and torch are not installed.
_needed = {"jax": ["jax", "numbacc.jax.ffi"], "torch": ["torch"]}
autodoc_mock_imports = [each for name, parts in _needed.items() if not find_spec(name) for each in parts]
autosummary_generate = False  # public_api.py writes the pages
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "numbacc"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["sidebar.js"]
html_search_scorer = str(ROOT / "docs" / "static" / "scorer.js")
# MathML needs no script from the network, so formulas are readable offline, too.
html_math_renderer = "mathml"
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# Docstrings write code between single backticks.
default_role = "code"

_CODE = re.compile(r"(`[^`]+`)")


def _escaped(line: str) -> str:
    """Return a line of a docstring, with what reStructuredText takes for markup escaped outside code."""
    parts = _CODE.split(line)
    parts[::2] = [re.sub(r"([|*_](?=\w)|\||(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"docs/([\w-]+)\.md", r":doc:`/docs/\1`", part) for part in parts[::2]]
    return "".join(parts)


def _table(rows: list[str]) -> list[str]:
    """Return a Markdown table's lines as a directive."""
    made = ["", ".. list-table::", "    :header-rows: 1", ""]
    for row in [rows[0], *rows[2:]]:
        for number, cell in enumerate(re.split(r"(?<!\\)\|", row.strip()[1:-1])):
            made.append(f"    {' ' if number else '*'} - {_escaped(cell.strip())}")
    return [*made, ""]


def _from_markdown(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Turn a docstring's Markdown into reStructuredText: fenced code, tables, and characters with a meaning there."""
    made: list[str] = []
    rows: list[str] = []
    is_code = is_example = is_literal = False
    for before, line in zip(["", *lines], [*lines, ""], strict=True):
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            made += _table(rows)
            rows = []
        if line.lstrip().startswith("```"):
            is_code = not is_code
            made += [".. code-block:: python", ""] if is_code else [""]
        elif is_code:
            made.append(f"    {line}" if line else line)
        else:
            is_example = (is_example and line[:1] in ("", " ")) or line.startswith("Example")
            is_indented = line.startswith("    ")
            # Indented lines after an empty one are formulas or sessions, which stay as they are.
            begins = is_indented and not is_literal and not is_example and not before
            is_literal = begins or (is_literal and (is_indented or not line))
            made += ["::", ""] if begins else []
            made.append(line if is_example or is_literal else _escaped(line))
    lines[:] = made
    for part in ("plan", "request", "supports"):
        function = getattr(thing, part, None)
        if what == "function" and function is not None:
            own = name.rpartition(".")[2]
            summary = (function.__doc__ or "").partition("\n")[0]
            taken = [each.replace(annotation=each.empty) for each in inspect.signature(function).parameters.values()]
            lines += ["", f".. py:function:: {own}.{part}{inspect.Signature(taken)}", "", f"   {_escaped(summary)}"]


def _short_signature(
    app: object, what: str, name: str, thing: object, options: object, given: str | None, returned: object
) -> tuple[str, None] | None:
    """Leave out the arguments of exceptions, which numbacc makes itself."""
    return ("", None) if what == "exception" and given else None


def _is_field(app: object, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Leave out the fields of named tuples: their docstring describes them."""
    return True if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number") else None


def _short_navigation(app: object, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Show the functions of one module only in the sidebar. All of them would triple the time of a build."""
    whole = context.get("toctree")
    if whole is not None:
        context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def _formula(writer: Any, node: Any) -> None:
    """Write a formula as MathML. Docutils lacks some commands, which set sizes that browsers choose themselves."""
    text = re.sub(r"\\(?:big|Big|textstyle)(?![a-zA-Z])", "", node.astext())
    text = tex2mathml(re.sub(r"\\dots(?![a-zA-Z])", r"\\ldots", text))
    writer.body.append(text if node.tagname == "math" else text.replace("<math", '<math display="block"', 1))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Write the pages of the API reference, and register the hooks, which run before napoleon's and the theme's."""
    public_api.write(ROOT / "docs" / "reference")
    app.connect("autodoc-process-docstring", _from_markdown, priority=400)
    app.connect("autodoc-process-signature", _short_signature)
    app.connect("autodoc-skip-member", _is_field)
    app.connect("html-page-context", _short_navigation, priority=400)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
