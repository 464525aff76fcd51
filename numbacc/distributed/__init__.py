"""Programs on several GPUs: one process for each GPU, on one host or several.

```
import numbacc
from numbacc import distributed

team = distributed.init()                       # rank and world size come from the launcher
x = numbacc.full(4, team.rank, device=team.device)
total = team.all_reduce(x)                      # the sum over all ranks, on every rank
```

`python -m numbacc launch --gpus 2 script.py` starts it; so do torchrun, mpirun and srun. Device arrays travel through
NCCL, NumPy arrays through sockets. With one process, and without a GPU, the same program runs.
"""

from ..base.keywords import explain
from .communicator import Communicator, init
from .data_parallel import BucketPart, DataParallel
from .launching import launch
from .optimizers import ParallelAdamW

__all__ = ["BucketPart", "Communicator", "DataParallel", "ParallelAdamW", "init", "launch"]

explain(__name__, __all__)
