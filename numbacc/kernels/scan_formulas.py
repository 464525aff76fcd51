"""The scans that numbacc brings, as reductions of all that lies before: their meaning in NumPy is in `reference.scans`.

The first argument of a merge lies before the second. Sums start with -0, which leaves a zero's sign as it is.
"""

from __future__ import annotations

from .fold_formulas import add, multiply, part, same
from .formula import Reduction

_ALL = (
    Reduction("cumsum", part, start=(-0.0,), merge=add, finish=same),
    Reduction("cumprod", part, start=(1.0,), merge=multiply, finish=same),
)

#: Scans by name.
SCANS = {reduction.name: reduction for reduction in _ALL}


def named(name: str) -> Reduction:
    """The scan of a name, as pickles have it."""
    return SCANS[name]


for _reduction in _ALL:
    _reduction.origin = (named, (_reduction.name,))
