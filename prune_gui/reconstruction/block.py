"""Pruning the layers of one block, in the order in which they run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from prune_gui.evaluation.calibration.layer_inputs import (
    has_rows,
    is_transposed_linear,
    second_moments,
)
from prune_gui.evaluation.calibration.statistics import DeviceSums
from prune_gui.language import tr
from prune_gui.monitor import check_cancelled
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.correction.corrected_values import refitted
from prune_gui.reconstruction.networks import Call, Stop
from prune_gui.reconstruction.patterns import Pattern
from prune_gui.reconstruction.solver import choose_mask, damped

CATCH_UP: Final = 0.5
"""How much of what the pruned layers before have lost a layer makes up for: it approaches the
outputs of the dense weight on inputs that are this share of the way to those of the dense network.
With 0, the errors of layers add up; with 1, a layer fits what is specific to the calibration."""


@dataclass(frozen=True, slots=True)
class LayerError:
    """What pruning costs a layer.

    Attributes:
        name: the name of its weight.
        error: |X (V - W)|^2 / |X W|^2 for the pruned weight V, the dense weight W, and the
            inputs X that the pruned layers before it give; None if it received none.
        kept, total: numbers of its weights.
        note: on the solution, or "".
    """

    name: str
    error: float | None
    kept: int
    total: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Layers:
    """Layers that read the same tensor, in the order in which they run."""

    modules: list[nn.Module]
    is_read_once: bool


def run_all(block: nn.Module, inputs: Sequence[Tensor], calls: Sequence[Call]) -> list[Tensor]:
    """Return the outputs of a block for all batches."""
    outputs = []
    for batch, call in zip(inputs, calls, strict=True):
        check_cancelled()
        outputs.append(call.run(block, batch))
    return outputs


@dataclass(frozen=True, slots=True)
class BlockData:
    """What a block gets, by batch: from the pruned blocks before it, and from the dense ones."""

    inputs: Sequence[Tensor]
    dense_inputs: Sequence[Tensor]
    calls: Sequence[Call]


@torch.no_grad()
def prune_block(
    block: nn.Module,
    patterns: Mapping[str, Pattern],
    data: BlockData,
    *,
    damping: float,
    iterations: int,
    report: Callable[[LayerError], object],
) -> dict[str, Tensor]:
    """Prune the layers of a dense block in place, and return their masks.

    Layers that read the same tensor share its second moments, and are pruned together, before
    those that read what they give.

    Args:
        patterns: by name of a parameter in the block. A parameter that is no weight of a layer
            with known inputs, or receives none, is pruned with the mask of the recipe.
        report: called with each result.
    """
    dense = copy.deepcopy(block)
    names = {parameter: name for name, parameter in block.named_parameters()}
    masks = {}
    left = dict(patterns)
    modules = [
        module
        for module in block.modules()
        if has_rows(module) and names.get(module.get_parameter("weight")) in patterns
    ]
    paths = {module: path for path, module in block.named_modules()}
    for layers in _in_order(block, modules, data):
        twin = dense.get_submodule(paths[layers.modules[0]])
        moments = _moments(block, layers, dense, twin, data)
        for module in layers.modules:
            weight = module.get_parameter("weight")
            name = names[weight]
            if name not in left:
                continue  # another module with the same weight
            is_transposed = is_transposed_linear(module)
            pattern = left.pop(name)
            error, mask = _prune(weight, pattern, *moments, damping, iterations, is_transposed)
            masks[name] = mask
            report(LayerError(name, *error))
    for name, pattern in left.items():
        mask = pattern.mask.to(block.get_parameter(name).device)
        block.get_parameter(name).mul_(mask)
        masks[name] = mask
        note = tr("pruned as the recipe does, and not corrected: it is no weight with inputs")
        report(LayerError(name, None, int(mask.sum()), mask.numel(), note))
    return masks


def _prune(
    weight: nn.Parameter,
    pattern: Pattern,
    moments: Tensor,
    lag: Tensor | None,
    damping: float,
    iterations: int,
    is_transposed: bool,
) -> tuple[tuple[float, int, int, str], Tensor]:
    rows_of = partial(least_squares.rows_of, groups=moments.shape[0], transposed=is_transposed)
    dense = rows_of(weight.to(moments.dtype))
    system = damped(moments, damping)
    wanted = dense
    if lag is not None:
        wanted = dense + CATCH_UP * torch.linalg.solve(system, dense @ lag, left=False)
    mask = pattern.mask.to(weight.device)
    if pattern.choose is not None:
        chosen = choose_mask(wanted, system, pattern.choose, iterations)
        mask = least_squares.from_rows(chosen, weight.shape, transposed=is_transposed)
    target = least_squares.from_rows(wanted, weight.shape, transposed=is_transposed)
    values, note = refitted(target, mask, moments, damping, transposed=is_transposed)
    values = values.to(weight).masked_fill(~mask, 0.0)
    lost = rows_of((values - weight).to(moments.dtype))
    error = _energy(lost, moments) / _energy(dense, moments).clamp_min(1e-30)
    weight.copy_(values)
    return (float(error), int(mask.sum()), mask.numel(), note), mask


def _energy(rows: Tensor, moments: Tensor) -> Tensor:
    return ((rows @ moments) * rows).sum()


def _in_order(block: nn.Module, modules: Sequence[nn.Module], data: BlockData) -> list[_Layers]:
    """Return the layers by what they read, in the order in which they first run."""
    readers: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        readers.append((module, _first(args, kwargs)))

    found: list[_Layers] = []
    seen: set[nn.Module] = set()
    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_pre_hook(note, with_kwargs=True))
        for batch, call in zip(data.inputs, data.calls, strict=True):
            readers.clear()
            call.run(block, batch)
            runs = [module for module, _ in readers]
            last: Tensor | None = None
            for module, read in readers:
                if module in seen:
                    continue
                seen.add(module)
                if read is last and found[-1].is_read_once and runs.count(module) == 1:
                    found[-1].modules.append(module)
                else:
                    found.append(_Layers([module], runs.count(module) == 1))
                last = read
            if len(seen) == len(modules):
                break
    return found


def _moments(
    block: nn.Module, layers: _Layers, dense: nn.Module, twin: nn.Module, data: BlockData
) -> tuple[Tensor, Tensor | None]:
    """Return second moments of what layers read, and of what it lacks.

    With the inputs X in the pruned block, and Y of the same layer in the dense one, they are
    X^T X and (Y - X)^T X, each (groups, columns, columns); None if the two blocks do not read
    tensors of one shape, as in a mixture of experts.
    """
    sums: DeviceSums[str] = DeviceSums()
    first, has_lag = layers.modules[0], True
    for batch, dense_batch, call in zip(data.inputs, data.dense_inputs, data.calls, strict=True):
        check_cancelled()
        reads = _reads(block, first, batch, call, once=layers.is_read_once)
        dense_reads = _reads(dense, twin, dense_batch, call, once=layers.is_read_once)
        has_lag = has_lag and [x.shape for x in reads] == [y.shape for y in dense_reads]
        for number, read in enumerate(reads):
            if not read.numel():
                continue
            sums.add("moments", second_moments(first, read))
            if has_lag:
                sums.add("lag", second_moments(first, read, dense_reads[number] - read))
    found = [sums.total(key) for key in ("moments", "lag") if key in sums.keys]
    moments, *lag = (one if one.dim() == 3 else one[None] for one in found)
    return moments, lag[0] if has_lag else None


def _reads(
    block: nn.Module, layer: nn.Module, batch: Tensor, call: Call, *, once: bool
) -> list[Tensor]:
    """Return what a layer of a block reads; runs the block until then if it reads once."""
    reads: list[Tensor] = []

    def read(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        reads.append(_first(args, kwargs))
        if once:
            raise Stop

    with layer.register_forward_pre_hook(read, with_kwargs=True), suppress(Stop):
        call.run(block, batch)
    return reads


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    first: Tensor = next(iter((*args, *kwargs.values())))
    return first
