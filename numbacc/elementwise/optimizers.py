"""A step of AdamW: one kernel for all parameters, their gradients and their two moments."""

from __future__ import annotations

from typing import Any

from ..plan.calls import planned
from ..runtime.streams import handle_of
from . import adamw_plan
from .adamw_plan import ONE, Options, StepPlan, counted
from .calling import plans
from .operation import run

_EXAMPLE = """
>>> p, g = ([np.ones(3), np.ones(2)] for _ in range(2))
>>> m, v = ([np.zeros(3), np.zeros(2)] for _ in range(2))
>>> elementwise.adamw_step.plan(p, g, m, v, 1)(p, g, m, v, 1, rate=0.5)[0][1].round(4)
array([0.495, 0.495])
"""


def _run(given: tuple[Any, ...], t: Any, options: Options, stream: Any) -> tuple[Any, Any, Any]:
    """Make the step, in place."""
    p, _, m, v = given
    if isinstance(p, (list, tuple)):
        adamw_plan.run(given, t, options, stream)
    elif type(t) is int and isinstance(options.rate, float):
        run(ONE, (*given, *options.at(t)), (p, m, v), None, stream)
    else:
        adamw_plan.run(tuple([each] for each in given), t, options, stream, alone=True)
    return p, m, v


def _find(given: tuple[Any, ...], t: Any, options: Options, stream: Any) -> StepPlan:
    """Return the plan of a step."""
    alone = not isinstance(given[0], (list, tuple))
    return adamw_plan.find(tuple([each] for each in given) if alone else given, t, options, alone=alone)


@planned(
    plans,
    "StepPlan",
    "p g m v",
    call="plan(p, g, m, v, step)",
    note="Options may be others at each call.",
    short=False,
    run=_run,
    prepare=_find,
    example=_EXAMPLE,
)
def adamw_step(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    step: Any,
    *,
    rate: Any = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    stream: Any = None,
) -> tuple[Any, Any, Any]:
    """A step of AdamW, in place, of one parameter or of lists of them: all is read and written once, by one kernel.

        m ← m + (1 - β₁)(g - m),  v ← v + (1 - β₂)(g² - v)
        p ← p - η (m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + ε) + λ p)

    Source: Loshchilov and Hutter 2017 (arXiv:1711.05101), with the decay times the rate, as torch has it.

    Args:
        p: the parameter, an array of floats; or a list or tuple of them, of any shapes and one dtype. It is written.
        g: the loss's gradient with respect to it, of its shape; as many where p is a list, of one dtype.
        m, v: the moments, of its shape, 0 at first; they are written. Of a 16-bit parameter they are better float32.
            In lists all are of one dtype, float32 or p's.
        step: t, counted from 1; or an array of one integer or float on the GPU, 1 or more by then, which the kernel
            reads and leaves as it is: so a captured graph makes a new step at each launch, if it adds 1 before. An
            array of NumPy's is read at the call.
        rate, beta1, beta2, eps, weight_decay: η, β₁, β₂, ε, λ. Where step is on the GPU, rate may be, too: an array of
            one float.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        (p, m, v).

    Raises:
        OptionError: a step below 1, a β not in [0, 1), a negative rate, ε or decay. ShapeError, DTypeError: arrays that
        do not fit each other. LayoutError: what is written overlaps another array, also one of another parameter, or is
        read-only. DeviceError: arrays on several devices.

    Of lists, parameters of no element are passed over. Those whose four arrays are gapless, in one memory order, are
    taken together by one launch: 16 bytes at a time where all four start at multiples of 16. Each other one has a
    launch of its own. Where arrays lie is written to a table on the GPU, unless it is as in one of the last calls. The
    results are those of one call for each, to the bit; with `step` on the GPU they differ by rounding.

    Example:
        >>> p, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
        >>> elementwise.adamw_step(p, np.array([0.5]), m, v, 1, rate=0.1)[0].round(4)
        array([0.899])
        >>> g = np.ones(3)
        >>> elementwise.adamw_step([np.ones(3)], [g], [np.zeros(3)], [np.zeros(3)], 1, rate=0.1)[0][0].round(4)
        array([0.899, 0.899, 0.899])
    """
    handle = handle_of(stream)
    t, options = counted(step, handle), Options(rate, beta1, beta2, eps, weight_decay).checked(handle)
    return (p, g, m, v), t, options, stream  # type: ignore[return-value]
