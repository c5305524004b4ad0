"""One of two processes of `test_distributed.py`: ``one_rank.py RANK MEETING KIND FOLDER``."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import nn
from torch.distributed import barrier, init_process_group
from torch.distributed.checkpoint import load, save
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from prune_gui import Recipe, training
from prune_gui.training.ranks import local

WORLD = 2
SCHEDULE = training.cubic(0.2, 0.7, steps=4, every=2)
STEPS = 5


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(12, 21), nn.ReLU(), nn.Linear(21, 7), nn.ReLU(), nn.Linear(7, 7)]
    layers[4].weight.data.round_(decimals=1)  # equal magnitudes
    layers[2].weight.data.round_(decimals=1)
    return nn.Sequential(*layers)


def recipe(**step):
    fields = {"method": "l1_unstructured", "targets": ["?.weight"], "amount": 0.5, **step}
    return Recipe.model_validate({"steps": [fields]})


def train(model, optimizer, steps, rank=0, ranks=1, after=lambda: None):
    """Accumulate gradients over two batches in each step."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        for is_last in (False, True):
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(is_last)
            elif isinstance(model, DistributedDataParallel):
                model.require_backward_grad_sync = is_last
            batch = torch.randn(8, 12, generator=generator)
            model(batch[rank::ranks]).square().mean().backward()
        optimizer.step()
        after()


def divided(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model)
    for layer in [m for m in model.modules() if isinstance(m, nn.Linear)]:
        fully_shard(layer)
    fully_shard(model)
    return model


def main(rank, kind, folder):
    step = {"lamp": {"method": "lamp"}, "local": {"scope": "local"}}.get(kind, {"scope": "global"})
    model = divided(network(), kind)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = SCHEDULE
    if kind == "replaced":
        schedule = training.regrowing(every=2, until=100, sparsity=0.5)
    kept = training.keep(model, optimizer, recipe(**step), schedule=schedule)
    first = kept.state_dict()
    masks = [dict(kept.masks)]
    train(model, optimizer, STEPS, rank, WORLD, lambda: masks.append(dict(kept.masks)))
    if kind != "replaced":  # elements that grow begin without what the optimizer remembers
        compare_with_a_loop_that_multiplies(model, masks, kind, rank)
    report = kept.report()
    state = kept.state_dict()
    save({"kept": kept}, checkpoint_id=Path(folder, "checkpoint"))
    kept.save(Path(folder, "run"))
    if kind != "ddp":  # its processes do not wait for each other
        training.keep(model, optimizer, resume=Path(folder, "run")).close()
    kept.load_state_dict(first)
    load({"kept": kept}, checkpoint_id=Path(folder, "checkpoint"))
    assert kept.step == STEPS
    for name, bits in kept.state_dict()["masks"].items():
        assert torch.equal(bits, state["masks"][name]), name
    if rank == 0:
        torch.save(first["masks"], Path(folder, "first.pt"))
        counts = [[one.name, one.pruned, one.total, one.revived] for one in report]
        Path(folder, "report.json").write_text(json.dumps(counts), encoding="utf-8")


def compare_with_a_loop_that_multiplies(model, masks, kind, rank):
    reference = divided(network(), kind)
    own = {name.removeprefix("module."): local(p) for name, p in reference.named_parameters()}
    now = iter(masks)

    def multiply():
        for name, mask in next(now).items():
            own[name].mul_(~mask.pruned())

    multiply()
    optimizer = torch.optim.AdamW(reference.parameters(), 0.01)
    train(reference, optimizer, STEPS, rank, WORLD, multiply)
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(local(one), local(other))


def merge_adapters(rank):
    sys.modules["torchvision._meta_registrations"] = ModuleType("")  # see tests/conftest.py
    import peft

    base = network()
    pruned = base[0].weight.data[:, ::2].zero_().numel()
    config = peft.LoraConfig(r=2, target_modules=["0", "2"], init_lora_weights=False)
    model = divided(peft.get_peft_model(base, config), "adapters")
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 0.01)
    kept = training.keep(model, optimizer)
    assert kept.report()[0].pruned == pruned
    train(model, optimizer, STEPS, rank, WORLD)
    merged = model.merge_and_unload()
    dense = merged[0].weight.full_tensor()
    assert (dense[:, ::2] != 0).float().mean() > 0.9
    kept.apply(merged)
    dense[:, ::2] = 0
    assert torch.equal(merged[0].weight.full_tensor(), dense)


if __name__ == "__main__":
    _, number, meeting, chosen, to = sys.argv
    store = torch.distributed.FileStore(meeting, WORLD)
    init_process_group("gloo", store=store, rank=int(number), world_size=WORLD)
    merge_adapters(int(number)) if chosen == "adapters" else main(int(number), chosen, to)
    barrier()
    sys.stdout.flush()
    # torch keeps a gloo group that was destroyed, if it was used for DTensor or DDP. Its threads
    # release tensors, for which they need the interpreter, and abort if it is at its end.
    os._exit(0)
