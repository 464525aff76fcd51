"""The description of the kernels of attention."""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.launch_order import Spec


class _AttentionFields(NamedTuple):
    algorithm: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    compute: str
    scalars: tuple[str, ...] = ()


class AttentionSpec(_AttentionFields, Spec):
    """All that decides the code of a kernel of `attention`.

    Attributes:
        algorithm: a kernel of `attention`.
        inputs, outputs: pairs of what an array is to it and the name of its dtype.
        compute: name of the dtype that is computed in.
        scalars: names of the dtypes of the scalar arguments: of dropout's, or none.
    """

    __slots__ = ()
    module = "kernels/attention/unfused"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return tuple(dtype for _, dtype in (*self.inputs, *self.outputs))
