"""The documentation's site is built without a warning, and its reference has every public function."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import zlib
from html import unescape
from importlib.util import find_spec
from shutil import which
from urllib.parse import unquote

import pytest
from paths import ROOT
from public_api import methods, public
from skips import skip_if

import numbacc.typing
from numbacc.random import Generator

HAS_SPHINX = bool((found := find_spec("sphinx")) and found.origin)  # not merely a folder of that name
if HAS_SPHINX:
    from sphinx.search.en import SearchEnglish

pytestmark = [pytest.mark.slow, skip_if(not HAS_SPHINX, "sphinx")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    return folder


def described(site):
    """The names that the reference describes."""
    *_, lines = (site / "objects.inv").read_bytes().split(b"\n", 4)
    return {line.partition(" ")[0] for line in zlib.decompress(lines).decode().splitlines()}


def test_the_reference_has_every_public_function(site):
    wanted = {name if name.startswith("numbacc.") else f"numbacc.{name}" for name in public()}
    wanted |= {f"numbacc.random.Generator.{name}" for name in methods(Generator)}
    wanted |= {f"numbacc.typing.{name}" for name in numbacc.typing.__all__}
    assert len(wanted) > 600 and wanted <= described(site)


def html_of(site):
    """Path from the site's root -> the text of a page."""
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


def test_all_links_of_the_site_lead_somewhere(site):
    """Also to anchors and files, and from raw HTML, which Sphinx does not check."""
    pages = html_of(site)
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in set(re.findall(r'\bhref="([^"]+)"', text)):
            target, _, anchor = unquote(unescape(link)).partition("#")
            if re.match(r"\w+:", target):
                continue
            target = target.partition("?")[0]
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            assert name in pages or (site / name).is_file(), f"{path} links to {link}"
            assert not anchor or anchor in anchors.get(name, {anchor}), f"{path} links to {link}"


#: A search of a new user -> the page that comes first.
SEARCHES = {
    "bank conflict": "tracer",
    "coalesced": "tracer",
    "occupancy": "slow",
    "mixed precision": "gemm",
    "profiling": "slow",
    "own kernel": "elementwise",
    "softmax gradient": "reference/elementwise/softmax",
    "train a layer": "gemm",
    "gpu on a laptop": "simulator",
    "random numbers seed": "random",
    "convert torch tensor": "start",
    "install windows": "start",
    "cuda graph": "order",
    "hugging face llama": "torch",
    "autograd torch model": "torch",
    "jax jit": "jax",
    "jax vmap": "jax",
    "race condition": "tracer",
    "out of memory": "order",
    "why is it slow": "slow",
    "typing": "reference/typing",
    "pytorch": "coming-from",
    "matrix multiplication": "gemm",
    "multiple gpus": "order",
    "adam optimizer": "elementwise",
}


@skip_if(which("node") is None, "node")
def test_a_search_shows_the_best_page_first(site):
    """Search with the site's own scripts, which run in Node.js."""
    command = ["node", str(ROOT / "tests" / "house" / "search_site.js"), str(site), *SEARCHES]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    first = {phrase: results[0][0] for phrase, results in zip(SEARCHES, found, strict=True)}
    assert first == {phrase: f"docs/{page}" for phrase, page in SEARCHES.items()}


@pytest.mark.parametrize("phrase", SEARCHES)
def test_a_search_finds_the_page(site, phrase):
    """Without Node.js: the page has all words of the search."""
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    search = SearchEnglish({})
    words = [search.stem(word) for word in search.split(phrase.lower()) if word not in search.stopwords]
    found = []
    for word in words:
        places = [index[part].get(word, []) for part in ("terms", "titleterms")]
        found.append({page for place in places for page in ([place] if isinstance(place, int) else place)})
    assert f"docs/{SEARCHES[phrase]}" in {index["docnames"][page] for page in set.intersection(*found)}


def test_formulas_and_sessions_of_docstrings_keep_their_lines(site):
    files = [site / "docs" / "reference" / page for page in ("arrays.html", "attention/forward.html")]
    arrays, attention = (unescape(re.sub(r"<[^>]+>", "", file.read_text())) for file in files)
    assert "\n>>> float(x.copy_to_host().sum())\n0.0\n" in arrays
    assert re.search(r"^ *stats\[i\] = log Σ_j exp S\[i, j\]$", attention, re.MULTILINE)
