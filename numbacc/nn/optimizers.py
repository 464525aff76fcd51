"""Optimizers on flat buffers: one kernel updates all parameters of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import elementwise
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..elementwise.optimizers import AdamWState, check_state
from .modules import Module


class AdamW(AdamWState):
    """AdamW on the flat buffers of a model (Loshchilov and Hutter 2017, arXiv:1711.05101); see `adamw_step`.

    Parameters with 16 bits have a float32 copy here, which is updated and then rounded. Weight decay applies to
    parameters whose `decay` is true. Everything that changes from step to step is an array, so a step can be captured
    in a CUDA graph. On several GPUs, `numbacc.distributed.ParallelAdamW` does the same.

    Args:
        model: a module, after `initialize`.
        rate: the learning rate. Assign to `rate` to change it, also between launches of a graph.
        beta1, beta2, eps, weight_decay: as in `elementwise.adamw_step`.
        max_norm: gradients are scaled so that their norm is at most this; None for no limit.

    Attributes:
        master, m, v: the float32 parameters and the moments, arrays of rank 1.
        count: the number of steps, an array with one integer.
        norm: the norm of the last gradients, an array of rank 0; None without max_norm.

    Example:
        >>> model = nn.Linear(2, 1).initialize()
        >>> optimizer = nn.AdamW(model, rate=0.1)
        >>> optimizer.step()
        >>> int(optimizer.count[0])
        1
    """

    def __init__(
        self,
        model: Module,
        rate: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.95,
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        max_norm: float | None = None,
    ):
        self.buffers = model.buffers
        values = self.buffers.values
        super().__init__(values, values.shape[0], rate, beta1, beta2, eps, weight_decay, max_norm)
        self.master = values if values.dtype == self._wide else elementwise.astype(values, self._wide)
        if self.master is not values:
            self.buffers.master = self.master

    def step(self, factor: Any = None) -> None:
        """Update the parameters with their gradients.

        Args:
            factor: multiplies the gradients: a number, or an array of one float32 on their device; 1 if None.
        """
        elementwise.add(self.count, 1, out=self.count)
        if factor is not None and not hasattr(factor, "shape"):
            # All that changes from step to step is an array.
            factor = creation.full(1, factor, "float32", device=operands.device_of(self.count))
        buffers, master = self.buffers, self.master
        if self.max_norm is not None:
            self.norm, factor = elementwise.clip_grad_norm(buffers.gradients, self.max_norm, factor=factor, write=False)
        decays, halves = [self.weight_decay, 0.0], (slice(None, buffers.decayed), slice(buffers.decayed, None))
        p, g, m, v = ([each[half] for half in halves] for each in (master, buffers.gradients, self.m, self.v))
        copies = None if master.dtype == buffers.values.dtype else [buffers.values[half] for half in halves]
        elementwise.adamw_step(
            p, g, m, v, self.count, rate=self._rate, weight_decay=decays, factor=factor, copy=copies, **self.options
        )

    def state_dict(self) -> dict[str, Array]:
        """Return the arrays of the optimizer by name: master, m, v, count, rate; and dropout's position."""
        own = {"master": self.master, "m": self.m, "v": self.v, "count": self.count, "rate": self._rate}
        return {**own, "position": self.buffers.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy arrays that `state_dict` returned, and write the parameters.

        Raises:
            OptionError: names are missing. ShapeError: the state is that of another model.
        """
        own = self.state_dict()
        check_state(state, {name: tuple(array.shape) for name, array in own.items()})
        for name, array in own.items():
            elementwise.copy(creation.asarray(state[name], device=operands.device_of(array)), out=array)
        elementwise.copy(self.master, out=self.buffers.values)
