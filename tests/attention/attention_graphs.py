"""Graphs of fused attention, and plans of them for GPUs that are not there."""

from __future__ import annotations

from requested import requested

from numbacc import attention, cudnn
from numbacc.attention.masks import CausalSlidingWindow, SlidingWindow

DEVICES = ("A100", "H200", "B200")


Q, LONG = (2, 8, 128, 64), (2, 8, 256, 64)


def plan(device, q=Q, k=None, v=None, **options):
    return cudnn.supports(requested(attention, q, q if k is None else k, v, **options), device)


MASKS = {
    "none": None,
    "causal": "causal",
    "bottom right": "causal_bottom_right",
    "window": SlidingWindow(16),
    "causal window": CausalSlidingWindow(16),
    "window bottom right": SlidingWindow(16, bottom_right=True),
    "causal window bottom right": CausalSlidingWindow(16, bottom_right=True),
}


BOTH = ("forward", "backward")


#: Name -> what is asked for, in both directions.
CASES = {f"mask {name}": {"k": LONG, "mask": mask} for name, mask in MASKS.items()}


CASES |= {f"lengths, mask {name}": {"k": LONG, "mask": mask, "lengths": True} for name, mask in MASKS.items()}


CASES |= {
    "float16": {"dtype": "float16"},
    "grouped": {"k": (2, 2, 256, 64)},
    "one head of keys": {"k": (2, 1, 256, 64), "mask": "causal"},
    "odd lengths": {"q": (2, 8, 77, 64), "k": (2, 8, 201, 64), "mask": "causal"},
    "one query": {"q": (2, 8, 1, 64), "k": LONG},
    "one key": {"q": (2, 8, 64, 64), "k": (2, 8, 1, 64)},
    "unequal widths": {"q": (2, 8, 128, 64), "k": (2, 8, 256, 64), "v": (2, 8, 256, 128)},
    "vectors of 20": {"q": (2, 8, 128, 20), "k": (2, 8, 256, 20), "v": (2, 8, 256, 12)},
    "BSHD": {"q": (2, 128, 8, 64), "k": (2, 256, 2, 64), "layout": "BSHD", "mask": "causal"},
    "packed": {"q": (300, 8, 64), "k": (500, 2, 64), "layout": "THD", "batch": 3, "max_len_q": 128, "max_len_kv": 256},
    "packed, causal": {"q": (300, 8, 64), "k": (300, 8, 64), "layout": "THD", "batch": 3, "mask": "causal"},
    "bias": {"k": LONG, "bias_shape": (1, 8, 128, 256)},
    "bias of keys": {"k": LONG, "bias_shape": (2, 1, 1, 256)},
    "bias of odd keys": {"k": (2, 8, 201, 64), "bias_shape": (128, 201)},
    "slopes": {"k": LONG, "alibi": True, "mask": "causal"},
    "dropout": {"k": LONG, "dropout": 0.1},
    "dropout, lengths, causal": {"k": (2, 2, 256, 64), "dropout": 0.1, "lengths": True, "mask": "causal"},
    "bias, repeated": {"k": LONG, "bias_shape": (2, 1, 1, 256)},
    "bias, dropout": {"k": LONG, "dropout": 0.1, "bias_shape": (1, 8, 128, 256), "mask": "causal"},
}


CASES |= {f"vectors of {n}": {"q": (2, 8, 128, n), "k": (2, 8, 256, n)} for n in (8, 16, 32, 40, 64, 80, 96, 128)}
