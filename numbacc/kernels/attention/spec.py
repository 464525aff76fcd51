"""The spec of the kernels of attention."""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.launch_order import Spec

#: Adjacent elements of the output that a thread of `join` processes: 16 bytes of 16-bit floats.
JOINED = 8


class _AttentionFields(NamedTuple):
    algorithm: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    compute: str
    scalars: tuple[str, ...] = ()


class AttentionSpec(_AttentionFields, Spec):
    """Everything that determines the code of a kernel of `attention`.

    Attributes:
        algorithm: a kernel of `attention`.
        inputs, outputs: pairs of an array's role in the kernel and the name of its dtype.
        compute: name of the dtype that the kernel computes in.
        scalars: names of the dtypes of dropout's scalar arguments; empty without dropout.
    """

    __slots__ = ()
    module = "kernels/attention/unfused"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return tuple(dtype for _, dtype in (*self.inputs, *self.outputs))
