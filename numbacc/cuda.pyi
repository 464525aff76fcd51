# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""The names of numba.cuda for writing kernels, also if numba.cuda is not installed."""

from collections.abc import Callable
from typing import Any, Literal, overload

class Kernel:
    __name__: str
    py_func: Callable[..., Any]

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]: ...
    def __call__(self, *args: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Index:
    x: int
    y: int
    z: int

@overload
def jit(function: Callable[..., Any], /) -> Kernel: ...
@overload
def jit(*signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
@overload
def grid(ndim: Literal[1], /) -> int: ...
@overload
def grid(ndim: Literal[2], /) -> tuple[int, int]: ...
@overload
def grid(ndim: Literal[3], /) -> tuple[int, int, int]: ...
@overload
def gridsize(ndim: Literal[1], /) -> int: ...
@overload
def gridsize(ndim: Literal[2], /) -> tuple[int, int]: ...
@overload
def gridsize(ndim: Literal[3], /) -> tuple[int, int, int]: ...
def syncthreads() -> None: ...
def synchronize() -> None: ...

threadIdx: Index
blockIdx: Index
blockDim: Index
gridDim: Index
warpsize: int
laneid: int

In: Any
InOut: Any
Out: Any
Reduce: Any
activemask: Any
all_sync: Any
any_sync: Any
as_cuda_array: Any
atomic: Any
b1: Any
ballot_sync: Any
bf16: Any
bool_: Any
boolean: Any
brev: Any
byte: Any
c16: Any
c8: Any
cbrt: Any
cg: Any
char: Any
char1: Any
char2: Any
char3: Any
char4: Any
close: Any
clz: Any
complex128: Any
complex64: Any
const: Any
cuda_error: Any
current_context: Any
default_stream: Any
defer_cleanup: Any
detect: Any
device_array: Any
device_array_like: Any
double: Any
double1: Any
double2: Any
double3: Any
double4: Any
eq_sync: Any
event: Any
event_elapsed_time: Any
external_stream: Any
f4: Any
f8: Any
ffs: Any
float1: Any
float2: Any
float3: Any
float32: Any
float32x1: Any
float32x2: Any
float32x3: Any
float32x4: Any
float4: Any
float64: Any
float64x1: Any
float64x2: Any
float64x3: Any
float64x4: Any
fma: Any
fp16: Any
get_current_device: Any
gpus: Any
i1: Any
i2: Any
i4: Any
i8: Any
int1: Any
int16: Any
int16x1: Any
int16x2: Any
int16x3: Any
int16x4: Any
int2: Any
int3: Any
int32: Any
int32x1: Any
int32x2: Any
int32x3: Any
int32x4: Any
int4: Any
int64: Any
int64x1: Any
int64x2: Any
int64x3: Any
int64x4: Any
int8: Any
int8x1: Any
int8x2: Any
int8x3: Any
int8x4: Any
int_: Any
intc: Any
intp: Any
is_available: Any
is_bfloat16_supported: Any
is_cuda_array: Any
is_float16_supported: Any
is_fp8_supported: Any
is_supported_version: Any
lanemask_lt: Any
ldca: Any
ldcg: Any
ldcs: Any
ldcv: Any
ldlu: Any
legacy_default_stream: Any
libdevice: Any
list_devices: Any
local: Any
long_: Any
longlong: Any
longlong1: Any
longlong2: Any
longlong3: Any
longlong4: Any
managed_array: Any
mapped: Any
mapped_array: Any
mapped_array_like: Any
match_all_sync: Any
match_any_sync: Any
nanosleep: Any
none: Any
per_thread_default_stream: Any
pinned: Any
pinned_array: Any
pinned_array_like: Any
popc: Any
profile_start: Any
profile_stop: Any
profiling: Any
reduce: Any
require_context: Any
select_device: Any
selp: Any
shared: Any
shfl_down_sync: Any
shfl_sync: Any
shfl_up_sync: Any
shfl_xor_sync: Any
short: Any
short1: Any
short2: Any
short3: Any
short4: Any
size_t: Any
ssize_t: Any
stcg: Any
stcs: Any
stream: Any
stwb: Any
stwt: Any
syncthreads_and: Any
syncthreads_count: Any
syncthreads_or: Any
syncwarp: Any
threadfence: Any
threadfence_block: Any
threadfence_system: Any
to_device: Any
types: Any
u1: Any
u2: Any
u4: Any
u8: Any
uchar: Any
uchar1: Any
uchar2: Any
uchar3: Any
uchar4: Any
uint: Any
uint1: Any
uint16: Any
uint16x1: Any
uint16x2: Any
uint16x3: Any
uint16x4: Any
uint2: Any
uint3: Any
uint32: Any
uint32x1: Any
uint32x2: Any
uint32x3: Any
uint32x4: Any
uint4: Any
uint64: Any
uint64x1: Any
uint64x2: Any
uint64x3: Any
uint64x4: Any
uint8: Any
uint8x1: Any
uint8x2: Any
uint8x3: Any
uint8x4: Any
uintc: Any
uintp: Any
ulong: Any
ulonglong: Any
ulonglong1: Any
ulonglong2: Any
ulonglong3: Any
ulonglong4: Any
ushort: Any
ushort1: Any
ushort2: Any
ushort3: Any
ushort4: Any
void: Any

def __getattr__(name: str) -> Any: ...
