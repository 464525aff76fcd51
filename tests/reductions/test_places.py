"""Where the first of the best numbers is, wherever a thread has it: each lane of an access, each access, each row."""

from __future__ import annotations

import numpy as np
import pytest

from numbacc.base.dtypes import TABLE
from numbacc.elementwise import reductions

pytestmark = pytest.mark.usefixtures("poison", "small_reductions")

INF, NAN = np.inf, np.nan
#: All numbers but those that are set; what each row's first best number is, what there is behind it, and one before
#: and one behind it that it is better than.
KINDS = {
    "numbers": (-1.0, 5.0, 5.0, 4.0),
    "zeros": (-1.0, -0.0, 0.0, -2.0),
    "other zeros": (-1.0, 0.0, -0.0, -2.0),
    "infinities": (0.0, INF, INF, 3.0),
    "the lowest": (-INF, -INF, -INF, -INF),
    "NaN": (1.0, NAN, NAN, INF),
    "least numbers": (0.0, 2.0**-24, 2.0**-24, -1.0),
}


def rows_of(kind, columns, rng):
    """A row for each place of the first, with up to three others behind it, and the places."""
    usual, first, behind, worse = KINDS[kind]
    x, wanted = np.full((columns, columns), usual), np.arange(columns)
    for place, row in enumerate(x):
        row[rng.integers(0, columns, 2)] = worse
        row[rng.integers(place, columns, 3)] = behind
        row[place] = first
    return x, wanted * (kind != "the lowest")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_every_lane(place, function, kind, dtype):
    """Of rows of whole accesses and others, and of columns that are taken eight, two and one at a time."""
    rng, called = np.random.default_rng(0), getattr(reductions, function)
    for columns in (40,) if place.is_slow else (40, 128, 203, 514, 1032):
        x, wanted = rows_of(kind, columns, rng)
        x = (x if function == "argmax" else -x).astype(TABLE[dtype].numpy)
        for array, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            found = place.get(called(place.put(array), axis=axis))
            assert (found == wanted).all(), (columns, axis, np.flatnonzero(found != wanted))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_where_an_index_is_several_steps_ahead(place, dtype):
    """Rows that are read backwards, and every second one's."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (24, 24 if place.is_slow else 600)).astype(TABLE[dtype].numpy)
    here = place.put(x)
    for view in (lambda a: a[:, ::-1], lambda a: a[::-1].T, lambda a: a[:, ::2], lambda a: a[:, 3:-2]):
        wide = view(x).astype(float)
        for axis in (0, 1):
            assert (place.get(reductions.argmax(view(here), axis=axis)) == wide.argmax(axis)).all()
            assert (place.get(reductions.argmin(view(here), axis=axis)) == wide.argmin(axis)).all()
