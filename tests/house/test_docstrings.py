"""The examples of docstrings run, and print what they say; and every public function has one."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest
from cudnn_cases import need_planning
from doc_blocks import run_session
from public_api import methods, public
from skips import skip

import numbacc
import numbacc.arrays
from numbacc import conv, elementwise, fft
from numbacc.base.dispatch import has_gpu
from numbacc.base.docstrings import COMMON, complete, like
from numbacc.elementwise.rows import TABLE
from numbacc.random import Generator

PUBLIC = public()
#: What shows the many methods of generators and device arrays: the docstrings of their modules.
LESSONS = {"random": numbacc.random, "arrays": numbacc.arrays}


def examples_of(text):
    return doctest.DocTestParser().get_examples(inspect.cleandoc(text or ""))


#: Functions whose examples plan with cuDNN.
PLANNING = [name for name in PUBLIC if name.endswith(".supports")]
#: Eight parts of the others.
PARTS = [[name for name in PUBLIC if name not in PLANNING][k::8] for k in range(8)]


@pytest.mark.parametrize("names", [*PARTS, PLANNING], ids=lambda names: f"{names[0]} and others")
def test_every_public_function_has_an_example_that_runs(names):
    """At the end of its docstring, of a few lines, and with something to see."""
    if names == PLANNING:
        need_planning()
    for name in names:
        check_example(name)


def check_example(name):
    text = inspect.cleandoc(PUBLIC[name].__doc__)
    before, _, section = text.rpartition("\nExample:\n")
    found = examples_of(section)
    imports = sum(example.source.startswith(("import ", "from ")) for example in found)
    assert before and 1 <= len(found) - imports <= 4, f"{name}: no section Example: at the end"
    assert not examples_of(before), f"{name}: an example outside of its section"
    assert any(example.want for example in found), f"{name}: nothing is printed"
    assert len(section.splitlines()) - imports <= 8, name
    run_session(section, name)


def test_docstrings_open_with_a_verb_or_the_thing_itself():
    opening = {name: thing.__doc__.lstrip() for name, thing in PUBLIC.items()}
    assert not [name for name, text in opening.items() if text.startswith(("What", "This ", "Function", "Class"))]


#: The public functions and plans of elementwise. All families have functions of their plan caches alike.
ELEMENTWISE = [
    name
    for name, thing in PUBLIC.items()
    if name.startswith("elementwise.") and inspect.isfunction(thing) and "cache_" not in name
]


def test_docstrings_of_elementwise_open_with_an_imperative_sentence():
    first = {name: PUBLIC[name].__doc__.lstrip().partition("\n")[0] for name in ELEMENTWISE}
    wanted = re.compile(r"(Return|Make|Set|Fill|Apply|Normalize) .+\.")
    assert first and not {name: line for name, line in first.items() if not wanted.fullmatch(line)}


def test_examples_of_gradients_print_them():
    """Not their shape."""
    printed = {
        name: [example.want for example in examples_of(PUBLIC[name].__doc__)]
        for name in ELEMENTWISE
        if name.endswith("_backward")
    }
    assert printed
    assert not [
        name for name, lines in printed.items() if not any(each.lstrip("(").startswith("array(") for each in lines)
    ]


#: The signatures of the public functions.
SIGNATURES = {name: inspect.signature(thing) for name, thing in PUBLIC.items() if inspect.isfunction(thing)}


def test_signatures_say_what_is_returned():
    """In words that an editor shows: `Array` is what an array of NumPy's or of a GPU is called."""
    unsaid = (inspect.Signature.empty, "Any")
    assert len(SIGNATURES) > 500
    assert not [name for name, signature in SIGNATURES.items() if signature.return_annotation in unsaid]


def parameters_of(text):
    """The parameters that a docstring describes."""
    section = inspect.cleandoc(text).partition("\nArgs:\n")[2].partition("\n\n")[0]
    return {name for names in re.findall(r"^    (\w[\w, ]*):", section, re.MULTILINE) for name in names.split(", ")}


def test_docstrings_describe_all_parameters():
    """Those with a section Args: the docstrings of plans, for example, refer to another function."""
    told = {name: parameters_of(PUBLIC[name].__doc__) for name in SIGNATURES}
    untold = {name: {*SIGNATURES[name].parameters} - names for name, names in told.items() if names}
    assert untold and not {name: names for name, names in untold.items() if names}


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.options])
def test_options_of_elementwise_functions_say_what_they_do(name):
    for option, default in TABLE[name].options.items():
        pattern = rf"^ *{option}: (.+?)\. A scalar; {default!r} by default\.$"
        text = re.sub(r"\n {5,}", " ", inspect.getdoc(getattr(elementwise, name)))
        assert len(re.search(pattern, text, re.MULTILINE)[1].split()) > 2


def test_docstrings_describe_parameters_that_their_source_leaves_out():
    assert parameters_of(fft.irfft2.__doc__) >= {"a", "s", "axes", "norm", "out", "stream"}
    assert parameters_of(conv.backward_data.__doc__) >= {"stride", "flip", "workspace_limit"}
    assert "LayoutError: " in elementwise.softmax.__doc__ and "DeviceError: " in elementwise.softmax.__doc__


@pytest.mark.parametrize("indent", ["", "    ", "        "])
def test_like_completes_docstrings(indent):
    """Of Python 3.13, which removes the indentation, of functions and of methods."""

    def first(x, n, *, out=None):
        """Do this.

        Args:
            x: an array
                of two lines.
            n: a number.
            out: a target.

        Raises:
            ShapeError: x.

        Example:
            >>> first(1)
        """

    def second(x, n, m, *, out=None, stream=None):
        """Do that.

        Returns:
            a result.

        A note.

        Example:
            >>> second(1)
        """

    def third(x, *, out=None):
        """Do it.

        Args:
            out: another target.

        Example:
            >>> third(1)
        """

    for each in (first, second, third):
        text = inspect.cleandoc(each.__doc__)
        each.__doc__ = text.replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n") + f"\n{indent}"
    like(first)(second)
    like(first)(third)
    assert inspect.cleandoc(second.__doc__) == (
        "Do that.\n\nArgs:\n    x: an array\n        of two lines.\n    n: a number.\n    out: a target.\n\n"
        "Returns:\n    a result.\n\nRaises:\n    ShapeError: x.\n\nA note.\n\nExample:\n    >>> second(1)"
    )
    assert inspect.cleandoc(third.__doc__) == (
        "Do it.\n\nArgs:\n    x: an array\n        of two lines.\n    out: another target.\n\n"
        "Raises:\n    ShapeError: x.\n\nExample:\n    >>> third(1)"
    )


@pytest.mark.parametrize("indent", ["", "        "])
def test_a_docstring_that_ends_with_its_arguments_is_completed(indent):
    def draw(size, *, stream=None):
        return size, stream

    draw.__doc__ = f"Draw.\n\n{indent}Args:\n{indent}    size: a number.\n{indent}"
    complete(draw)
    assert draw.__doc__ == f"Draw.\n\nArgs:\n    size: a number.\n    stream: {COMMON['stream']}\n"


@pytest.mark.parametrize("name", LESSONS)
def test_examples_of_modules_run(name):
    if name == "arrays" and not has_gpu():
        skip("device")
    run_session(LESSONS[name].__doc__, name)


@pytest.mark.parametrize("kind", ["arrays", "random"])
def test_every_method_is_shown(kind):
    from_class = Generator
    if kind == "arrays":
        if not has_gpu():
            skip("device")
        from numbacc.arrays.device_array import DeviceArray as from_class
    shown = "".join(example.source for example in examples_of(LESSONS[kind].__doc__))
    assert {name for name in methods(from_class) if f".{name}(" not in shown} == set()


@pytest.mark.parametrize("text", [">>> 1 + 1\n3", ">>> gated.forward(np.ones(3))\narray([1.])", ">>> print('x')\ny"])
def test_an_example_that_says_something_else_fails(text):
    with pytest.raises(AssertionError, match="Failed example"):
        run_session(text, "wrong")
