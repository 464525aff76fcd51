# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Programs on several GPUs: one process for each GPU, on one host or several."""

from collections.abc import Sequence

__all__ = [
    "BucketPart",
    "Communicator",
    "DataParallel",
    "ParallelAdamW",
    "init",
    "launch",
]


from numbacc.distributed.data_parallel import BucketPart as BucketPart
from numbacc.distributed.communicator import Communicator as Communicator
from numbacc.distributed.data_parallel import DataParallel as DataParallel
from numbacc.distributed.optimizers import ParallelAdamW as ParallelAdamW

def init(
    *, rank: int | None = None, world_size: int | None = None, local_rank: int | None = None,
    address: str | None = None, timeout: float = 60.0, call_timeout: float | None = 600.0,
) -> Communicator: ...

def launch(
    command: Sequence[str], processes: int | None = None, *, hosts: int = 1, host_rank: int = 0,
    address: str | None = None,
) -> int: ...
