"""The description of the kernels of attention."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE


class AttentionSpec(NamedTuple):
    """All that decides the code of a kernel of `attention`.

    Attributes:
        algorithm: a kernel of `attention`.
        inputs, outputs: pairs of what an array is to it and the name of its dtype.
        compute: name of the dtype that is computed in.
        scalars: names of the dtypes of the scalar arguments: of dropout's, or none.
    """

    algorithm: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    compute: str
    scalars: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """True: offsets and sizes are 64-bit integers, as matrices of all scores are large."""
        return True

    @property
    def needs_alignment(self) -> bool:
        """False: elements are taken one by one."""
        return False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return tuple(dtype for _, dtype in (*self.inputs, *self.outputs))

    @property
    def access_bytes(self) -> int:
        """Width of the widest access: an element's."""
        return max(TABLE[name].itemsize for name in self.dtypes)

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return (
            "kernels/attention/unfused",
            "kernels/attention/moves",
            "kernels/attention/parts",
            "kernels/attention/spec",
            "kernels/random/philox",
        )

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr(self)
