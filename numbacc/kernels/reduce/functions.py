"""The reductions that numbacc provides, and their gradients, as scalar functions.

`FUNCTIONS` describes the public functions whose only options are axis, dtype and keepdims: each reduction is one entry.
The other reductions are defined in `elementwise.reductions`, and their meaning in NumPy in `reference.reductions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from ...functions.arithmetic import greatest, least, shared_out
from ...functions.reduction_formula import Chunk, Place, ReductionFormula


def part(x):
    """Return (x,), the term that an element adds to a sum."""
    return (x,)


def add(total, value):
    """Return (total + value,)."""
    return (total + value,)


def same(x, count):
    """Return (x,): the partial result is the final result."""
    return (x,)


def mean(total, count):
    """Return (total / count,)."""
    return (total / count,)


def mean_complex(total, count):
    """Return (total / count,), with the real and imaginary part divided separately."""
    return (complex(total.real / count, total.imag / count),)


def multiply(total, value):
    """Return (total · value,)."""
    return (total * value,)


def larger(a, b):
    """Return the larger of two numbers, or NaN if one is NaN."""
    return (greatest(a, b),)


def smaller(a, b):
    """Return the smaller of two numbers, or NaN if one is NaN."""
    return (least(a, b),)


def with_index(x, index):
    """Return (x, index)."""
    return x, index


def first_larger(a, i, b, j):
    """Return the larger of two numbers and its index: NaN comes first, and the lower index wins among equals."""
    # Written without branches, which would diverge within a warp.
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b > a) | ((b != b) & (a == a)) | (is_equal & (j < i))
    return (b, j) if is_better else (a, i)


def first_smaller(a, i, b, j):
    """Return the smaller of two numbers and its index: NaN comes first, and the lower index wins among equals."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b < a) | ((b != b) & (a == a)) | (is_equal & (j < i))
    return (b, j) if is_better else (a, i)


def later_larger(a, i, b, j):
    """Return `first_larger` with fewer comparisons, if j is not less than i unless one is the start value."""
    return (b, j) if ((a == a) & (not b <= a)) | (j < i) else (a, i)


def later_smaller(a, i, b, j):
    """Return `first_smaller` with fewer comparisons, if j is not less than i unless one is the start value."""
    return (b, j) if ((a == a) & (not b >= a)) | (j < i) else (a, i)


def the_index(x, index, count):
    """Return (index,)."""
    return (index,)


def truth(x):
    """Return whether x is not 0; NaN counts as not 0."""
    return (x != 0,)


def either(a, b):
    """Return (a or b,)."""
    return (a or b,)


def both(a, b):
    """Return (a and b,)."""
    return (a and b,)


def moments(x, correction):
    """Return (1, x, 0, 0): a count, a mean, the mean's rounding error, the sum of squared differences from the mean."""
    return 1.0, x, 0.0, 0.0


def merged_moments(n, mean, rest, squares, m, other, others_rest, others):
    """Return the moments of two sets combined.

    Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", equation 2.1b. In that equation the
    mean's rounding error also becomes an error of the variance, larger by the ratio of mean and deviation.
    """
    count = n + m
    # If both sets are empty, the weight is 0, not 0/0.
    weight = shared_out(m, count if count > 0.0 else 1.0)
    apart, rests = other - mean, others_rest - rest
    moved = apart * weight
    middle = mean + moved
    rest += (moved - (middle - mean)) + rests * weight
    apart += rests
    # Multiplied in this order, an empty set adds 0 however large the other mean is.
    return count, middle, rest, squares + others + apart * (n * weight) * apart


def part_of(x, correction):
    """Return (x,) as a float: a sum of a few int64 could overflow, and bools cannot be summed."""
    return (x * 1.0,)


def distances(x, mean, n, middle, rest, none):
    """Return (x - mean, its square)."""
    d = x - mean
    return d, d * d


def moments_of_some(mean, lost, squares, count):
    """Return the `moments` of several elements, from sums of differences from their rounded mean."""
    # If the squares overflow, the variance is infinite, not NaN.
    return count, mean, lost / count, squares - (lost * (lost / count) if squares < math.inf else 0.0)


def variance(n, mean, rest, squares, count, correction):
    """Return (squares / (count - correction),), with a divisor of at least 0; the result is NaN for no elements."""
    left = count - correction
    return (squares / (left if left > 0.0 else 0.0),)


def rough_moments(x, correction):
    """Return the `moments` of 16-bit floats, which have fewer digits than a float32 mean: (1, x, 0)."""
    return 1.0, x, 0.0


def merged_rough_moments(n, mean, squares, m, other, others):
    """Return `merged_moments` without the rounding error."""
    count = n + m
    weight = shared_out(m, count if count > 0.0 else 1.0)
    apart = other - mean
    return count, mean + apart * weight, squares + others + apart * (n * weight) * apart


def square_distance(x, mean, n, middle, none):
    """Return ((x - mean)²,)."""
    return ((x - mean) * (x - mean),)


def rough_moments_of_some(mean, squares, count):
    """Return the `rough_moments` of several elements."""
    return count, mean, squares


def rough_variance(n, mean, squares, count, correction):
    """Return the `variance` from moments without the rounding error."""
    return variance(n, mean, 0.0, squares, count, correction)


def deviation(n, mean, rest, squares, count, correction):
    """Return the square root of `variance`."""
    return (math.sqrt(variance(n, mean, rest, squares, count, correction)[0]),)


def rough_deviation(n, mean, squares, count, correction):
    """Return the square root of `rough_variance`."""
    return (math.sqrt(rough_variance(n, mean, squares, count, correction)[0]),)


def moments_of_both(z, correction):
    """Return a complex element's `moments`: a count, each part's mean and rounding error, the sum of all squares."""
    return 1.0, z.real, 0.0, z.imag, 0.0, 0.0


def merged_moments_of_both(n, x, x_rest, y, y_rest, squares, m, u, u_rest, v, v_rest, others):
    """Return the `merged_moments` of the real and of the imaginary parts."""
    count, real, real_rest, one = merged_moments(n, x, x_rest, squares, m, u, u_rest, others)
    count, imaginary, imaginary_rest, both = merged_moments(n, y, y_rest, one, m, v, v_rest, 0.0)
    return count, real, real_rest, imaginary, imaginary_rest, both


def variance_of_both(n, x, x_rest, y, y_rest, squares, count, correction):
    """Return the `variance` of complex elements."""
    return variance(n, x, x_rest, squares, count, correction)


def deviation_of_both(n, x, x_rest, y, y_rest, squares, count, correction):
    """Return the `deviation` of complex elements."""
    return deviation(n, x, x_rest, squares, count, correction)


def mean_and_deviation(n, mean, rest, squares, count, correction):
    """Return (mean, `deviation`)."""
    return mean + rest, deviation(n, mean, rest, squares, count, correction)[0]


def rough_mean_and_deviation(n, mean, squares, count, correction):
    """Return (mean, `rough_deviation`)."""
    return mean, rough_deviation(n, mean, squares, count, correction)[0]


def once(x):
    """Return (x, 1): a number, and how many elements are equal to it."""
    return x, 1.0


def magnitude_once(x):
    """Return (|x|, 1)."""
    return abs(x), 1.0


def larger_and_ties(a, n, b, m):
    """Return the larger of two numbers, or NaN if one is NaN, and how many are equal to it; all NaN count as equal."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b > a) | ((b != b) & (a == a))
    return (b if is_better else a), (n + m if is_equal else (m if is_better else n))


def smaller_and_ties(a, n, b, m):
    """Return the smaller of two numbers, or NaN if one is NaN, and how many are equal to it."""
    is_equal = (a == b) | ((a != a) & (b != b))
    is_better = (b < a) | ((b != b) & (a == a))
    return (b if is_better else a), (n + m if is_equal else (m if is_better else n))


def known(best, count):
    """Return (best,)."""
    return (best,)


def is_best(x, best, nothing, none):
    """Return (1,) if x is equal to the best of several elements, else (0,)."""
    return (1.0 if x == best or x != x else 0.0,)


def is_best_magnitude(x, best, nothing, none):
    """Return `is_best` of |x|."""
    return is_best(abs(x), best, nothing, none)


def both_parts(best, ties, count):
    """Return (best, ties)."""
    return best, ties


def magnitude(x):
    """Return (|x|,)."""
    return (abs(x),)


def add_two(a, b, c, d):
    """Return (a + c, b + d)."""
    return a + c, b + d


def is_something(x):
    """Return (1,) if x is not 0, else (0,)."""
    return (0.0 if x == 0.0 else 1.0,)


def magnitude_to(x, order):
    """Return (|x|^order,)."""
    return (math.pow(abs(x), order),)


def root_of(total, count, order):
    """Return (total^(1/order),)."""
    return (math.pow(total, 1.0 / order),)


def square(x):
    """Return (x²,)."""
    return (x * x,)


def square_magnitude(z):
    """Return (|z|²,)."""
    return (z.real * z.real + z.imag * z.imag,)


def root(total, count):
    """Return (√total,)."""
    return (math.sqrt(total),)


#: For complex elements: the start values of moments, and their dtypes.
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
    # Norms; those with "_complex" take complex elements and have real results.
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
    """Return a function that merges several partial results, each with `merge`.

    It is generated as source text, as its number of parameters is not known in advance.
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
    """Return a reduction by name, for unpickling."""
    return REDUCTIONS[name]


# ---------------------------------------------------------------- gradients, given dy, an element, and totals


def of_sum(dy, x):
    return (dy,)


def of_mean(dy, x, count):
    return (dy / count,)


def of_var(dy, x, mean, divisor):
    return (dy * ((x - mean) * 2.0 / divisor),)


def of_std(dy, x, mean, std, divisor):
    """Return the gradient of std, which is 0 where all elements are equal: there the slope of std is undefined."""
    return (0.0 if std == 0.0 else dy * ((x - mean) / (divisor * std)),)


def of_extreme(dy, x, extreme, ties):
    """Return the gradient of max and min, shared by all elements equal to the extreme (or by all NaN)."""
    return (dy / ties if x == extreme or (x != x and extreme != extreme) else 0.0,)


def of_prod(dy, x, product, zeros):
    """Return dy times the product of all other elements, given the nonzero elements' product and the count of zeros."""
    if zeros == 0.0:
        return (dy * (product / x),)
    return (dy * product if zeros == 1.0 and x == 0.0 else 0.0,)


def of_norm_1(dy, x):
    return (dy if x > 0.0 else -dy if x < 0.0 else dy * x,)


def of_norm_2(dy, x, norm):
    """Return the gradient of the 2-norm, which is 0 at the origin."""
    return (0.0 if norm == 0.0 else dy * (x / norm),)


def of_norm_0(dy, x):
    return (0.0,)


def of_norm_p(dy, x, norm, order):
    """Return the gradient of the p-norm, which is 0 for x = 0: there the slope is undefined or infinite."""
    if x == 0.0 or norm == 0.0:
        return (0.0,)
    slope = dy * math.pow(abs(x) / norm, order - 1.0)
    return (-slope if x < 0.0 else slope,)


def of_norm_inf(dy, x, norm, ties):
    """Return the gradient of the largest or smallest |x|, shared by all elements of that magnitude."""
    if abs(x) == norm or (x != x and norm != norm):
        return ((dy if x > 0.0 else -dy if x < 0.0 else dy * x) / ties,)
    return (0.0,)


def of_logsumexp(dy, x, base, total):
    """Return the gradient of logsumexp; `total` is log Σ e^(x - base)."""
    return (dy * math.exp(x - base - total),)


def factor(x):
    """Return (x, 0), or (1, 1) if x is 0: a factor of the product of nonzero elements, and a count of zeros."""
    return (1.0, 1.0) if x == 0.0 else (x, 0.0)


def factors(product, zeros, other, more):
    return product * other, zeros + more


# ---------------------------------------------------------------- the public functions


class Slope(NamedTuple):
    """The gradient of a reduction with respect to its argument.

    Attributes:
        function: (dy, x, more) -> a tuple with the gradient, all scalars. Other parameters, by name: `count`, the
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
        name: the public function's name.
        says: the first line of the docstring.
        example: the arguments of an example, and the output.
        formula: the reduction.
        numpy: rows of a NumPy array -> the results, along the last axis; None if `reference.reductions` defines it.
        rule: how the result's dtype follows from that of x. "keep": the same. "total": the same, but int64 or uint64
            for integers. "mean": the same, but float64 for integers. "bool": bool. With "total" and "mean" the function
            has an option dtype.
        slope: the gradient; None if it does not exist, or if `elementwise.reduction_gradients` defines it.
        more: a paragraph for the docstring.
        takes_complex: whether x may be complex.
        needs_elements: whether an empty axis raises an error.
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
