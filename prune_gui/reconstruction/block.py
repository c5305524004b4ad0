"""Pruning the layers of one block, in the order in which they run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

import torch
from torch import Tensor, nn

from prune_gui.errors import ReconstructionError
from prune_gui.evaluation.calibration.layer_inputs import (
    has_rows,
    is_transposed_linear,
    second_moments,
)
from prune_gui.language import tr
from prune_gui.memory import return_freed_memory
from prune_gui.monitor import check_cancelled
from prune_gui.pruning.arrays import Flags
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.correction.corrected_values import refitted
from prune_gui.reconstruction.networks import Call, Stop
from prune_gui.reconstruction.patterns import Pattern
from prune_gui.reconstruction.row_weights import row_weights
from prune_gui.reconstruction.solver import choose_masks, damped

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
class _Readers:
    """Modules that read the same tensor, in the order in which they run."""

    modules: list[nn.Module]
    is_read_once: bool


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer to prune.

    Attributes:
        name: that of its weight in the block.
        row_weights: (rows,), see `row_weights`; None if all count the same.
    """

    name: str
    module: nn.Module
    pattern: Pattern
    row_weights: Tensor | None

    @property
    def weight(self) -> Tensor:
        return self.module.get_parameter("weight")

    @property
    def is_transposed(self) -> bool:
        return is_transposed_linear(self.module)

    def rows_of(self, values: Tensor, groups: int) -> Tensor:
        return least_squares.rows_of(values, groups, transposed=self.is_transposed)

    def factors(self, rows: Tensor) -> Tensor | None:
        """Return what gives the squared errors of (groups, rows, columns) the weights of rows."""
        if self.row_weights is None:
            return None
        return self.row_weights.sqrt().to(rows).view(rows.shape[0], -1, 1)

    def from_rows(self, rows: Tensor) -> Tensor:
        shape = self.weight.shape
        return least_squares.from_rows(rows, shape, transposed=self.is_transposed)


def run_through(block: nn.Module, batches: list[Tensor], calls: Sequence[Call]) -> None:
    """Replace each of the batches by the output of a block for it."""
    for number, call in enumerate(calls):
        check_cancelled()
        batches[number] = call.run(block, batches[number])


@dataclass(frozen=True, slots=True)
class BlockData:
    """What runs through a block, by batch: after the pruned blocks before it, and the dense ones.

    The tensors of the two lists are replaced in place, so that no third list is in memory. The
    calls differ where a block also gets what blocks of another list give.
    """

    pruned: list[Tensor]
    dense: list[Tensor]
    calls: Sequence[Call]
    dense_calls: Sequence[Call]


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
    those that read what they give. What runs through the dense block becomes its outputs.

    Args:
        patterns: by name of a parameter in the block. A parameter that is no weight of a layer
            with known inputs, or receives none, is pruned with the mask of the recipe.
        report: called with each result.

    Raises:
        ReconstructionError: the inputs of a layer are not finite.
    """
    dense = copy.deepcopy(block)
    names = {parameter: name for name, parameter in block.named_parameters()}
    masks: dict[str, Tensor] = {}
    left = {name: pattern for name, pattern in patterns.items() if pattern.is_solved}
    modules = {
        module: path
        for path, module in block.named_modules()
        if has_rows(module) and names.get(module.get_parameter("weight")) in left
    }
    units: dict[int, Flags] = {}
    groups = _in_order(block, list(modules), data)
    comparing = [
        module
        for group in groups
        for module in group.modules
        if patterns[names[module.get_parameter("weight")]].compares_rows
    ]
    weights = row_weights(block, comparing, data.dense, data.dense_calls)
    for group in groups:
        twin = dense.get_submodule(modules[group.modules[0]])
        layers = {
            name: _Layer(name, module, left[name], weights.get(module))
            for module in group.modules
            if (name := names[module.get_parameter("weight")]) in left
        }
        # what nothing here refers to can be released while the layers are pruned
        pruned = _prune(
            [*layers.values()],
            *_moments(block, group, dense, twin, data, to_the_end=group is groups[-1]),
            damping,
            iterations,
        )
        for found, mask in pruned:
            pattern = left.pop(found.name)
            if pattern.read is not None:
                units[id(pattern.read.units)] = pattern.pruned_units(mask)
            if pattern.made:
                kept = mask & pattern.mask_of_made(units).to(mask.device)
                found = replace(found, kept=int(kept.sum()))
            masks[found.name] = mask
            report(found)
    if not groups:
        run_through(dense, data.dense, data.dense_calls)
    for name, pattern in left.items():
        mask = pattern.mask.to(block.get_parameter(name).device)
        block.get_parameter(name).mul_(mask)
        masks[name] = mask
        note = tr("pruned as the recipe does, and not corrected: it is no weight with inputs")
        report(LayerError(name, None, int(mask.sum()), mask.numel(), note))
    _prune_made(block, patterns, units, masks, report)
    return masks


def _prune_made(
    block: nn.Module,
    patterns: Mapping[str, Pattern],
    units: Mapping[int, Flags],
    masks: dict[str, Tensor],
    report: Callable[[LayerError], object],
) -> None:
    """Prune what goes with the units that layers of a block no longer read; add to the masks."""
    for name, pattern in patterns.items():
        if not pattern.made:
            continue
        parameter = block.get_parameter(name)
        mask = pattern.mask_of_made(units).to(parameter.device)
        parameter.mul_(mask)
        masks[name] = mask & masks.get(name, mask)
        if not pattern.is_solved:
            note = tr("pruned with the units that are no longer read")
            report(LayerError(name, None, int(mask.sum()), mask.numel(), note))


def _prune(
    layers: Sequence[_Layer],
    moments: Tensor | None,
    lag: Tensor | None,
    damping: float,
    iterations: int,
) -> Iterator[tuple[LayerError, Tensor]]:
    """Prune layers with the same inputs in place; yield the error and the mask of each."""
    if moments is None or not layers:
        return
    return_freed_memory()
    if not bool(moments.isfinite().all()):
        raise ReconstructionError(
            "The inputs of {name} are not finite. Check the calibration data and the weights.",
            name=layers[0].name,
        )
    groups = moments.shape[0]
    dense = [layer.rows_of(layer.weight.to(moments.dtype), groups) for layer in layers]
    system, factor = damped(moments, damping)
    wanted = dense
    if lag is not None:
        catch_up = torch.cholesky_solve(lag.mT, factor).mT.mul_(CATCH_UP)
        wanted = [rows + rows @ catch_up for rows in dense]
        del lag, catch_up
    del factor
    masks = [layer.pattern.mask.to(moments.device) for layer in layers]
    chooses = {n: one for n, layer in enumerate(layers) if (one := layer.pattern.choose)}
    factors = {number: layers[number].factors(wanted[number]) for number in chooses}
    rows_to_choose = [
        wanted[number] if factor is None else wanted[number] * factor
        for number, factor in factors.items()
    ]
    found = choose_masks(rows_to_choose, system, list(chooses.values()), iterations)
    del system, rows_to_choose
    guesses = {}
    for (number, scale), (kept, rows) in zip(factors.items(), found, strict=True):
        masks[number] = layers[number].from_rows(kept)
        guesses[number] = rows if scale is None else rows.div_(scale)
    for number, (layer, mask, before) in enumerate(zip(layers, masks, dense, strict=True)):
        values, note = refitted(
            layer.from_rows(wanted[number]),
            mask,
            moments,
            damping,
            transposed=layer.is_transposed,
            guess=guesses.get(number),
        )
        values = values.to(layer.weight).masked_fill(~mask, 0.0)
        lost = layer.rows_of(values.to(moments.dtype), groups) - before
        error = _energy(lost, moments) / _energy(before, moments).clamp_min(1e-30)
        layer.weight.copy_(values)
        yield LayerError(layer.name, float(error), int(mask.sum()), mask.numel(), note), mask


def _energy(rows: Tensor, moments: Tensor) -> Tensor:
    return ((rows @ moments) * rows).sum()


def _in_order(block: nn.Module, modules: Sequence[nn.Module], data: BlockData) -> list[_Readers]:
    """Return the layers by what they read, in the order in which they first run."""
    readers: list[tuple[nn.Module, Tensor, int]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        read = _first(args, kwargs)
        readers.append((module, read, read._version))

    found: list[_Readers] = []
    seen: set[nn.Module] = set()
    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_pre_hook(note, with_kwargs=True))
        for batch, call in zip(data.pruned, data.calls, strict=True):
            readers.clear()
            call.run(block, batch)
            runs = [module for module, _, _ in readers]
            last: tuple[Tensor, int] | None = None
            for module, read, version in readers:
                if module in seen:
                    continue
                seen.add(module)
                is_last = last is not None and read is last[0] and version == last[1]
                if is_last and found[-1].is_read_once and runs.count(module) == 1:
                    found[-1].modules.append(module)
                else:
                    found.append(_Readers([module], runs.count(module) == 1))
                last = read, version
            if len(seen) == len(modules):
                break
    return found


def _moments(
    block: nn.Module,
    group: _Readers,
    dense: nn.Module,
    twin: nn.Module,
    data: BlockData,
    *,
    to_the_end: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Return second moments of what modules read, and of what it lacks; None if it is nothing.

    With the inputs X in the pruned block, and Y of the same module in the dense one, they are
    X^T X and (Y - X)^T X, each (groups, columns, columns). The second is None if the two blocks do
    not read tensors of one shape, as in a mixture of experts.

    Args:
        to_the_end: whether the dense block runs to its end, and its outputs replace its inputs.
    """
    moments: Tensor | None = None
    lag: Tensor | None = None
    first, has_lag = group.modules[0], True
    for number, calls in enumerate(zip(data.calls, data.dense_calls, strict=True)):
        check_cancelled()
        call, dense_call = calls
        stops = group.is_read_once
        reads, _ = _reads(block, first, data.pruned[number], call, stops=stops)
        stops = stops and not to_the_end
        dense_reads, outputs = _reads(dense, twin, data.dense[number], dense_call, stops=stops)
        if to_the_end and outputs is not None:
            data.dense[number] = outputs
        has_lag = has_lag and [x.shape for x in reads] == [y.shape for y in dense_reads]
        for read, dense_read in zip_longest(reads, dense_reads):
            if read is None or not read.numel():
                continue
            moments = second_moments(first, read, before=moments)
            if has_lag:
                lag = second_moments(first, read, dense_read - read, before=lag)
    if moments is None:
        return None, None
    shape = -1, *moments.shape[-2:]
    return moments.view(shape), lag.view(shape) if has_lag and lag is not None else None


def _reads(
    block: nn.Module, module: nn.Module, batch: Tensor, call: Call, *, stops: bool
) -> tuple[list[Tensor], Tensor | None]:
    """Return what a module of a block reads, and the output of the block, if it does not stop."""
    reads: list[Tensor] = []
    output = None

    def read(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        reads.append(call.counted(_first(args, kwargs)))
        if stops:
            raise Stop

    with module.register_forward_pre_hook(read, with_kwargs=True), suppress(Stop):
        output = call.run(block, batch)
    return reads, output


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    first: Tensor = next(iter((*args, *kwargs.values())))
    return first
