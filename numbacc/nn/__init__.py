"""Parts of a model's training step that are made of several families: losses of a product, and Muon.

`linear_cross_entropy` is the last layer of a language model and its loss, without the whole array of logits.
`muon_step` is an optimizer for matrices.
"""

from ..base.keywords import explain
from .losses import linear_cross_entropy
from .optimizers import muon_step

__all__ = ["linear_cross_entropy", "muon_step"]

explain(__name__, __all__)
