"""cuRAND's random numbers, pseudo- and quasi-random: the same on the CPU and on GPUs.

    >>> g = numbacc.random.Generator("philox", seed=7, device="cpu")  # or on the current GPU, without device=
    >>> g.random(3, dtype="float64")
    array([0.75015222, 0.08565787, 0.17173539])
    >>> g.integers(10, size=5)
    array([2, 8, 2, 1, 5])
    >>> g.dropout_mask(0.5, 4)
    array([2., 2., 0., 2.], dtype=float32)
    >>> [g.bits().dtype.name, g.poisson(3.0).dtype.name, g.uniform(-1, 1).dtype.name]
    ['uint32', 'int64', 'float32']
    >>> g.normal(0.0, 1.0, (64, 64)).shape, g.standard_normal(2).shape, g.lognormal(size=2).shape
    ((64, 64), (2,), (2,))
    >>> [child.state.seed != g.state.seed for child in g.spawn(2)]
    [True, True]

A generator is a sequence of random outputs and a position in it. Every method takes a number of outputs that follows
from its name, the dtype and how many values are asked for, never from the values or the device:

| method | outputs per value |
|---|---|
| bits, random, uniform | 1; for uint64 and float64 two |
| dropout_mask | 1 |
| integers | 2; 4 where high - low > 2^32 |
| normal, lognormal, poisson | 1; in float64 of philox and xorwow 2; in whole rounds, see `Generator.normal` |

An output has 32 bits; a value of several begins at a multiple of as many. Of the quasi-random kinds every method takes
one output per value, of 32 or 64 bits.

Without `dtype=` floats are float32, integers int64. Everything but normal, lognormal and poisson is the same to the
last bit on every device; those are cuRAND's formulas, and what that promises is said with them.

On the CPU kind "philox" needs NumPy only, but for poisson. All else there comes from cuRAND's host generators: without
cuRAND it raises LibraryError, which says what to install.

Graphs that `numbacc.graph` and others capture can draw all of kind "philox" but poisson and single numbers. Each launch
draws new numbers: launch k has the numbers of call k. For this the first captured draw moves the generator's position
to the GPU; the capture itself draws nothing. All else goes through cuRAND's state on the GPU and raises
UnsupportedError in a capture: use kind "philox", or draw before, and into the same array (`out=`) between launches.
docs/random.md says more.

What follows from a call's arguments and the layout of its result is decided once and kept: `cache_info` counts these
plans, of which `cache_limit` keeps 1024 unless it is told otherwise.
"""

from ..base.keywords import explain_methods
from ..libraries.curand import State
from .generator import KINDS, Generator
from .plans import cache_clear, cache_info, cache_limit

__all__ = ["KINDS", "Generator", "State", "cache_clear", "cache_info", "cache_limit"]

explain_methods(Generator)
