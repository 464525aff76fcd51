"""The reductions that numbacc brings, and their gradients, as scalar formulas.

`FUNCTIONS` describes the public functions that have no options but axis, dtype and keepdims: a reduction is one entry
there. The others are written in `elementwise.reductions`, and their meaning in NumPy in `reference.reductions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from ...functions.arithmetic import greatest, least, shared_out
from ...functions.reduction_formula import Chunk, Place, ReductionFormula


def part(x):
    """x -> (x,): what a number adds to a sum."""
    return (x,)


def add(total, value):
    """(total, value) -> (total + value,)."""
    return (total + value,)


def same(x, count):
    """(x,): the parts are the result."""
    return (x,)


def mean(total, count):
    """(total / count,)."""
    return (total / count,)


def mean_complex(total, count):
    """(total / count,), part by part."""
    return (complex(total.real / count, total.imag / count),)


def multiply(total, value):
    """(total, value) -> (total · value,)."""
    return (total * value,)


def larger(a, b):
    """The larger of two numbers, NaN if one is."""
    return (greatest(a, b),)


def smaller(a, b):
    """The smaller of two numbers, NaN if one is."""
    return (least(a, b),)


def with_index(x, index):
    """(x, index) -> (x, index)."""
    return x, index


def first_larger(a, i, b, j):
    """The larger of two numbers and its index: NaN before all others, of equals the lower index."""
    # Without branches: threads of a warp would take each in turn.
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b > a) | ((b != b) & (a == a)) | (is_equal & (j < i))
    return (b, j) if is_better else (a, i)


def first_smaller(a, i, b, j):
    """The smaller of two numbers and its index: NaN before all others, of equals the lower index."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b < a) | ((b != b) & (a == a)) | (is_equal & (j < i))
    return (b, j) if is_better else (a, i)


def later_larger(a, i, b, j):
    """`first_larger` where j is not less than i but of nothing: with fewer comparisons."""
    return (b, j) if ((a == a) & (not b <= a)) | (j < i) else (a, i)


def later_smaller(a, i, b, j):
    """`first_smaller` where j is not less than i but of nothing."""
    return (b, j) if ((a == a) & (not b >= a)) | (j < i) else (a, i)


def the_index(x, index, count):
    """(index,)."""
    return (index,)


def truth(x):
    """Whether x is not 0, which NaN is not."""
    return (x != 0,)


def either(a, b):
    """(a or b,)."""
    return (a or b,)


def both(a, b):
    """(a and b,)."""
    return (a and b,)


def moments(x, correction):
    """(1, x, 0, 0): a count, a mean, the part of the mean that is lost by rounding, the sum of squared distances."""
    return 1.0, x, 0.0, 0.0


def merged_moments(n, mean, rest, squares, m, other, others_rest, others):
    """The moments of two sets together.

    Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", equation 2.1b. There a mean's rounding
    error would be one of the variance, as many times larger as the mean is larger than the deviation.
    """
    count = n + m
    # Of two sets without elements the weight is 0, not 0/0.
    weight = shared_out(m, count if count > 0.0 else 1.0)
    apart, rests = other - mean, others_rest - rest
    moved = apart * weight
    middle = mean + moved
    rest += (moved - (middle - mean)) + rests * weight
    apart += rests
    # Multiplied in this order, a set without elements adds 0 however large the other mean is.
    return count, middle, rest, squares + others + apart * (n * weight) * apart


def part_of(x, correction):
    """(x,), of an integer or a bool a float: a sum of a few of int64 would overflow, and of bools be none."""
    return (x * 1.0,)


def distances(x, mean, n, middle, rest, none):
    """(x - mean, its square)."""
    d = x - mean
    return d, d * d


def moments_of_some(mean, lost, squares, count):
    """`moments` of several numbers, of distances to their mean as it was rounded."""
    # Where squares overflow, the variance is infinite, and not NaN.
    return count, mean, lost / count, squares - (lost * (lost / count) if squares < math.inf else 0.0)


def variance(n, mean, rest, squares, count, correction):
    """(squares / (count - correction),), the divisor at least 0: NaN of nothing."""
    left = count - correction
    return (squares / (left if left > 0.0 else 0.0),)


def rough_moments(x, correction):
    """`moments` of 16-bit floats, which have fewer digits than a mean of float32: (1, x, 0)."""
    return 1.0, x, 0.0


def merged_rough_moments(n, mean, squares, m, other, others):
    """`merged_moments` without what is lost by rounding."""
    count = n + m
    weight = shared_out(m, count if count > 0.0 else 1.0)
    apart = other - mean
    return count, mean + apart * weight, squares + others + apart * (n * weight) * apart


def square_distance(x, mean, n, middle, none):
    """((x - mean)²,)."""
    return ((x - mean) * (x - mean),)


def rough_moments_of_some(mean, squares, count):
    """`rough_moments` of several numbers."""
    return count, mean, squares


def rough_variance(n, mean, squares, count, correction):
    """As `variance`."""
    return variance(n, mean, 0.0, squares, count, correction)


def deviation(n, mean, rest, squares, count, correction):
    """The square root of `variance`."""
    return (math.sqrt(variance(n, mean, rest, squares, count, correction)[0]),)


def rough_deviation(n, mean, squares, count, correction):
    """The square root of `rough_variance`."""
    return (math.sqrt(rough_variance(n, mean, squares, count, correction)[0]),)


def moments_of_both(z, correction):
    """`moments` of a complex number's parts: a count, for each part a mean and its rest, the sum of squares of both."""
    return 1.0, z.real, 0.0, z.imag, 0.0, 0.0


def merged_moments_of_both(n, x, x_rest, y, y_rest, squares, m, u, u_rest, v, v_rest, others):
    """`merged_moments` of the real and of the imaginary parts."""
    count, real, real_rest, one = merged_moments(n, x, x_rest, squares, m, u, u_rest, others)
    count, imaginary, imaginary_rest, both = merged_moments(n, y, y_rest, one, m, v, v_rest, 0.0)
    return count, real, real_rest, imaginary, imaginary_rest, both


def variance_of_both(n, x, x_rest, y, y_rest, squares, count, correction):
    """As `variance`."""
    return variance(n, x, x_rest, squares, count, correction)


def deviation_of_both(n, x, x_rest, y, y_rest, squares, count, correction):
    """As `deviation`."""
    return deviation(n, x, x_rest, squares, count, correction)


def mean_and_deviation(n, mean, rest, squares, count, correction):
    """(mean, `deviation`)."""
    return mean + rest, deviation(n, mean, rest, squares, count, correction)[0]


def rough_mean_and_deviation(n, mean, squares, count, correction):
    """(mean, `rough_deviation`)."""
    return mean, rough_deviation(n, mean, squares, count, correction)[0]


def once(x):
    """(x, 1): a number, and how many are equal to it."""
    return x, 1.0


def magnitude_once(x):
    """(|x|, 1)."""
    return abs(x), 1.0


def larger_and_ties(a, n, b, m):
    """The larger of two numbers, NaN if one is, and how many are equal to it, as all NaN are."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b > a) | ((b != b) & (a == a))
    return (b if is_better else a), (n + m if is_equal else (m if is_better else n))


def smaller_and_ties(a, n, b, m):
    """`larger_and_ties` of the smaller one."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b < a) | ((b != b) & (a == a))
    return (b if is_better else a), (n + m if is_equal else (m if is_better else n))


def known(best, count):
    """(best,)."""
    return (best,)


def is_best(x, best, nothing, none):
    """(1,) of one that is equal to the best of several, else (0,)."""
    return (1.0 if x == best or x != x else 0.0,)


def is_best_magnitude(x, best, nothing, none):
    """`is_best` of |x|."""
    return is_best(abs(x), best, nothing, none)


def both_parts(best, ties, count):
    """(best, ties)."""
    return best, ties


def magnitude(x):
    """(|x|,)."""
    return (abs(x),)


def add_two(a, b, c, d):
    """(a + c, b + d)."""
    return a + c, b + d


def is_something(x):
    """(1,) of what is not 0."""
    return (0.0 if x == 0.0 else 1.0,)


def magnitude_to(x, order):
    """(|x|^order,)."""
    return (math.pow(abs(x), order),)


def root_of(total, count, order):
    """(total^(1/order),)."""
    return (math.pow(total, 1.0 / order),)


def square(x):
    """(x²,)."""
    return (x * x,)


def square_magnitude(z):
    """(|z|²,)."""
    return (z.real * z.real + z.imag * z.imag,)


def root(total, count):
    """(√total,)."""
    return (math.sqrt(total),)


#: Of complex numbers: the parts of nothing, and their dtypes.
_NO_MOMENTS, _REALS = (0.0,) * 6, ("real",) * 6

_ALL = (
    ReductionFormula("mean_complex", part, start=(0.0,), merge=add, finish=mean_complex),
    ReductionFormula(
        "argmax",
        with_index,
        start=(-math.inf, math.inf),
        merge=first_larger,
        finish=the_index,
        parts=("", "index"),
        indexed=True,
        place=Place(larger, later_larger, "max"),
    ),
    ReductionFormula(
        "argmin",
        with_index,
        start=(math.inf, math.inf),
        merge=first_smaller,
        finish=the_index,
        parts=("", "index"),
        indexed=True,
        place=Place(smaller, later_smaller, "min"),
    ),
    *(
        ReductionFormula(name, first, start=(0.0,) * parts, merge=merge, finish=finish, chunk=chunk)
        for first, parts, merge, chunk, variants in (
            (
                moments,
                4,
                merged_moments,
                Chunk(part_of, add, mean, distances, add_two, moments_of_some),
                {"var": variance, "std": deviation, "mean_std": mean_and_deviation},
            ),
            (
                rough_moments,
                3,
                merged_rough_moments,
                Chunk(part_of, add, mean, square_distance, add, rough_moments_of_some),
                {
                    "var_narrow": rough_variance,
                    "std_narrow": rough_deviation,
                    "mean_std_narrow": rough_mean_and_deviation,
                },
            ),
        )
        for name, finish in variants.items()
    ),
    *(
        ReductionFormula(
            name, moments_of_both, start=_NO_MOMENTS, merge=merged_moments_of_both, finish=finish, parts=_REALS
        )
        for name, finish in (("var_complex", variance_of_both), ("std_complex", deviation_of_both))
    ),
    *(
        ReductionFormula(
            name,
            first,
            start=(start, 0.0),
            merge=merge,
            finish=both_parts,
            chunk=Chunk(of_one, best, known, second, add, both_parts),
        )
        for name, first, start, merge, of_one, best, second in (
            ("max_ties", once, -math.inf, larger_and_ties, part, larger, is_best),
            ("min_ties", once, math.inf, smaller_and_ties, part, smaller, is_best),
            ("norm_ties", magnitude_once, 0.0, larger_and_ties, magnitude, larger, is_best_magnitude),
            ("norm_least_ties", magnitude_once, math.inf, smaller_and_ties, magnitude, smaller, is_best_magnitude),
        )
    ),
    # Norms; "_complex" of complex numbers, whose norms are real.
    *(
        ReductionFormula(f"norm_{name}{which}", first, start=(start,), merge=merge, finish=finish, parts=parts)
        for which, parts, second_power in (("", ("",), square), ("_complex", ("real",), square_magnitude))
        for name, first, start, merge, finish in (
            ("0", is_something, 0.0, add, same),
            ("1", magnitude, 0.0, add, same),
            ("2", second_power, 0.0, add, root),
            ("p", magnitude_to, 0.0, add, root_of),
            ("inf", magnitude, 0.0, larger, same),
            ("least", magnitude, math.inf, smaller, same),
        )
    ),
)


@lru_cache(maxsize=64)
def side_by_side(merge: Callable[..., tuple[Any, ...]], parts: int) -> Callable[..., tuple[Any, ...]]:
    """What merges several parts, each as `merge` does one.

    Written as text, as the number of its parameters is not known here.
    """
    if parts == 1:
        return merge
    one, other = ([f"{name}{k}" for k in range(parts)] for name in "ab")
    merged = ", ".join(f"merge({a}, {b})[0]" for a, b in zip(one, other, strict=True))
    space: dict[str, Any] = {"merge": merge}
    exec(f"def beside({', '.join([*one, *other])}):\n    return {merged}\n", space)
    beside: Callable[..., tuple[Any, ...]] = space["beside"]
    return beside


def named(name: str) -> ReductionFormula:
    """The reduction of a name, as pickles have it."""
    return REDUCTIONS[name]


# ---------------------------------------------------------------- gradients, of dy, a number, and totals


def of_sum(dy, x):
    return (dy,)


def of_mean(dy, x, count):
    return (dy / count,)


def of_var(dy, x, mean, divisor):
    return (dy * ((x - mean) * 2.0 / divisor),)


def of_std(dy, x, mean, std, divisor):
    """0 where all numbers are equal: at the tip of a cone there is no slope."""
    return (0.0 if std == 0.0 else dy * ((x - mean) / (divisor * std)),)


def of_extreme(dy, x, extreme, ties):
    """All that are equal to the extreme share it, as all NaN do where one makes it NaN."""
    return (dy / ties if x == extreme or (x != x and extreme != extreme) else 0.0,)


def of_prod(dy, x, product, zeros):
    """The product of all others, given that of what is not 0, and how many are."""
    if zeros == 0.0:
        return (dy * (product / x),)
    return (dy * product if zeros == 1.0 and x == 0.0 else 0.0,)


def of_norm_1(dy, x):
    return (dy if x > 0.0 else -dy if x < 0.0 else dy * x,)


def of_norm_2(dy, x, norm):
    """0 at the origin, as `of_std`."""
    return (0.0 if norm == 0.0 else dy * (x / norm),)


def of_norm_0(dy, x):
    return (0.0,)


def of_norm_p(dy, x, norm, order):
    """0 of what is 0, where there is no slope, or none that is finite."""
    if x == 0.0 or norm == 0.0:
        return (0.0,)
    slope = dy * math.pow(abs(x) / norm, order - 1.0)
    return (-slope if x < 0.0 else slope,)


def of_norm_inf(dy, x, norm, ties):
    """As `of_extreme`, towards the side that each is on."""
    if abs(x) == norm or (x != x and norm != norm):
        return ((dy if x > 0.0 else -dy if x < 0.0 else dy * x) / ties,)
    return (0.0,)


def of_logsumexp(dy, x, base, total):
    """`total` is log Σ e^(x - base)."""
    return (dy * math.exp(x - base - total),)


def factor(x):
    """What a number is in the product of what is not 0, and in the count of what is."""
    return (1.0, 1.0) if x == 0.0 else (x, 0.0)


def factors(product, zeros, other, more):
    return product * other, zeros + more


# ---------------------------------------------------------------- the public functions


class Slope(NamedTuple):
    """The gradient of a reduction with respect to its argument.

    Attributes:
        function: (dy, x, more) -> a tuple of the gradient, of numbers. Its other parameters are, by name: `count`, the
            number of elements; `y`, the result, not rounded to 16 bits; or the result of another reduction.
        says: the formula, as a sentence for the docstring, without its full stop.
        example: x, and the gradient for a dy of 1.
    """

    function: Callable[..., tuple[Any, ...]]
    says: str
    example: tuple[str, str]


class ReductionFunction(NamedTuple):
    """A public function: f(x, *, axis=None, keepdims=False, out=None, stream=None).

    Attributes:
        name: as the public function is called.
        says: the first line of the docstring.
        example: the arguments of an example, and the output.
        formula: of numbers.
        numpy: rows of a NumPy array -> the results, along the last axis; None if `reference.reductions` has it.
        rule: the result's dtype. "keep": that of x. "total": that of x, but int64 or uint64 of integers. "mean": that
            of x, but float64 of integers. "bool": bool. With "total" and "mean" the function has an option dtype.
        slope: the gradient; None if there is none, or if `elementwise.reduction_gradients` has it.
        more: a paragraph for the docstring.
        takes_complex: whether x may be complex.
        needs_elements: whether there is no result without elements.
    """

    name: str
    says: str
    example: tuple[str, str]
    formula: ReductionFormula
    numpy: Callable[..., Any] | None
    rule: str
    slope: Slope | None = None
    more: str = ""
    takes_complex: bool = True
    needs_elements: bool = False


def function(
    name: str,
    rule: str,
    says: str,
    arguments: str,
    output: str,
    *,
    map: Callable[..., tuple[Any, ...]],
    start: tuple[float, ...],
    merge: Callable[..., tuple[Any, ...]],
    numpy: Callable[..., Any] | None = None,
    finish: Callable[..., tuple[Any, ...]] = same,
    parts: tuple[str, ...] | None = None,
    **more: Any,
) -> ReductionFunction:
    """Describe a public function: fields of `ReductionFunction`, and arguments of `ReductionFormula`."""
    formula = ReductionFormula(name, map, start=start, merge=merge, finish=finish, parts=parts)
    return ReductionFunction(name, says, (arguments, output), formula, numpy, rule, **more)


_SQUARE, _OTHERS = "np.array([[1.0, 2.0], [3.0, 4.0]])", "np.array([[1.0, 5.0], [3.0, 4.0]])"
_NAN, _TRUTH = "If any element is NaN, the result is NaN.", "NaN counts as nonzero."
#: As the public functions are listed.
_FUNCTIONS = (
    function("sum", "total", "Return the sum Σ x, and 0 for no elements.", f"{_SQUARE}, axis=1", "array([3., 7.])",
        map=part, start=(0.0,), merge=add,
        slope=Slope(of_sum, "dx = dy", ("[1.0, 2.0]", "array([1., 1.])")),
        more="Integers wrap around. 16-bit floats are added in float32 and rounded once."),
    function("mean", "mean", "Return the mean Σ x / n, and NaN for no elements.", _SQUARE, "array(2.5)",
        map=part, start=(0.0,), merge=add, finish=mean,
        slope=Slope(of_mean, "dx = dy / n", ("[1.0, 2.0]", "array([0.5, 0.5])"))),
    function("prod", "total", "Return the product Π x, and 1 for no elements.", _SQUARE, "array(24.)",
        map=part, start=(1.0,), merge=multiply),
    function("max", "keep", "Return the largest element.", f"{_OTHERS}, axis=1", "array([5., 4.])",
        map=part, start=(-math.inf,), merge=larger,
        takes_complex=False, needs_elements=True, more=_NAN),
    function("min", "keep", "Return the smallest element.", f"{_OTHERS}, axis=1", "array([1., 3.])",
        map=part, start=(math.inf,), merge=smaller,
        takes_complex=False, needs_elements=True, more=_NAN),
    function("any", "bool", "Return whether any element is nonzero, and False for no elements.",
        "np.array([0.0, 2.0])", "array(True)",
        map=truth, start=(0,), merge=either, parts=("bool",), more=_TRUTH),
    function("all", "bool", "Return whether all elements are nonzero, and True for no elements.",
        "np.array([0.0, 2.0])", "array(False)",
        map=truth, start=(1,), merge=both, parts=("bool",), more=_TRUTH),
)  # fmt: skip

#: Public functions by name.
FUNCTIONS = {each.name: each for each in _FUNCTIONS}
#: Reductions by name.
REDUCTIONS = {reduction.name: reduction for reduction in (*(each.formula for each in _FUNCTIONS), *_ALL)}
for _reduction in REDUCTIONS.values():
    _reduction.origin = (named, (_reduction.name,))
