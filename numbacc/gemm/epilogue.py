"""The operations on a matrix product before it is stored: cuBLASLt's sixteen epilogues."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..errors import unknown


class Epilogue(Enum):
    """Operations on P = alpha A B + beta C before it is stored in `out`. Functions accept the value, too: "gelu_bias".

    | epilogue | out | reads | also returns |
    |---|---|---|---|
    | none | P | | |
    | bias | P + bias | bias | |
    | relu, relu_bias | max(z, 0) with z = P or P + bias | bias | |
    | gelu, gelu_bias | gelu(z) | bias | |
    | relu_aux, relu_aux_bias | max(z, 0) | bias | aux: a bit per element, 0 if z < 0, else 1 |
    | gelu_aux, gelu_aux_bias | gelu(z) | bias | aux: z |
    | drelu, drelu_bgrad | P if aux has a 1, else 0 | aux | bias_grad: the sum of out over its rows |
    | dgelu, dgelu_bgrad | P gelu'(aux) | aux | bias_grad: the sum of out over its rows |
    | bgrada | P | | bias_grad: the sum of A over k, one element per row of A |
    | bgradb | P | | bias_grad: the sum of B over k, one element per column of B |

    The sums of A and B use the matrices as they are stored, without alpha and the scales. The sum of `out` is computed
    before scale_d is applied. In float8 sums saturate as `out` does.

    gelu(z) = z ½(1 + tanh(√(2/π)(z + 0.044715 z³))), the tanh form of Hendrycks and Gimpel 2016 (arXiv:1606.08415),
    as cuBLASLt computes it.

    ReLU's bits, and so its derivative, are 1 for z = 0 and -0, as in cuBLASLt; other libraries use 0 there. They are
    1 for NaN, too, except if cuBLASLt itself writes them with an `out` of 16 or 8 bits: there its algorithms differ,
    and NaN's bit is unspecified.

    Example:
        >>> gemm.Epilogue("gelu_aux_bias").produces_aux
        True
        >>> gemm.matmul(np.eye(2), np.ones((2, 1)), epilogue=gemm.Epilogue.BGRADB).bias_grad
        array([2.])
    """

    NONE = "none"
    RELU = "relu"
    BIAS = "bias"
    RELU_BIAS = "relu_bias"
    RELU_AUX = "relu_aux"
    RELU_AUX_BIAS = "relu_aux_bias"
    GELU = "gelu"
    GELU_AUX = "gelu_aux"
    GELU_BIAS = "gelu_bias"
    GELU_AUX_BIAS = "gelu_aux_bias"
    DRELU = "drelu"
    DRELU_BGRAD = "drelu_bgrad"
    DGELU = "dgelu"
    DGELU_BGRAD = "dgelu_bgrad"
    BGRADA = "bgrada"
    BGRADB = "bgradb"

    @property
    def uses_bias(self) -> bool:
        """Whether it reads `bias`."""
        return self.value.endswith("bias")

    @property
    def uses_aux(self) -> bool:
        """Whether it reads `aux`, which the forward product returned."""
        return self.value.startswith("d")

    @property
    def produces_aux(self) -> bool:
        """Whether it returns `aux`, for the backward product."""
        return "_aux" in self.value

    @property
    def produces_bias_grad(self) -> bool:
        """Whether it returns `bias_grad`."""
        return "bgrad" in self.value

    @property
    def activation(self) -> str | None:
        """The name "relu" or "gelu", for derivatives too; None without an activation."""
        return next((name for name in ("relu", "gelu") if name in self.value), None)

    def with_bias(self) -> str:
        """Return the name of the same epilogue with a bias; "" if cuBLASLt does not have it."""
        name = "bias" if self is Epilogue.NONE else f"{self.value}_bias"
        return name if name in (each.value for each in Epilogue) else ""


def epilogue(given: Any) -> Epilogue:
    """Return the `Epilogue` for an epilogue or its name.

    Raises:
        OptionError: it is unknown.
    """
    # An array of one name would compare equal to the name.
    if isinstance(given, (str, Epilogue)):
        try:
            return Epilogue(given)
        except ValueError:
            pass  # reported below
    names = [member.value for member in Epilogue]
    raise unknown("epilogue", given, names, f"the epilogues are {', '.join(names)}")
