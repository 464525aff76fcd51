"""The plan of each transform, `<function>_plan`, which takes what the function takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .plans import FftPlan
from .transforms import LAST_TWO, planned


def _named(function: str, plan: Callable[..., FftPlan]) -> Callable[..., FftPlan]:
    plan.__name__ = plan.__qualname__ = f"{function}_plan"
    plan.__doc__ = f"""The plan that `{function}` runs for these arguments, its kernels and cuFFT's plans made.

    Call it as `plan(a, out=None, stream=None)`, also inside `numbacc.graph`: a graph keeps the plans that it uses.
    Arguments and errors are those of `{function}`; pass `out` if the plan is to be called with one. Also a ShapeError
    where an axis is named twice: each pass along it is a plan of its own.

    Example:
        >>> a = np.ones((2, 4))
        >>> plan = fft.{function}_plan(a)
        >>> bool((plan(a) == fft.{function}(a)).all())
        True
    """
    return plan


def _along_one(function: str) -> Callable[..., FftPlan]:
    def plan(
        a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *, overwrite_input: bool = False
    ) -> FftPlan:
        return planned(function, a, n, axis, norm, out, overwrite_input)

    return _named(function, plan)


def _along_many(function: str, default: tuple[int, int] | None) -> Callable[..., FftPlan]:
    def plan(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None, *, overwrite_input: bool = False
    ) -> FftPlan:
        return planned(function, a, s, axes, norm, out, overwrite_input)

    return _named(function, plan)


fft_plan, ifft_plan = _along_one("fft"), _along_one("ifft")
rfft_plan, irfft_plan = _along_one("rfft"), _along_one("irfft")
hfft_plan, ihfft_plan = _along_one("hfft"), _along_one("ihfft")
fft2_plan, ifft2_plan = _along_many("fft2", LAST_TWO), _along_many("ifft2", LAST_TWO)
rfft2_plan, irfft2_plan = _along_many("rfft2", LAST_TWO), _along_many("irfft2", LAST_TWO)
fftn_plan, ifftn_plan = _along_many("fftn", None), _along_many("ifftn", None)
rfftn_plan, irfftn_plan = _along_many("rfftn", None), _along_many("irfftn", None)
