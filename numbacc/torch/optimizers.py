"""Steps of AdamW and Muon, and the norm of gradients, for torch tensors; and an optimizer that is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import elementwise, nn
from ..errors import OptionError
from .tensor_memory import numpy_dtype, taken

__all__ = ["AdamW", "adamw_step", "clip_grad_norm", "muon_step"]

#: The state of a parameter that is kept in the dtype it was made in.
_KEPT = ("master", "exp_avg", "exp_avg_sq")


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
    weight_decay: Any = 0.01,
    factor: Any = None,
    copy: Any = None,
) -> None:
    """Make a step of AdamW in place, for one tensor or for lists of tensors: see `numbacc.elementwise.adamw_step`.

    Args:
        p: the parameter, or a list of parameters; float32, if `copy` has the 16-bit weights of the model.
        g: the gradients.
        m, v: the moments.
        step: counted from 1: an integer, or a tensor with one element on the GPU.
        rate: a number; or, if step is a tensor, a tensor with one element.
        beta1, beta2, eps: numbers.
        weight_decay: a number; for lists also a list with one number for each parameter.
        factor: a number, or a tensor with one element that the gradients are multiplied by. NaN changes nothing.
        copy: tensors that receive the new p, in their own dtype.
    """
    options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    singles = {"step": step, "rate": rate, "factor": factor}
    _run(elementwise.adamw_step, (p, g, m, v), singles, copy, options)


def muon_step(
    p: Any,
    g: Any,
    m: Any,
    *,
    rate: float = 1e-3,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    iterations: int = 5,
    dtype: torch.dtype | str = "bfloat16",
    factor: Any = None,
    copy: Any = None,
) -> None:
    """Make a step of Muon in place, for one matrix or for lists of matrices: see `numbacc.nn.muon_step`.

    Args:
        p: the parameter, or a list of parameters; float32, if `copy` has the 16-bit weights of the model.
        g: the gradients.
        m: the momentum.
        rate, momentum, weight_decay: numbers.
        nesterov: whether the momentum is Nesterov's.
        iterations: how often the iteration that makes a matrix orthogonal is repeated.
        dtype: the dtype of the iteration: bfloat16, float16 or float32, as torch's dtype or as a name.
        factor: a number, or a tensor with one element that the gradients are multiplied by. NaN changes nothing.
        copy: tensors that receive the new p, in their own dtype.
    """
    options = {
        "rate": rate, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay,
        "iterations": iterations, "dtype": numpy_dtype(dtype).name if isinstance(dtype, torch.dtype) else dtype,
    }  # fmt: skip
    _run(nn.muon_step, (p, g, m), {"factor": factor}, copy, options)


def _run(
    function: Callable[..., Any], lists: Sequence[Any], singles: dict[str, Any], copy: Any, options: dict[str, Any]
) -> None:
    """Run a step on tensors.

    Args:
        function: the step of numbacc's.
        lists: p, g and the state: tensors, or lists of tensors. All but g are written.
        singles: options that may be tensors with one element.
        copy: as in the steps.
        options: the other options.
    """
    given = [*lists, *([] if copy is None else [copy])]
    is_list = isinstance(lists[0], (list, tuple))
    tensors = [one for each in given for one in (each if is_list else [each])]
    if not tensors:
        return
    here = {name: each for name, each in singles.items() if isinstance(each, Tensor)}
    arrays, stream = taken([*tensors, *here.values()], function.__name__)
    ours = iter(arrays)
    own = [[next(ours) for _ in each] if is_list else next(ours) for each in given]
    options |= singles | {name: next(ours) for name in here}
    if copy is not None:
        options["copy"] = own.pop()
    function(*own, stream=stream, **options)
    # torch reports an error if autograd still needs old values.
    written = [one for k, each in enumerate(given) if k != 1 for one in (each if is_list else [each])]
    torch.autograd.graph.increment_version(written)


def clip_grad_norm(g: Any, max_norm: float | None, *, factor: Any = None, write: bool = True) -> tuple[Tensor, Tensor]:
    """Return the norm of all gradients together, and the factor that limits it to `max_norm`, without synchronization.

    See `numbacc.elementwise.clip_grad_norm`.

    Args:
        g: a tensor, or a list of tensors.
        max_norm: the largest norm that is left as it is; None for any.
        factor: a number, or a tensor with one element, that the gradients stand to be multiplied by.
        write: whether to multiply the gradients by the factor. With False, pass it to `adamw_step`.

    Returns:
        (the norm, the factor): tensors of rank 0 on the gradients' device. The factor is NaN if the norm is not finite.
    """
    tensors = list(g) if isinstance(g, (list, tuple)) else [g]
    if not tensors:
        raise OptionError("g is empty: pass at least one tensor")
    kind = torch.float64 if any(each.dtype is torch.float64 for each in tensors) else torch.float32
    results = tensors[0].new_empty((), dtype=kind), tensors[0].new_empty((), dtype=kind)
    singles = [factor] if isinstance(factor, Tensor) else []
    arrays, stream = taken([*tensors, *results, *singles], "clip_grad_norm")
    own, outs = arrays[: len(tensors)], arrays[len(tensors) : len(tensors) + 2]
    factor = arrays[-1] if singles else factor
    elementwise.clip_grad_norm(own, max_norm, factor=factor, write=write, out=tuple(outs), stream=stream)
    if write:
        torch.autograd.graph.increment_version(tensors)
    return results


class AdamW(torch.optim.Optimizer):
    """AdamW by one kernel for each group and dtype, with the norm of gradients limited on the GPU.

    Parameters of 16 bits have float32 masters and moments in the optimizer's state. The kernel reads the gradients,
    updates the masters and the moments, and writes the parameters. Nothing is copied to the host: a step can be
    captured in a CUDA graph. If `max_norm` is given and the norm of the gradients is not finite, the step changes
    nothing.

    Args:
        params: parameters, or groups of parameters with their own options, as for torch's optimizers.
        lr: the learning rate, a number or a tensor with one element on the parameters' device.
        betas, eps, weight_decay: as in torch's AdamW.
        max_norm: the largest norm of all gradients together; None for any. It is an option of the optimizer, not of a
            group.

    Attributes:
        norm: the norm of the gradients at the last step, a tensor of rank 0; None without `max_norm`.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        max_norm: float | None = None,
    ):
        self.max_norm, self.norm = max_norm, None
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make a step. A closure, if given, computes the loss again, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found = [(group, [p for p in group["params"] if p.grad is not None]) for group in self.param_groups]
        slopes = [p.grad for _, params in found for p in params]
        if not slopes:
            return loss
        factor = None
        if self.max_norm is not None:
            self.norm, factor = clip_grad_norm(slopes, self.max_norm, write=False)
        works = [(group, same) for group, params in found for same in self._alike(params)]
        counts = [self.state[same[0]]["step"] for _, same in works]
        # Several groups may count with one tensor.
        for count in {id(each): each for each in counts}.values():
            count += 1
        for group, same in works:
            self._update(group, same, factor)
        return loss

    def _alike(self, params: Sequence[Tensor]) -> Iterable[list[Tensor]]:
        """Yield lists of parameters of the same dtypes that have made the same number of steps."""
        buckets: dict[Any, list[Tensor]] = {}
        for p in params:
            state, slope = self.state[p], p.grad
            assert slope is not None
            key = p.dtype, slope.dtype, p.device, id(state["step"]) if state else None
            buckets.setdefault(key, []).append(p)
        for key, same in buckets.items():
            if key[-1] is None:
                count = torch.zeros((), dtype=torch.int64, device=same[0].device)
                for p in same:
                    wide = torch.float64 if p.dtype is torch.float64 else torch.float32
                    state = self.state[p]
                    state["step"] = count
                    if p.dtype is not wide:
                        state["master"] = p.detach().to(wide)
                    for name in _KEPT[1:]:
                        state[name] = torch.zeros_like(p, dtype=wide)
            yield same

    def _update(self, group: dict[str, Any], params: list[Tensor], factor: Tensor | None) -> None:
        states = [self.state[p] for p in params]
        count: Tensor = states[0]["step"]
        has_masters = "master" in states[0]
        step: Any = count if count.is_cuda else int(count)
        beta1, beta2 = group["betas"]
        first, second = ([state[name] for state in states] for name in _KEPT[1:])
        adamw_step(
            [state["master"] for state in states] if has_masters else params,
            [p.grad for p in params],
            first,
            second,
            step,
            rate=group["lr"] if count.is_cuda else float(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            factor=factor,
            copy=params if has_masters else None,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state, as torch's optimizers do. Masters and moments keep their dtypes."""
        super().load_state_dict(state_dict)
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        counts: dict[Any, Tensor] = {}
        for number, p in zip(numbers, params, strict=True):
            given = state_dict["state"].get(number)
            if not given:
                continue
            state = self.state[p]
            # torch casts them to the parameter's dtype.
            state |= {name: given[name].to(p.device, copy=True) for name in _KEPT if name in given}
            made = int(given["step"])
            key = made, p.device
            if key not in counts:
                counts[key] = torch.tensor(made, dtype=torch.int64, device=p.device)
            state["step"] = counts[key]
