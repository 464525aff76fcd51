"""The documentation's site is built without a warning, and its reference has every public function."""

from __future__ import annotations

import inspect
import subprocess
import sys
import zlib
from importlib.util import find_spec

import pytest
from paths import ROOT
from skips import skip_if

import numbacc

#: Functions that public functions have as attributes.
PARTS = ("plan", "request", "supports")
pytestmark = [pytest.mark.slow, skip_if(find_spec("sphinx") is None, "sphinx")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    return folder


def public_functions():
    for name in numbacc.__all__:
        thing = getattr(numbacc, name)
        if inspect.isfunction(thing):
            yield f"numbacc.{name}"
        elif inspect.ismodule(thing) and name != "cuda":
            members = {each: getattr(thing, each) for each in thing.__all__}
            for own, member in members.items():
                if inspect.isfunction(member):
                    yield f"numbacc.{name}.{own}"
                    yield from (f"numbacc.{name}.{own}.{part}" for part in PARTS if hasattr(member, part))


def test_the_reference_has_every_public_function(site):
    *_, lines = (site / "objects.inv").read_bytes().split(b"\n", 4)
    described = {line.partition(" ")[0] for line in zlib.decompress(lines).decode().splitlines()}
    functions = set(public_functions())
    assert len(functions) > 400 and functions <= described


@pytest.mark.parametrize("page", ["start", "elementwise", "attention", "reference/gated", "coming-from", "slow"])
def test_pages_are_linked_and_searched(site, page):
    assert f"docs/{page}" in (site / "searchindex.js").read_text()
    assert f'href="{page}.html"' in (site / "docs" / "index.html").read_text()
