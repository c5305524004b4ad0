"""What a step leaves open: how many weights it keeps, and in which groups, but not which ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from prune_gui.pruning.arrays import Flags
from prune_gui.pruning.methods import Method
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.coupled import Coupled
from prune_gui.pruning.methods.layer_adaptive import Erk, Lamp
from prune_gui.pruning.methods.n_m import NM
from prune_gui.pruning.methods.structured import LnStructuredMethod
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.pruning.predicates.unit_cuts import AnyCut, UnitCut, UnitSlices
from prune_gui.pruning.selection.radix_select import smallest

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution
    from prune_gui.recipe.stack import AppliedStep

MAX_COMPARED: Final = 8
"""Scores of a group that are compared with each other; larger groups are sorted, which is slower
for small ones."""
Choose = Callable[[Tensor], Tensor]
"""Takes scores (rows, columns), at least 0, and returns the mask of what to keep, bool."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is decided of the mask of a weight.

    Attributes:
        mask: the mask of the recipe, of the shape of the weight, True where kept.
        choose: keeps as many weights as the recipe, in the same pattern, by other scores; None if
            the mask of the recipe counts as it is.
        read: the coupled units that `choose` decides on, which no other layer reads.
        made: slices of units that layers of the same block read, and nothing else. They are not in
            `mask`: only while all units are there can the layers that read them make up for those
            that go. Then these slices are pruned, too.
    """

    mask: Tensor
    choose: Choose | None
    read: UnitSlices | None = None
    made: tuple[UnitSlices, ...] = ()

    @property
    def is_solved(self) -> bool:
        """Whether more is pruned than what goes with units."""
        return not self.made or not bool(self.mask.all())

    @property
    def compares_rows(self) -> bool:
        """Whether the mask of a row depends on the scores of others."""
        is_open = self.choose is not None
        return is_open and getattr(self.choose, "func", None) not in (_in_rows, _in_groups)

    def pruned_units(self, mask: Tensor) -> Flags:
        """Return which of the units that are read a mask prunes."""
        assert self.read is not None
        member, size = self.read.member, len(self.read.units.pruned)
        kept = mask.movedim(member.dim or 0, 0).flatten(1).any(1)
        flags: Flags = ~kept.cpu().numpy()[member.channels(size)[:, 0]]
        return flags

    def mask_of_made(self, chosen: Mapping[int, Flags]) -> Tensor:
        """Return the mask that leaves out the pruned units that are made.

        Args:
            chosen: other pruned units than those of the recipe, by the identity of the latter.
        """
        pruned = [(one, chosen.get(id(one.units), one.units.pruned)) for one in self.made]
        return _mask_without(self.mask.shape, pruned)


def _mask_without(shape: Sequence[int], pruned: Iterable[tuple[UnitSlices, Flags]]) -> Tensor:
    mask = torch.ones(tuple(shape), dtype=torch.bool)
    for one, units in pruned:
        channels = torch.from_numpy(one.member.channels(len(units))[units].ravel())
        mask.index_fill_(one.member.dim or 0, channels, False)
    return mask


def patterns_in(
    resolution: Resolution, names: Mapping[str, str], *, choose: bool
) -> dict[str, Pattern]:
    """Return the patterns of the parameters of a block, by own names of the block for them.

    Args:
        names: the names in the resolution, by own names.
        choose: see `pattern_of`.
    """
    patterns = {
        own: pattern
        for own, name in names.items()
        if name in resolution.counts
        and (pattern := pattern_of(resolution, name, choose=choose)) is not None
    }
    slices = {own: _slices(resolution.layers[names[own]]) for own in patterns}
    readers = _readers(resolution, chain.from_iterable(slices.values()))
    for own, found in slices.items():
        if not any(id(one.units) in readers for one in found):
            continue
        applied = resolution.layers[names[own]]
        method = resolution.recipe.steps[applied[0].step - 1].method
        made = [one for one in found if id(one.units) in readers and not _is_reader(one)]
        others = [one for one in found if one not in made]
        mask = _mask_without(patterns[own].mask.shape, [(one, one.units.pruned) for one in others])
        pattern = Pattern(mask, None, None, tuple(made))
        if choose and len(others) == 1 and readers.get(id(others[0].units)) == others:
            pattern = _open_units(pattern, others[0], method)
        patterns[own] = pattern
    return patterns


def _readers(resolution: Resolution, slices: Iterable[UnitSlices]) -> dict[int, list[UnitSlices]]:
    """Return the slices that read units, by the identity of the latter.

    Args:
        slices: of the parameters of a block. Units that others have, or that nothing in the block
            reads, are left out.
    """
    steps = chain.from_iterable(resolution.layers.values())
    everywhere = Counter(id(one.units) for step in steps for one in _slices([step]))
    inside: dict[int, list[UnitSlices]] = {}
    for one in slices:
        inside.setdefault(id(one.units), []).append(one)
    return {
        key: readers
        for key, members in inside.items()
        if len(members) == everywhere[key] and all(one.member.dim is not None for one in members)
        if (readers := [one for one in members if _is_reader(one)])
    }


def _is_reader(one: UnitSlices) -> bool:
    return one.member.role == "consumes"


def _slices(applied: Sequence[AppliedStep]) -> tuple[UnitSlices, ...]:
    """Return the slices of units that a single step prunes of a parameter."""
    match [one.predicate for one in applied]:
        case [UnitCut(slices=slices)]:
            return slices
        case [AnyCut(cuts=cuts)]:
            return tuple(chain.from_iterable(cut.slices for cut in cuts))
    return ()


def _open_units(pattern: Pattern, read: UnitSlices, method: Method) -> Pattern:
    """Leave open which units a layer no longer reads, if the weights rank them."""
    if not isinstance(method, Coupled) or method.importance is not None or pattern.mask.dim() < 2:
        return pattern
    size, kernel = len(read.units.pruned), math.prod(pattern.mask.shape[2:])
    channels = torch.from_numpy(read.member.channels(size))
    columns = (channels[..., None] * kernel + torch.arange(kernel)).flatten(1)
    kept = size - int(read.units.pruned.sum())
    return replace(pattern, choose=partial(_units, columns, kept), read=read)


def pattern_of(resolution: Resolution, name: str, *, choose: bool) -> Pattern | None:
    """Return the pattern of a parameter; None if no step prunes it.

    The mask is open if a single step made it that ranks the absolute weights; a recipe that names
    other scores, or a file of masks, has chosen already.

    Args:
        choose: False to keep all masks of the recipe.
    """
    applied = resolution.layers.get(name, ())
    if not applied or not resolution.counts[name][0]:
        return None
    mask = resolution.mask(name)
    if not choose or len(applied) > 1 or applied[0].step < 1:
        return Pattern(mask, None)
    return Pattern(mask, _chooser(resolution.recipe.steps[applied[0].step - 1].method, mask))


def _chooser(method: Method, mask: Tensor) -> Choose | None:
    if not method.ranks_weights or mask.dim() < 2:
        return None
    matrix = mask.flatten(1)
    rows, columns = matrix.shape
    match method:
        case L1UnstructuredMethod(scope="row"):
            counts = matrix.sum(1)
            return partial(_in_rows, int(counts[0])) if bool((counts == counts[0]).all()) else None
        case L1UnstructuredMethod() | Lamp() | Erk():
            return partial(largest, int(mask.sum()))
        case NM(dim="input" | 1, flatten=flatten, n=n, m=m):
            is_along_rows = mask.dim() == 2 or flatten
            return partial(_in_groups, n, m) if is_along_rows and not columns % m else None
        case Block(height=height, width=width):
            if rows % height or columns % width:
                return None
            grid = matrix.view(rows // height, height, columns // width, width)
            return partial(_blocks, height, width, int(grid.any(3).any(1).sum()))
        case LnStructuredMethod(dim="output" | 0):
            return partial(_output_channels, int(matrix.any(1).sum()))
        case LnStructuredMethod(dim="input" | 1):
            kernel = math.prod(mask.shape[2:])
            kept = int(matrix.view(rows, -1, kernel).any(2).any(0).sum())
            return partial(_input_channels, kernel, kept)
    return None


def largest(count: int, scores: Tensor) -> Tensor:
    """Return the mask of the `count` largest scores of all; of equal ones, the last."""
    return ~smallest(scores.flatten(), scores.numel() - count).view(scores.shape)


def _in_rows(count: int, scores: Tensor) -> Tensor:
    order = scores.topk(count, dim=1, sorted=False).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True)


def _in_groups(n: int, m: int, scores: Tensor) -> Tensor:
    """Return the mask of the `n` largest of each `m` in a row; of equal ones, the last."""
    if m > MAX_COMPARED:
        return _in_rows(n, scores.reshape(-1, m)).view(scores.shape)
    lanes = scores.reshape(-1, m).T.contiguous()
    above = torch.zeros(lanes.shape, dtype=torch.uint8, device=lanes.device)
    for first, second in combinations(range(m), 2):
        is_less = lanes[first] <= lanes[second]
        above[first] += is_less
        above[second] += ~is_less
    return (above < n).T.reshape(scores.shape)


def _blocks(height: int, width: int, count: int, scores: Tensor) -> Tensor:
    rows, columns = scores.shape
    grid = scores.view(rows // height, height, columns // width, width)
    kept = largest(count, grid.square().sum((1, 3)))
    return kept[:, None, :, None].expand(grid.shape).reshape(scores.shape)


def _output_channels(count: int, scores: Tensor) -> Tensor:
    return largest(count, scores.square().sum(1))[:, None].expand(scores.shape)


def _units(columns: Tensor, count: int, scores: Tensor) -> Tensor:
    columns = columns.to(scores.device)
    kept = largest(count, scores.square().sum(0)[columns].sum(1))
    mask = torch.ones_like(scores, dtype=torch.bool)
    mask[:, columns[~kept].flatten()] = False
    return mask


def _input_channels(kernel: int, count: int, scores: Tensor) -> Tensor:
    energies = scores.square().sum(0).view(-1, kernel).sum(1)
    return largest(count, energies).repeat_interleave(kernel).expand(scores.shape)
