"""A valid call of each kind of function of `elementwise`, for `calls`."""

from __future__ import annotations

import numpy as np
from reduction_oracle import ORACLES

from numbacc import elementwise as ew

#: Function -> its arrays.
FUNCTIONS = {
    **dict.fromkeys(("exp", "gelu", "leaky_relu", "astype"), ("x",)),
    **dict.fromkeys(("add", "multiply", "pow", "less", "where"), ("x1", "x2")),
    "clamp": ("x", "min", "max"),
    "lerp": ("x1", "x2", "weight"),
}
REDUCTIONS = (*ORACLES, "mean", "prod", "max", "argmax", "any", "var", "norm", "logsumexp")
REAL = ("float32", "float64", "float16", "bfloat16")


def named(call, case, name):
    """The call is of this function, or of its plan's."""
    function = getattr(ew, name)
    call.of_plan_or(f"elementwise.{name}", function, 0.15 if hasattr(function, "plan") else 0.0)


def masked(call, shape, dtype):
    """`out`, and `where` beside it."""
    call.maybe_out(shape, dtype)
    if "out" in call.arguments and call.case.chance(0.4):
        call.operands.append(call.place.operand(np.ones(shape, bool)))
        call.add("where", "mask", call.operands[-1].view)


def saving(call):
    """Let it be a call of a function that can return a saved object, whose plan cannot."""
    if not call.is_plan:
        call.add("return_saved", "flag", False)


def integers(call, name, shape, most, kind="indices", dtype="int64"):
    operand = call.place.operand(call.case.rng.integers(0, most, shape).astype(dtype))
    call.operands.append(operand)
    call.add(name, kind, operand.view, True, True)


def a_function(call, case):
    name, dtype = case.pick(FUNCTIONS), case.pick(REAL)
    named(call, case, name)
    if name == "where":
        call.operands.append(call.place.operand(np.ones((3, 4), bool)))
        call.add("condition", "operand", call.operands[-1].view, True)
    for each in FUNCTIONS[name]:
        is_bound = each in ("min", "max")
        kind = "alone" if len(FUNCTIONS[name]) == 1 else "operand or None" if is_bound else "operand"
        call.array(each, (3, 4), dtype, kind, not is_bound, fixed=False)
    if name == "leaky_relu":
        call.add("negative_slope", "scalar", 0.1)
        saving(call)
    if name == "astype":
        call.add("dtype", "dtype", "float32", True)
        dtype = "float32"
    masked(call, (3, 4), "bool" if name == "less" else dtype)


def a_gradient(call, case):
    name, dtype = case.pick(["exp", "multiply", "gelu"]), case.pick(REAL)
    named(call, case, f"{name}_backward")
    call.array("dy", (3, 4), dtype)
    if name == "multiply":
        call.array("x1", (3, 4), dtype, "operand", fixed=False)
        call.array("x2", (3, 4), dtype, "operand", fixed=False)
    else:
        call.array("x", (3, 4), dtype, "alone")
        call.maybe_out((3, 4), dtype)


def a_reduction(call, case):
    name, dtype = case.pick(REDUCTIONS), case.pick(REAL)
    named(call, case, name)
    call.array("x", (3, 4), dtype, "array of any rank", fixed=False)
    axis = case.pick([None, 0])
    call.add("axis", "axes", axis)
    call.add("keepdims", "flag", False)
    if name in ("sum", "mean", "prod"):
        call.add("dtype", "dtype", None)
    if name == "norm":
        call.add("ord", "order", 2)
        saving(call)
    result = {"argmax": "int64", "any": "bool"}.get(name, dtype)
    call.maybe_out(() if axis is None else (4,), result) if axis == 0 else None


def a_scan(call, case):
    name, dtype = case.pick(["cumsum", "cumprod"]), case.pick(REAL)
    named(call, case, name)
    call.array("x", (3, 4), dtype, fixed=False)
    call.add("axis", "axis or None", 1)
    call.add("dtype", "dtype", None)
    call.add("reverse", "flag", False)
    saving(call)
    call.maybe_out((3, 4), dtype)


def a_row(call, case):
    name, dtype = case.pick(["softmax", "log_softmax", "rms_norm", "layer_norm"]), case.pick(REAL)
    back = case.chance(0.4)
    named(call, case, f"{name}_backward" if back else name)
    if back:
        call.array("dy", (3, 4), dtype)
    call.array("y" if back and "softmax" in name else "x", (3, 4), dtype, fixed=back)
    if "softmax" in name:
        call.add("axis", "axis", -1)
    else:
        call.array("weight", (4,), dtype, "array or None", False)
        call.add("eps", "positive", 1e-3)
        if name == "layer_norm" and not back:
            call.array("bias", (4,), dtype, "array or None", False)
        elif name == "layer_norm":
            call.add("bias", "flag", False)
    if not back:
        saving(call)
        call.maybe_out((3, 4), dtype)


def a_loss(call, case):
    dtype, back = case.pick(REAL), case.chance(0.4)
    named(call, case, "cross_entropy_backward" if back else "cross_entropy")
    if back:
        call.array("dy", (), "float32", "operand")
    call.array("x", (3, 4), dtype, fixed=False)
    integers(call, "target", (3,), 4)
    call.add("axis", "axis", -1)
    call.add("reduction", "option", "mean")
    call.add("ignore_index", "integer", -100)
    call.add("label_smoothing", "probability", 0.1)
    if back:
        call.maybe_out((3, 4), dtype)
    else:
        call.add("return_stats", "flag", False)


def a_gather(call, case):
    along = case.chance(0.4)
    named(call, case, "take_along_axis" if along else "take")
    call.array("x", (3, 4), "float32", fixed=False)
    integers(call, "indices", (3, 2) if along else (2,), 3)
    call.add("axis", "axis" if along else "axis or None", 1)
    if along:
        saving(call)
    call.maybe_out((3, 2), "float32")


def a_gather_back(call, case):
    along = case.chance(0.4)
    named(call, case, "take_along_axis_backward" if along else "take_backward")
    dtype = case.pick(REAL)
    call.array("dy", (3, 2), dtype, fixed=False)
    call.array("x", (3, 4), dtype, fixed=False)
    integers(call, "indices", (3, 2) if along else (2,), 3)
    call.add("axis", "axis" if along else "axis or None", 1)
    call.maybe_out((3, 4), dtype)


def a_place(call, case):
    name = case.pick(["one_hot", "tril", "triu"])
    named(call, case, name)
    if name == "one_hot":
        integers(call, "indices", (3, 2), 4)
        call.add("num_classes", "count or 0", 4, True)
        call.add("axis", "axis", -1)
        call.add("dtype", "dtype", "float32")
        call.maybe_out((3, 2, 4), "float32")
    else:
        call.array("x", (3, 4), "float32", fixed=False)
        call.add("k", "integer", 0)
        call.maybe_out((3, 4), "float32")


def a_rotation(call, case):
    dtype = case.pick(REAL)
    named(call, case, "rope")
    call.array("x", (3, 4), dtype, fixed=False)
    call.array("cos", (3, 2), "float32", "array of any rank")
    call.array("sin", (3, 2), "float32", "array of any rank")
    call.add("interleaved", "flag", False)
    call.maybe_out((3, 4), dtype)


def a_dropping(call, case):
    dtype = case.pick(REAL)
    named(call, case, "dropout")
    call.array("x", (3, 4), dtype, "array of any rank", fixed=False)
    call.add("p", "probability", 0.5)
    call.add("seed", "seed", 3, True)
    call.add("offset", "offset", 8)
    call.maybe_out((3, 4), dtype)


def a_step(call, case):
    """Of lists: what is written when nothing is wrong is not looked at."""
    named(call, case, "adamw_step")
    for name in ("p", "g", "m", "v"):
        arrays = [call.place.operand(np.ones(s, np.float32)) for s in ((3, 4), (5,))]
        call.operands += arrays
        call.add(name, "arrays", [a.view for a in arrays], True)
    call.add("step", "step", 1, True)
    call.add("rate", "positive", 1e-3)
    for name in ("beta1", "beta2"):
        call.add(name, "probability", 0.9)
    call.add("eps", "positive", 1e-8)
    call.add("weight_decay", "positive", 0.0)


def a_joining(call, case):
    name = case.pick(["concatenate", "stack"])
    named(call, case, name)
    arrays = [call.place.operand(np.ones((3, 4), np.float32)) for _ in range(2)]
    call.operands += arrays
    call.add("arrays", "arrays", [a.view for a in arrays], True)
    call.add("axis", "axis or None" if name == "concatenate" else "axis", 0)
    call.maybe_out((6, 4) if name == "concatenate" else (2, 3, 4), "float32")


def a_range(call, case):
    name = case.pick(["arange", "linspace", "eye"])
    named(call, case, name)
    if name == "eye":
        call.add("n_rows", "count or 0", 3, True)
        call.add("k", "integer", 0)
    else:
        call.add("start", "finite", 0, True)
        call.add("stop", "finite or None" if name == "arange" else "finite", 8, name == "linspace")
        if name == "arange":
            call.add("step", "stride", 2)
        else:
            call.add("num", "count or 0", 5)
            call.add("endpoint", "flag", True)
    call.add("dtype", "dtype", "float32")
    call.add("device", "device", call.device())


BUILDERS = (
    a_function, a_function, a_gradient, a_reduction, a_reduction, a_scan, a_row, a_row, a_loss, a_gather,
    a_gather_back, a_place, a_rotation, a_dropping, a_step, a_joining, a_range,
)  # fmt: skip
