"""One of two processes of `test_distributed.py`: ``one_rank.py RANK PORT_FILE KIND FOLDER``."""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.checkpoint import load, save
from torch.distributed.fsdp import fully_shard

from prune_gui import Recipe, training

WORLD = 2
SCHEDULE = training.cubic(0.2, 0.7, steps=4, every=2)


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(12, 21), nn.ReLU(), nn.Linear(21, 7), nn.ReLU(), nn.Linear(7, 7)]
    layers[4].weight.data.round_(decimals=1)  # equal magnitudes
    layers[2].weight.data.round_(decimals=1)
    return nn.Sequential(*layers)


def recipe(**step):
    fields = {"method": "l1_unstructured", "targets": ["?.weight"], "amount": 0.5, **step}
    return Recipe.model_validate({"steps": [fields]})


def train(model, optimizer, steps, rank=0, ranks=1):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        batch = torch.randn(8, 12, generator=generator)
        optimizer.zero_grad()
        model(batch[rank::ranks]).square().mean().backward()
        optimizer.step()


def main(rank, meeting, kind, folder):
    store = torch.distributed.FileStore(meeting, WORLD)
    init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    step = {"lamp": {"method": "lamp"}, "local": {"scope": "local"}}.get(kind, {"scope": "global"})
    model = network()
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = SCHEDULE
    if kind == "replaced":
        schedule = training.regrowing(every=2, until=100, sparsity=0.5)
    kept = training.keep(model, optimizer, recipe(**step), schedule=schedule)
    first = kept.state_dict()
    train(model, optimizer, 5, rank, WORLD)
    report = kept.report()
    state = kept.state_dict()
    save({"kept": kept}, checkpoint_id=Path(folder, "checkpoint"))
    kept.save(Path(folder, "run"))
    kept.load_state_dict(first)
    load({"kept": kept}, checkpoint_id=Path(folder, "checkpoint"))
    assert kept.step == 5
    for name, bits in kept.state_dict()["masks"].items():
        assert torch.equal(bits, state["masks"][name]), name
    if rank == 0:
        torch.save(first["masks"], Path(folder, "first.pt"))
        counts = [[one.name, one.pruned, one.total, one.revived] for one in report]
        Path(folder, "report.json").write_text(json.dumps(counts), encoding="utf-8")
    destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
