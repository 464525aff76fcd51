"""AdamW of all ranks on flat arrays: gradients are averaged, and the state is replicated or sharded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import elementwise
from ..arrays import creation, operands
from ..base import checks
from ..elementwise.optimizers import AdamWState, check_state
from .communicator import Communicator
from .data_parallel import BUCKET_BYTES, BucketPart, DataParallel


class ParallelAdamW(AdamWState):
    """AdamW for data-parallel training; see `elementwise.adamw_step`.

    It averages the gradients of all ranks by `DataParallel`, and updates each bucket as soon as its gradients are
    averaged. `for_model` makes it for a model of `numbacc.nn`. Parameters of 16 bits have a float32 copy. A step can be
    captured in a CUDA graph, since everything that changes from step to step is an array.

    Args:
        communicator: the ranks.
        gradients, parameters: contiguous arrays of rank 1 and one length: all gradients, and all parameters. The
            parameters must be the same on all ranks.
        rate: the learning rate. Assign to `rate` to change it, also between launches of a graph.
        beta1, beta2, eps, weight_decay: as in `elementwise.adamw_step`.
        decayed: the number of elements at the start that have weight decay; all if None.
        max_norm: gradients are scaled so that the norm of their mean over the ranks is at most this; None for no limit.
        shard: True keeps on each rank only its share of the state. The memory of moments and float32 parameters, and
            the work of the update, are then divided by the number of ranks.
        overlap, bucket_bytes: as of `DataParallel`.

    Attributes:
        parallel: the `DataParallel`. Its method `ready` is also here.
        master, m, v: this rank's float32 parameters and moments, of `parallel.state_size` elements. `master` is None if
            the parameters themselves have this dtype.
        count: the number of steps, an array with one integer.
        norm: the norm of the last gradients, an array of rank 0; None without max_norm.

    Raises:
        OptionError: decayed or bucket_bytes is out of range. `DataParallel` raises the other errors.

    Example:
        >>> gradients, parameters = np.ones(256, "float32"), np.zeros(256, "float32")
        >>> optimizer = numbacc.distributed.ParallelAdamW(numbacc.distributed.init(), gradients, parameters, rate=0.1)
        >>> optimizer.step()  # after the backward pass, which calls optimizer.ready
        >>> parameters[:2].round(3)
        array([-0.1, -0.1], dtype=float32)
    """

    def __init__(
        self,
        communicator: Communicator,
        gradients: Any,
        parameters: Any,
        rate: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.95,
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        decayed: int | None = None,
        max_norm: float | None = None,
        shard: bool = True,
        overlap: str = "backward",
        bucket_bytes: int = BUCKET_BYTES,
    ):
        self._team, self.gradients, self.parameters = communicator, gradients, parameters
        size = int(gradients.shape[0]) if gradients.shape else 0
        self.decayed = size if decayed is None else checks.integer(decayed, "decayed", 0, size)
        self.parallel = DataParallel(
            communicator,
            gradients,
            parameters,
            shard=shard,
            boundaries=[self.decayed],
            overlap=overlap,
            bucket_bytes=bucket_bytes,
        )
        self.ready = self.parallel.ready
        #: The position of dropout's random numbers, if the optimizer is that of a model.
        self._position: Any = None
        super().__init__(parameters, self.parallel.state_size, rate, beta1, beta2, eps, weight_decay, max_norm)
        self.master = None
        if parameters.dtype != self._wide:
            self.master = elementwise.astype(self.parallel.share(parameters), self._wide)

    @classmethod
    def for_model(
        cls,
        communicator: Communicator,
        model: Any,
        rate: float = 1e-3,
        *,
        shard: bool = True,
        registered: bool = True,
        **options: Any,
    ) -> ParallelAdamW:
        """Make the optimizer of a model of `numbacc.nn`, as `nn.AdamW` does for one process.

        From then on, dropout drops other elements on each rank.

        Args:
            communicator: the ranks.
            model: a module of `numbacc.nn` after `initialize`, with the same seed on all ranks.
            rate: the learning rate.
            shard: as of `ParallelAdamW`.
            registered: whether parameters and gradients move to memory of `Communicator.registered_empty`, if there is
                such memory and `shard` is true. Steps are then faster; the gradients need twice the memory. Views of
                the model's arrays that were made before are no longer used.
            options: the other options of `ParallelAdamW` but `decayed`.

        Returns:
            ParallelAdamW.

        Example:
            >>> model = nn.Linear(2, 1).initialize()
            >>> optimizer = numbacc.distributed.ParallelAdamW.for_model(numbacc.distributed.init(), model, rate=0.1)
            >>> optimizer.step()  # after tape.backward(loss, ready=optimizer.ready)
            >>> int(optimizer.count[0])
            1
        """
        buffers = model.buffers
        buffers.rank = communicator.rank
        if checks.boolean(registered, "registered") and shard and communicator._can_register:
            values, gradients = buffers.values, buffers.gradients
            buffers.move(*(communicator.registered_empty(each.shape, each.dtype) for each in (values, gradients)))
        made = cls(
            communicator, buffers.gradients, buffers.values, rate, decayed=buffers.decayed, shard=shard, **options
        )
        made._position = buffers.position
        return made

    def step(self) -> None:
        """Average the gradients that are not averaged yet, and update the parameters.

        Raises:
            RankError: another rank has ended.
        """
        elementwise.add(self.count, 1, out=self.count)
        factor = None if self.max_norm is None else self._clip(self.max_norm)
        for part in self.parallel.reduced():
            self._update(part, factor)

    def _update(self, part: BucketPart, factor: Any) -> None:
        own = self.parameters[part.whole]
        elementwise.adamw_step(
            own if self.master is None else self.master[part.local],
            self.gradients[part.whole],
            self.m[part.local],
            self.v[part.local],
            self.count,
            rate=self._rate,
            weight_decay=self.weight_decay if part.whole.stop <= self.decayed else 0.0,
            factor=factor,
            copy=None if self.master is None else own,
            **self.options,
        )

    def _clip(self, max_norm: float) -> Any:
        """Return the number that gradients are multiplied with, an array of rank 0 with the same value on all ranks."""
        self.parallel.reduce()
        if not self.parallel.is_sharded:
            self.norm, factor = elementwise.clip_grad_norm(self.gradients, max_norm, write=False)
            return factor
        shares = [self.gradients[each.whole] for each in self.parallel.counted()]
        norm, _ = elementwise.clip_grad_norm(shares, None, write=False)
        self.norm = elementwise.sqrt(self._team.all_reduce(elementwise.square(norm)))
        return elementwise.minimum(elementwise.divide(max_norm, elementwise.add(self.norm, 1e-6)), 1.0)

    # ------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return whole arrays by name: master, m, v, count and rate; of a model dropout's position, too, as `nn.AdamW`.

        All ranks call this together. The arrays do not depend on the number of ranks, so a checkpoint may be loaded by
        another number of them.
        """
        whole = self.parallel.unshare
        master = elementwise.copy(self.parameters) if self.master is None else whole(self.master)
        found = {"master": master, "m": whole(self.m), "v": whole(self.v), "count": self.count, "rate": self._rate}
        return found if self._position is None else {**found, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy whole arrays that `state_dict` returned, and write the parameters.

        Raises:
            OptionError: names are missing. ShapeError: the state is that of another model.
        """
        length, device = tuple(self.gradients.shape), operands.device_of(self.parameters)
        single = {"count": self.count, "rate": self._rate}
        if self._position is not None:
            single["position"] = self._position
        shapes = dict.fromkeys(("master", "m", "v"), length) | dict.fromkeys(single, (1,))
        check_state(state, shapes)
        given = {name: creation.asarray(state[name], device=device) for name in shapes}
        for name in ("m", "v"):
            elementwise.copy(self.parallel.share(given[name]), out=getattr(self, name))
        if self.master is not None:
            elementwise.copy(self.parallel.share(given["master"]), out=self.master)
        elementwise.copy(given["master"], out=self.parameters)
        for name, array in single.items():
            elementwise.copy(given[name], out=array)
