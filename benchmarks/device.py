"""The module API on a graphics card, measured beside torch.nn.utils.prune in the same run.

Usage: ``python benchmarks/device.py``. It takes a minute and 3 GB of the memory of the card.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType

import torch
from engine import SHAPE, SQUARE, globally, module_work, random_weights, stacked_work
from measuring import HEADINGS, Figure, compare, table_row
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui import pruning

Work = Callable[..., Callable[[], object]]
"""Prepares a call for an API, of torch or of this program, and other arguments."""


def row(title: str, times: float, work: Work, *rest: object) -> Figure:
    """Compare torch with this program, where each call ends when the device has finished."""
    sides = (partial(waiting, work, api, *rest) for api in (reference, pruning))
    return compare(title, *sides, times, rounds=5)


def waiting(work: Work, *arguments: object) -> Callable[[], object]:
    """Prepare a call that waits for the device."""
    call = work(*arguments)
    torch.accelerator.synchronize()
    return lambda: (call(), torch.accelerator.synchronize())


def figures(device: torch.device) -> Iterator[Figure]:
    """Yield the rows: times, and memory beyond the weights."""
    for dtype in ("float32", "bfloat16"):
        weights = random_weights(SHAPE, dtype).to(device)
        for times, *call in (
            (5, "l1_unstructured"),
            (5, "random_unstructured"),
            (1, "ln_structured", 2, 0),
            (1, "ln_structured", 2, 1),
            (1, "random_structured", 0),
        ):
            title = f"{' '.join(map(str, call))}, {dtype} 4096 x 11008"
            yield row(title, times, module_work, weights, *call)
        yield row(f"l1 on top of l1, {dtype}", 5, stacked_work, weights, "l1_unstructured")
        inputs = torch.randn(64, SHAPE[1], device=device).to(weights.dtype)
        yield row(f"forward of a pruned Linear, 64 rows, {dtype}", 1, forward_work, weights, inputs)
        yield row(f"remove, {dtype}", 1, remove_work, weights)
        del weights, inputs
    weights = [random_weights(SQUARE, "float32").to(device) + i for i in range(6)]
    yield row("global_unstructured, six float32 4096 x 4096", 5, globally, weights)
    kind = getattr(torch, device.type)
    if hasattr(kind, "max_memory_allocated"):
        yield memory_of_global(kind, weights)


def memory_of_global(kind: ModuleType, weights: Sequence[Tensor]) -> Figure:
    """Return the memory of a global step; `kind` is the module of the device, as `torch.cuda`."""
    peaks = []
    for api in (reference, pruning):
        call, before = globally(api, weights), kind.memory_allocated()
        kind.reset_peak_memory_stats()
        call()
        peaks.append((kind.max_memory_allocated() - before) / 6 / SQUARE[0] / SQUARE[1])
        del call
    theirs, ours = peaks
    return Figure(
        "memory per weight",
        f"{ours:.2f} bytes",
        f"{theirs:.0f} bytes",
        wanted="<= 10 bytes",
        held=ours <= 10,
    )


def pruned_linear(api: object, weights: Tensor) -> nn.Module:
    """Return a linear layer that was pruned by torch or by this program."""
    linear = nn.Linear(1, 1, bias=False)
    linear.weight = nn.Parameter(weights.clone())
    return api.l1_unstructured(linear, "weight", 0.5)


def forward_work(api: object, weights: Tensor, inputs: Tensor) -> Callable[[], object]:
    """Prepare a forward pass of a pruned layer."""
    linear = pruned_linear(api, weights)
    return lambda: linear(inputs)


def remove_work(api: object, weights: Tensor) -> Callable[[], object]:
    """Prepare a call of `remove`."""
    linear = pruned_linear(api, weights)
    return lambda: api.remove(linear, "weight")


def main() -> int:
    """Measure and print; return 1 if a promise is broken or there is no card, else 0."""
    if not torch.accelerator.is_available():
        print("torch finds no graphics card.", file=sys.stderr)
        return 1
    device = torch.accelerator.current_accelerator()
    kind = getattr(torch, device.type)
    print(kind.get_device_name() if hasattr(kind, "get_device_name") else device.type)
    print(table_row(HEADINGS))
    held = True
    for figure in figures(device):
        print(figure, flush=True)
        held &= figure.held is not False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
