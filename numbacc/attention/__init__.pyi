# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Attention and its gradients, with masks, biases, dropout, grouped heads, packed sequences and paged keys."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    AttentionLayout,
    AttentionMask,
    DTypeLike,
    DeviceArray,
    NumPyArray,
)
from numbacc.attention.plans import AttentionPlan
from numbacc.libraries.cudnn_elsewhere import Support
from numbacc.plan.cache import CacheInfo
from numbacc.plan.saved import Saved

__all__ = [
    "CausalSlidingWindow",
    "Request",
    "SlidingWindow",
    "backward",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "dropout_mask",
    "forward",
    "prepare",
]


from numbacc.attention.masks import CausalSlidingWindow as CausalSlidingWindow
from numbacc.attention.requests import Request as Request
from numbacc.attention.masks import SlidingWindow as SlidingWindow

class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class backward(_Function):
        @overload
        def __call__(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: Literal[False] = False, operand_grads: Literal[False] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: Literal[False] = False, operand_grads: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: Literal[True], operand_grads: Literal[False] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: Literal[True], operand_grads: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: bool = False, operand_grads: bool | Sequence[int] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, ...]: ...
        @overload
        def __call__(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: bool = False, operand_grads: bool | Sequence[int] = False,
            deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, ...]: ...
        @overload
        def plan(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: Literal[False] = False, operand_grads: Literal[False] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: Literal[False] = False, operand_grads: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: Literal[True], operand_grads: Literal[False] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: Literal[True], operand_grads: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, do: NumPyArray, q: NumPyArray | Saved, k: NumPyArray | None = None, v: NumPyArray | None = None,
            o: NumPyArray | None = None, stats: NumPyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            bias_grad: bool = False, operand_grads: bool | Sequence[int] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, do: AnyArray, q: AnyArray | Saved, k: AnyArray | None = None, v: AnyArray | None = None,
            o: AnyArray | None = None, stats: AnyArray | None = None, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: bool = False, operand_grads: bool | Sequence[int] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, ...]]: ...
        def request(
            self, q_shape: Sequence[int], k_shape: Sequence[int], v_shape: Sequence[int] | None = None, *,
            dtype: DTypeLike = 'bfloat16', bias_shape: Sequence[int] | None = None, bias_dtype: DTypeLike | None = None,
            alibi: bool = False, lengths: bool = False, pages: int = 0, batch: int | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None, scale: float | None = None,
            dropout: float = 0.0, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: bool = False, deterministic: bool = False,
            workspace_limit: int | None = None,
        ) -> Request: ...
        def supports(
            self, q_shape: Sequence[int], k_shape: Sequence[int], v_shape: Sequence[int] | None = None, *,
            dtype: DTypeLike = 'bfloat16', bias_shape: Sequence[int] | None = None, bias_dtype: DTypeLike | None = None,
            alibi: bool = False, lengths: bool = False, pages: int = 0, batch: int | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None, scale: float | None = None,
            dropout: float = 0.0, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, bias_grad: bool = False, deterministic: bool = False,
            workspace_limit: int | None = None, device: int | str = 'H200',
        ) -> Support: ...

    class dropout_mask(_Function):
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            deterministic: bool = False, workspace_limit: int | None = None, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            deterministic: bool = False, workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[NumPyArray]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | None = None,
        ) -> AttentionPlan[DeviceArray]: ...

    class forward(_Function):
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[False] = False, descale_q: NumPyArray | None = None,
            descale_k: NumPyArray | None = None, descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None,
            descale_s: NumPyArray | None = None, scale_o: NumPyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[False] = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[False] = False, descale_q: NumPyArray | None = None,
            descale_k: NumPyArray | None = None, descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None,
            descale_s: NumPyArray | None = None, scale_o: NumPyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[True], deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[False] = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[True], deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[False] = False, descale_q: NumPyArray | None = None,
            descale_k: NumPyArray | None = None, descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None,
            descale_s: NumPyArray | None = None, scale_o: NumPyArray | None = None, return_amax: Literal[True],
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[False] = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[True],
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[True], descale_q: NumPyArray | None = None, descale_k: NumPyArray | None = None,
            descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None, descale_s: NumPyArray | None = None,
            scale_o: NumPyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[True], descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[True], descale_q: NumPyArray | None = None, descale_k: NumPyArray | None = None,
            descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None, descale_s: NumPyArray | None = None,
            scale_o: NumPyArray | None = None, return_amax: Literal[False] = False, return_saved: Literal[True],
            deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[True], descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            return_saved: Literal[True], deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[True], descale_q: NumPyArray | None = None, descale_k: NumPyArray | None = None,
            descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None, descale_s: NumPyArray | None = None,
            scale_o: NumPyArray | None = None, return_amax: Literal[True], return_saved: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[True], descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[True],
            return_saved: Literal[False] = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, seed: int = 0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: bool = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: bool = False,
            return_saved: bool = False, deterministic: bool = False, workspace_limit: int | None = None,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[False] = False, descale_q: NumPyArray | None = None,
            descale_k: NumPyArray | None = None, descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None,
            descale_s: NumPyArray | None = None, scale_o: NumPyArray | None = None, return_amax: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[NumPyArray]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[False] = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[DeviceArray]: ...
        @overload
        def plan(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[False] = False, descale_q: NumPyArray | None = None,
            descale_k: NumPyArray | None = None, descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None,
            descale_s: NumPyArray | None = None, scale_o: NumPyArray | None = None, return_amax: Literal[True],
            deterministic: bool = False, workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[False] = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[True],
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[True], descale_q: NumPyArray | None = None, descale_k: NumPyArray | None = None,
            descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None, descale_s: NumPyArray | None = None,
            scale_o: NumPyArray | None = None, return_amax: Literal[False] = False, deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[True], descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[False] = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, q: NumPyArray, k: NumPyArray, v: NumPyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[NumPyArray] | None = None, bias: NumPyArray | None = None,
            alibi: NumPyArray | None = None, scale: float | None = None, dropout: float = 0.0,
            offset: int | NumPyArray = 0, seq_len_q: NumPyArray | None = None, seq_len_kv: NumPyArray | None = None,
            page_table_k: NumPyArray | None = None, page_table_v: NumPyArray | None = None,
            layout: AttentionLayout = 'BHSD', max_len_q: int | None = None, max_len_kv: int | None = None,
            return_stats: Literal[True], descale_q: NumPyArray | None = None, descale_k: NumPyArray | None = None,
            descale_v: NumPyArray | None = None, scale_s: NumPyArray | None = None, descale_s: NumPyArray | None = None,
            scale_o: NumPyArray | None = None, return_amax: Literal[True], deterministic: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> AttentionPlan[tuple[NumPyArray, NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: Literal[True], descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: Literal[True],
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, q: AnyArray, k: AnyArray, v: AnyArray, *, score: Callable[..., Any] | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None,
            operands: Sequence[AnyArray] | None = None, bias: AnyArray | None = None, alibi: AnyArray | None = None,
            scale: float | None = None, dropout: float = 0.0, offset: int | AnyArray = 0,
            seq_len_q: AnyArray | None = None, seq_len_kv: AnyArray | None = None, page_table_k: AnyArray | None = None,
            page_table_v: AnyArray | None = None, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: bool = False, descale_q: AnyArray | None = None,
            descale_k: AnyArray | None = None, descale_v: AnyArray | None = None, scale_s: AnyArray | None = None,
            descale_s: AnyArray | None = None, scale_o: AnyArray | None = None, return_amax: bool = False,
            deterministic: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> AttentionPlan[Any]: ...
        def request(
            self, q_shape: Sequence[int], k_shape: Sequence[int], v_shape: Sequence[int] | None = None, *,
            dtype: DTypeLike = 'bfloat16', bias_shape: Sequence[int] | None = None, bias_dtype: DTypeLike | None = None,
            alibi: bool = False, lengths: bool = False, pages: int = 0, batch: int | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None, scale: float | None = None,
            dropout: float = 0.0, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: bool = False, return_amax: bool = False,
            deterministic: bool = False, workspace_limit: int | None = None,
        ) -> Request: ...
        def supports(
            self, q_shape: Sequence[int], k_shape: Sequence[int], v_shape: Sequence[int] | None = None, *,
            dtype: DTypeLike = 'bfloat16', bias_shape: Sequence[int] | None = None, bias_dtype: DTypeLike | None = None,
            alibi: bool = False, lengths: bool = False, pages: int = 0, batch: int | None = None,
            mask: AttentionMask | SlidingWindow | Callable[..., Any] | None = None, scale: float | None = None,
            dropout: float = 0.0, layout: AttentionLayout = 'BHSD', max_len_q: int | None = None,
            max_len_kv: int | None = None, return_stats: bool = False, return_amax: bool = False,
            deterministic: bool = False, workspace_limit: int | None = None, device: int | str = 'H200',
        ) -> Support: ...
        backward: _Functions.backward

backward: _Functions.backward
"""Compute the gradients with respect to q, k and v, and optionally the bias."""

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

dropout_mask: _Functions.dropout_mask
"""Return which weights dropout keeps in a call of `forward` with these arguments, and in its `backward`."""

forward: _Functions.forward
"""Compute attention for each sequence and head: o = softmax(scale q kᵀ + bias, masked) v."""

def prepare(requests: Request | Iterable[Request], *, device: int | str | None = None, threads: int = 4) -> None: ...
