"""Live modules on a device other than the CPU: the masks of the CPU, and nothing is read back.

Without a graphics card, tensors on the CPU are treated as those of another device.
"""

import importlib
import os
from collections import Counter
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference
from torch.utils._python_dispatch import TorchDispatchMode

from prune_gui import pruning
from prune_gui.pruning.modules import masking, reparametrization, standard_methods
from prune_gui.pruning.norms import unit_norms
from prune_gui.pruning.selection import device_select

DEVICE = "cpu" if "TRITON_INTERPRET" in os.environ else "cuda"
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn]


WAYS = ["portable", pytest.param("triton", marks=pytest.mark.slow)]


def prune_elsewhere(monkeypatch, way):
    """Prune on the device, by one of the two ways of selection, also what is on the CPU."""
    select = device_select.select_portably
    if way == "triton":
        pytest.importorskip("triton")
        select = importlib.import_module("prune_gui.pruning.selection.triton_select").select
    monkeypatch.setattr(device_select, "select_of", lambda device: select)
    for module in (masking, reparametrization, standard_methods, unit_norms):
        monkeypatch.setattr(module, "is_on_cpu", lambda device: False)


def layer(dtype=torch.float32, seed=0, device=DEVICE):
    """Return a layer of numbers of which many are equal."""
    generator = torch.Generator().manual_seed(seed)
    made = nn.Linear(2, 2, bias=False)
    values = torch.randint(-40, 40, (40, 30), generator=generator) / 16
    made.weight = nn.Parameter(values.to(device, dtype), requires_grad=dtype.itemsize > 1)
    return made


def globally(layers, method, amount):
    pairs = [(each, "weight") for each in layers]
    pruning.global_unstructured(pairs, pruning_method=method, amount=amount)


STEPS = {
    "l1": lambda a, b: pruning.l1_unstructured(a, "weight", 0.5),
    "l1 of none": lambda a, b: pruning.l1_unstructured(a, "weight", 0),
    "l1 of all": lambda a, b: pruning.l1_unstructured(a, "weight", 1.0),
    "l1 of scores": lambda a, b: pruning.l1_unstructured(
        a, "weight", 77, importance_scores=b.weight.detach()
    ),
    "global": lambda a, b: globally([a, b], pruning.L1Unstructured, 0.3),
    "maximum norm": lambda a, b: pruning.ln_structured(a, "weight", 0.4, float("inf"), 0),
    "sum": lambda a, b: pruning.ln_structured(a, "weight", 7, 1, -1),
    "random structured": lambda a, b: pruning.random_structured(a, "weight", 5, 1),
    "custom": lambda a, b: pruning.custom_from_mask(a, "weight", b.weight.float() > 0),
}
DRAWN = {  # from the generator of the device
    "random": lambda a, b: pruning.random_unstructured(a, "weight", 0.5),
    "random global": lambda a, b: globally([a, b], pruning.RandomUnstructured, 100),
}
if DEVICE == "cpu":
    STEPS |= DRAWN


SEVERAL = tuple(step for step in STEPS if step != "l1 of all")


def after(steps, dtype, device):
    """Return the masks and the weights after some steps."""
    one, other = layer(dtype, 0, device), layer(dtype, 1, device)
    torch.manual_seed(0)
    for step in steps:
        STEPS[step](one, other)
    made = [tensor for each in (one, other) for tensor in (each.weight, *each.buffers())]
    return [tensor.detach().cpu().contiguous().view(torch.uint8) for tensor in made]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("steps", "dtype"),
    [
        *product([*((step,) for step in STEPS), ("l1", "l1"), SEVERAL], DTYPES),
        (("l1", "l1"), torch.complex128),
    ],
    ids=str,
)
def test_masks_and_weights_are_those_of_the_cpu(monkeypatch, steps, way, dtype):
    expected = after(steps, dtype, "cpu")
    prune_elsewhere(monkeypatch, way)
    for found, wanted in zip(after(steps, dtype, DEVICE), expected, strict=True):
        assert torch.equal(found, wanted)


class Reads(TorchDispatchMode):
    """Counts the operators whose results, or whose shapes, the host must wait for."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in WAITING:
            self.counts[str(func)] += 1
        return func(*args, **kwargs or {})


aten = torch.ops.aten
WAITING = {
    *(aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.item, aten.allclose),
    *(aten.nonzero, aten.masked_select, aten.index, aten.index_put_, aten.bincount),
}


@pytest.mark.parametrize("way", WAYS if DEVICE == "cuda" else WAYS[:1])
@pytest.mark.parametrize(
    ("steps", "reads"),
    [
        *(((step,), 0) for step in STEPS if step != "custom"),
        (("l1", "l1"), 1),  # the number of remaining elements
        (("l1", "global"), 1),
    ],
    ids=str,
)
def test_the_host_waits_for_nothing(monkeypatch, steps, way, reads):
    prune_elsewhere(monkeypatch, way)
    one, other = layer(), layer(seed=1)
    numpy = torch.Tensor.numpy

    def of_a_number(tensor):
        assert tensor.numel() == 1, "the elements of a tensor are read"
        return numpy(tensor)

    monkeypatch.setattr(torch.Tensor, "numpy", of_a_number)
    with Reads() as found:
        for step in steps:
            STEPS[step](one, other)
        one(torch.ones(1, 30, device=DEVICE)).sum().backward()
        pruning.remove(one, "weight")
    assert found.counts.total() == reads, found.counts


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a graphics card")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("step", [step for step in [*STEPS, *DRAWN] if step != "custom"])
def test_the_card_is_never_waited_for(step):
    one, other = layer(), layer(seed=1)
    try:
        torch.cuda.set_sync_debug_mode("error")
        (STEPS | DRAWN)[step](one, other)
        one(torch.ones(1, 30, device=DEVICE)).sum().backward()
        pruning.remove(one, "weight")
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["random_unstructured", "random_structured"])
def test_random_steps_are_those_of_torch_on_the_same_device(monkeypatch, way, call):
    prune_elsewhere(monkeypatch, way)
    masks = []
    for package in (pruning, reference):
        pruned = layer()
        torch.manual_seed(3)
        getattr(package, call)(pruned, "weight", 0.3, *([1] if call == "random_structured" else []))
        masks.append(pruned.weight_mask)
    assert torch.equal(*masks)
