"""Scalar formulas that are drawn, as text: a Python function of numbers, which kernels and Python itself run."""

from __future__ import annotations

#: Of one number whatever it is, as it is written down. Those that bend or jump are not `smooth`.
ONE = (
    "math.sin({0})", "math.cos({0})", "math.tanh({0})", "math.atan({0})", "math.erf({0})", "math.exp(-abs({0}))",
    "math.exp(min({0}, 3.0))", "math.expm1(-{0} * {0})", "math.log1p(abs({0}))", "math.log(1 + {0} * {0})",
    "math.sqrt(1 + {0} * {0})", "(1 / (2 + {0}**2))", "(-{0})", "abs({0})", "({0})**3", "math.fabs({0})",
    "(abs({0}) + 0.5) ** 0.75", "2 ** math.sin({0})", "math.asinh({0})", "math.sinh(math.cos({0}))",
    "math.sqrt(abs({0}))", "math.log(abs({0}))", "({0} / (1 + abs({0})))",
    "ew.sigmoid({0})", "ew.softplus({0})", "ew.relu({0})", "ew.leaky_relu({0}, negative_slope=0.25)", "ew.silu({0})",
    "ew.clamp({0}, -1.0, 1.5)", "ew.rsqrt(0.5 + {0} * {0})", "ew.hardtanh({0}, max_val=2.0)", "ew.exp2(math.sin({0}))",
    "inner({0}, 2.0)",
)  # fmt: skip
TWO = (
    "({0} + {1})", "({0} - {1})", "{0} * {1}", "({0} / (1 + abs({1})))", "({0} / {1})",
    "min({0}, {1})", "max({0}, {1})",
    "math.hypot({0}, {1})", "math.atan2({0}, 1 + {1} * {1})", "ew.maximum({0}, {1})", "math.copysign({0}, {1})",
    "ew.minimum({0}, {1})", "ew.add({0}, {1})", "ew.multiply({0}, {1})", "inner({0}, {1})", "ew.atan2({0}, {1})",
)  # fmt: skip
#: What is no function of slopes, or a jump.
JUMPS = (
    "math.floor({0})",
    "({0} % 3)",
    "({0} // 2)",
    "ew.round({0})",
    "({0} > {1}) * {1}",
    "ew.sign({0})",
    "ew.ceil({0})",
)
CONDITIONS = (
    "{0} > {1}",
    "{0} <= {1}",
    "{0} < {1} and {1} < 2",
    "{0} > 1 or {1} > 1",
    "not {0} >= {1}",
    "0 < {0} < {1}",
)
#: What is decided by a branch that Python takes, or two: the ways through a formula are not to be too many.
DECIDED = ("min(", "max(", "inner(", "relu(", "clamp(", "hardtanh(", "sign(", "copysign(")
NUMBERS = ("0.5", "2", "3.0", "-1.25", "1", "0.1", "True", "math.pi")


class Drawing:
    """A drawn formula.

    Args:
        case: whose choices these are.
        smooth: without jumps and truth values.
        results, count: how many results and numbers; drawn by default.
        option: whether it may have a parameter with a default.
        truths: whether results may be truth values.

    Attributes:
        smooth: as given.
        source: the text, which defines `formula` and what it calls.
        count: how many numbers it takes, but for `s`, which has the default 0.5.
        has_option: whether it has that.
        truths: of each result, whether it is a truth value.
    """

    def __init__(self, case, smooth=False, results=None, option=True, truths=True, count=None):
        self._case, self.smooth = case, smooth
        self.count, self.has_option = count or case.pick([1, 1, 2, 2, 3]), option and case.chance(0.3)
        self._branches = case.integer(0, 3)  # each of which doubles the ways through it
        self._names = [f"x{k}" for k in range(self.count)] + ["s"] * self.has_option
        parameters = ", ".join([*self._names[: self.count], *(["s=0.5"] * self.has_option)])
        lines = []
        for _ in range(case.integer(0, 3)):
            self._statement(lines)
        number = results or case.pick([1, 1, 1, 2, 3])
        found = [self._result(truths) for _ in range(number)]
        self.truths = [is_truth for _, is_truth in found]
        returned = ", ".join(text for text, _ in found)
        lines.append(f"    return {returned}")
        self.source = f"{self._inner()}\n\ndef formula({parameters}):\n" + "\n".join(lines) + "\n"

    def _inner(self):
        case = self._case
        body = case.pick(["a * math.tanh(b * a)", "a - b", "a if a > b else b * a", "a / (1 + b * b)"])
        return f"def inner(a, b):\n    return {body}\n"

    def _result(self, truths):
        if truths and not self.smooth and self._case.chance(0.1):
            one, other = self._expression(1), self._expression(1)
            return f"{one} > {other}", True
        # A lone constant or truth value would be no float.
        return f"({self._expression(3)}) * 1.0", False

    def _statement(self, lines):
        case, name = self._case, self._case.pick(["a", "b", "c"])
        what = case.pick(["is", "is", "if", "loop", "adds"])
        if what == "if" and self._branches > 0:
            self._branches -= 1
            lines += [
                f"    if {self._condition()}:", f"        {name} = {self._expression(2)}",
                "    else:", f"        {name} = {self._expression(2)}",
            ]  # fmt: skip
        elif what == "loop":
            branches, self._branches = self._branches, 0
            lines.append(f"    {name} = {self._expression(1)}")
            lines.append(f"    for k in range({case.integer(1, 3)}):")
            lines.append(f"        {name} = {self._expression(1)} + {name} / (k + 2)")
            self._branches = branches
        elif what == "adds" and name in self._names:
            lines.append(f"    {name} += {self._expression(2)}")
        else:
            lines.append(f"    {name} = {self._expression(3)}")
        if name not in self._names:
            self._names.append(name)

    def _condition(self):
        return self._case.pick(CONDITIONS).format(self._expression(1), self._expression(1))

    def _expression(self, depth):
        case = self._case
        if depth == 0 or case.chance(0.15):
            return case.pick(self._names) if case.chance(0.85) else case.pick(NUMBERS)
        if self._branches > 0 and case.chance(0.1):
            self._branches -= 1
            yes, no = self._expression(depth - 1), self._expression(depth - 1)
            form = case.pick(["({0} if {2} else {1})", "ew.where({2}, {0}, {1})"])
            return form.format(yes, no, self._condition())
        known = [*(ONE if case.chance(0.5) else TWO), *(() if self.smooth else JUMPS)]
        if self._branches <= 0:
            known = [each for each in known if not any(word in each for word in DECIDED)]
        form = case.pick(known)
        self._branches -= any(word in form for word in DECIDED)
        return form.format(self._expression(depth - 1), self._expression(depth - 1))
