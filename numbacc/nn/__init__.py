"""Parts of a model's training step that are made of several families: losses of a product.

`linear_cross_entropy` is the last layer of a language model and its loss, without the whole array of logits.
"""

from ..base.keywords import explain
from .losses import linear_cross_entropy

__all__ = ["linear_cross_entropy"]

explain(__name__, __all__)
