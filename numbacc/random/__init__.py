"""cuRAND's pseudo-random and quasi-random numbers, the same on the CPU and on GPUs.

    >>> import numbacc
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

A generator is a sequence of random outputs, and a position in it. How far a call advances the position depends only on
the method, the dtype and the number of values, never on the drawn values or the device:

| method | outputs per value |
|---|---|
| bits, random, uniform | 1; for uint64 and float64 two |
| dropout_mask | 1 |
| integers | 2; 4 where high - low > 2^32 |
| normal, lognormal, poisson | 1; 2 in float64 of philox and xorwow; in whole rounds, see `Generator.normal` |

An output has 32 bits. A value made of several outputs begins at a multiple of their number. With quasi-random kinds,
every method uses one output of 32 or 64 bits per value.

Without `dtype=`, floats are float32 and integers are int64. All methods but normal, lognormal and poisson give the same
bits on every device. These three use cuRAND's algorithms; their docstrings describe the accuracy.

On the CPU, kind "philox" needs only NumPy, except for poisson. Everything else on the CPU uses cuRAND's host
generators. Without cuRAND it raises LibraryError, which says what to install.

CUDA graphs, captured by `numbacc.graph` or another library, can contain draws of kind "philox", but not poisson and not
single numbers. Each launch draws new numbers: launch k draws the numbers of call k. For this, the first captured draw
moves the generator's position to the GPU; the capture itself draws nothing. All other draws use cuRAND's state on the
GPU, and raise UnsupportedError in a capture. Use kind "philox", or draw before the capture, and into the same array
(`out=`) between launches. docs/random.md has details.

A plan holds everything that follows from a call's arguments and the layout of its result. `cache_info` counts the
cached plans. The cache keeps 1024 of them by default; change that with `cache_limit`.
"""

from ..base.docstrings import import_in_examples
from ..base.keywords import explain_methods
from ..libraries.curand import State
from .generator import KINDS, Generator
from .plans import cache_clear, cache_info, cache_limit

__all__ = ["KINDS", "Generator", "State", "cache_clear", "cache_info", "cache_limit"]

explain_methods(Generator)
import_in_examples([Generator, State, cache_clear, cache_info, cache_limit])
