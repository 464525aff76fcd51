"""Train a model of numbacc's modules in two processes, and print whether it is as one process trains it.

python two_processes.py FILE RANK
"""

import sys

import torch
import torch.distributed as dist

import numbacc.torch as nt


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        nt.Linear(8, 32, activation="gelu"), nt.LayerNorm(32), nt.Linear(32, 8), nt.Gated("geglu")
    )


def train(module, x, target):
    """The parameters after three steps."""
    optimizer, loss = torch.optim.SGD(module.parameters(), 0.1), nt.CrossEntropyLoss()
    for _ in range(3):
        optimizer.zero_grad()
        loss(module(x), target).backward()
        optimizer.step()
    found = [each.detach() for each in module.parameters()]
    return [each.full_tensor() if hasattr(each, "full_tensor") else each for each in found]


def main(file, rank):
    dist.init_process_group("gloo", store=dist.FileStore(file, 2), rank=rank, world_size=2)
    for how in ("ddp", "fsdp"):
        check(how, rank)
        print(how, "as one process")
    dist.destroy_process_group()


def check(how, rank):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(6))
    target = torch.arange(16) % 4
    wanted = train(model(), x, target)
    if how == "ddp":
        module = torch.nn.parallel.DistributedDataParallel(model())
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        module = model()
        fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
    found = train(module, x[rank::2], target[rank::2])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
