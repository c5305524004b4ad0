"""Units of coupled groups: what remains of them, their scores, and the decisions on them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks
from prune_gui.pruning.arrays import Flags, Ints, Numbers
from prune_gui.pruning.decisions.target import Decision, GroupScores, Target
from prune_gui.pruning.decisions.units import remaining_channels
from prune_gui.pruning.layouts import CoupledGroup, Member, MemberRole
from prune_gui.pruning.norms.unit_norms import remaining_span, score_norms
from prune_gui.pruning.predicates import AnyCut, Predicate, PrunedUnits, UnitCut, UnitSlices
from prune_gui.pruning.selection.scores import ScaledColumns, Scores

Reduction = Literal["mean", "sum", "max"]
Noted = tuple[PrunedUnits, str]
"""The pruned units of a group, and a note on them."""


@dataclass(frozen=True, slots=True)
class Members:
    """The groups of a step with their tensors, and the scores of each in a file, if it has one."""

    groups: Sequence[CoupledGroup]
    targets: Mapping[str, Target]
    given: Sequence[GroupScores]
    _remaining: dict[tuple[str, int], Ints] = field(default_factory=dict)

    def remaining_channels(self, name: str, dim: int) -> Ints:
        if (name, dim) not in self._remaining:
            target = self.targets[name]
            is_scalar = not target.shape  # one channel
            self._remaining[name, dim] = (
                np.array([target.remaining]) if is_scalar else remaining_channels(target, dim)
            )
        return self._remaining[name, dim]

    def remaining_elements(self, group: CoupledGroup) -> Ints:
        """Return the number of remaining elements of each unit in all members, int64 (size,)."""
        total = np.zeros(group.size, np.int64)
        for member in group.members:
            if member.dim is None:
                total[member.offset] += self.targets[member.name].remaining
            else:
                channels = self.remaining_channels(member.name, member.dim)
                total += by_unit(channels, member, group.size).sum(1)
        return total

    def without_effect(self, group: CoupledGroup) -> tuple[Flags, Flags]:
        """Return which units of a sliced group have no effect, and which emit a constant."""
        remaining: dict[MemberRole, Ints] = {}
        for member in group.members:
            channels = self.remaining_channels(member.name, member.dim or 0)
            elements = by_unit(channels, member, group.size).sum(1)
            remaining[member.role] = remaining.get(member.role, 0) + elements
        return without_effect(remaining, group.size)

    def decisions(self, chosen: Sequence[Noted], monitor: Monitor) -> list[Decision]:
        """Return the decision for each tensor, from the units of the groups that are pruned."""
        slices: dict[str, dict[int, list[UnitSlices]]] = defaultdict(lambda: defaultdict(list))
        note_of: dict[str, str] = {}
        for group, (units, note) in zip(self.groups, chosen, strict=True):
            for member in group.members:
                if note:
                    note_of[member.name] = note
                if units.pruned.any() or units.ranks is not None:
                    one = UnitSlices(group.label, units, member)
                    slices[member.name][member.dim or 0].append(one)
        decisions = []
        for name, target in monitor.each(self.targets.items()):
            shape, note = target.shape or (1,), note_of.get(name, "")
            cuts = [
                UnitCut.of(shape, dim, found, self.remaining_channels(name, dim))
                for dim, found in slices[name].items()
            ]
            cuts = [cut for cut in cuts if cut.has_scores or cut.chosen().pruned.any()]
            if cuts:
                predicate = cuts[0] if len(cuts) == 1 else AnyCut(tuple(cuts))
                decisions.append(Decision(predicate, _count(target, predicate), note))
            else:
                decisions.append(Decision(None, 0, note))
        return decisions

    def norms(self, reduction: Reduction, p: float, monitor: Monitor) -> list[Numbers]:
        """Return the score of each unit from the p-norms of its slices of the weights."""
        readers = [self._weights(group) for group in self.groups]
        with monitor.plan(_nbytes(readers)):
            return [
                self._joined(group, own, reduction, p, monitor)
                for group, own in zip(self.groups, readers, strict=True)
            ]

    def given_scores(self, reduction: Reduction, monitor: Monitor) -> list[Numbers]:
        """Return the score of each unit that a file has, or that follows from scores of weights.

        Let a be the sum of absolute scores over a slice of a tensor, without pruned weights. The
        score of a unit is for "sum" the sum of all a, for "mean" the mean of a / (elements of the
        slice), and for "max" the maximum of these.
        """
        readers = [self._given_weights(own) for own in self.given]
        scores = []
        with monitor.plan(_nbytes(readers)):
            for group, own, weights in zip(self.groups, self.given, readers, strict=True):
                if own.units is not None:
                    scores.append(self._given_units(group, own.path, own.units))
                    continue
                joined = self._joined(group, weights, reduction, 1.0, monitor)
                if np.isnan(joined).any():
                    raise _nan_error(own.path, group.label, joined)
                scores.append(joined)
        return scores

    def _weights(self, group: CoupledGroup) -> dict[str, Scores]:
        targets = [self.targets[one.name] for one in group.members]
        weights = {target.name: target.weights for target in targets if len(target.shape) > 1}
        if not weights:
            raise RecipeError(
                "{group} has no tensor with two dimensions or more to rank its units by.",
                group=group.label,
            )
        return weights

    def _given_weights(self, given: GroupScores) -> dict[str, Scores]:
        readers: dict[str, Scores] = {}
        for name, scores in given.weights.items():
            target = self.targets[name]
            if scores.shape != target.shape:
                scores = ScaledColumns(target.weights, scores, target.layout.input_dim)
            readers[name] = scores
        return readers

    def _given_units(self, group: CoupledGroup, path: str, given: Scores) -> Numbers:
        def read() -> Numbers:
            mapped = given.part(0, group.size)
            scores: Numbers = mapped.to(torch.float64, copy=True).numpy()  # the file may change
            return scores

        [any_target, *_] = self.targets.values()
        scores = _cached(any_target, (given,), read)
        if np.isnan(scores).any():
            raise _nan_error(path, group.key, scores)
        if (scores < 0).any():
            unit = int(scores.argmin())
            raise RecipeError(
                "{path}: {name} has a negative score, {score:.6g} of unit {unit}. Add the same "
                "number to all scores, so that none is below 0.",
                path=path,
                name=group.key,
                score=float(scores[unit]),
                unit=unit,
            )
        return scores

    def _joined(
        self,
        group: CoupledGroup,
        readers: Mapping[str, Scores],
        reduction: Reduction,
        p: float,
        monitor: Monitor,
    ) -> Numbers:
        slices, belongs = [], []
        for member in group.members:
            if member.name not in readers:
                continue
            target, dim = self.targets[member.name], member.dim or 0
            powers = _channel_norms(target, readers[member.name], dim, p, monitor) ** p
            if member.dim is None:
                units = np.arange(group.size) == member.offset
                powers_of_units, elements = np.where(units, powers.sum(), 0.0), target.size
            else:
                units = np.ones(group.size, np.bool_)
                powers_of_units = by_unit(powers, member, group.size).sum(1)
                elements = target.size // target.shape[dim] * member.width
            is_sum = reduction == "sum"
            slices.append(powers_of_units if is_sum else (powers_of_units / elements) ** (1 / p))
            belongs.append(units)
        joined: Numbers
        match reduction:
            case "sum":
                joined = np.sum(slices, axis=0) ** (1 / p)
            case "mean":
                joined = np.sum(slices, axis=0) / np.sum(belongs, axis=0)
            case "max":
                joined = np.max(slices, axis=0)
        return joined


def without_effect(remaining: Mapping[MemberRole, Ints], size: int) -> tuple[Flags, Flags]:
    """Return which units have no effect and which emit a constant, from what remains by role."""
    nothing = np.zeros(size, np.int64)
    unread = remaining["consumes"] == 0 if "consumes" in remaining else np.zeros(size, np.bool_)
    weightless = remaining["produces"] == 0 if "produces" in remaining else np.zeros(size, np.bool_)
    shift = remaining.get("bias", nothing) + remaining.get("norm", nothing)
    dead = unread | (weightless & (shift == 0))
    return dead, weightless & ~dead


def by_unit(channels: NDArray[np.generic], member: Member, size: int) -> NDArray[np.generic]:
    """Return values per channel as an array of shape (units, channels of a unit)."""
    return channels[member.channels(size)]


def _count(target: Target, predicate: Predicate) -> int:
    if isinstance(predicate, UnitCut):
        units = predicate.chosen()
        return int(units.remaining[units.pruned].sum())
    if isinstance(predicate, AnyCut) and target.remaining_mask is None:
        kept = math.prod(int((~cut.chosen().pruned).sum()) for cut in predicate.cuts)
        dims = {cut.dim for cut in predicate.cuts}
        others = math.prod(size for dim, size in enumerate(target.shape) if dim not in dims)
        return target.size - kept * others
    count = 0
    for start, stop in chunks(target.size):
        pruned = predicate.prunes(start, stop)
        if target.remaining_mask is not None:
            pruned = pruned & target.remaining_mask(start, stop)
        count += int(np.count_nonzero(pruned))
    return count


def _nbytes(readers: Sequence[Mapping[str, Scores]]) -> int:
    return sum(scores.nbytes for one in readers for scores in one.values())


def _nan_error(path: str, name: str, scores: Numbers) -> RecipeError:
    unit = int(np.flatnonzero(np.isnan(scores))[0])
    return RecipeError(
        "{path}: {name} has a NaN score, of unit {unit}. Replace it with a number; units of "
        "infinite score are pruned last.",
        path=path,
        name=name,
        unit=unit,
    )


def _channel_norms(target: Target, scores: Scores, dim: int, p: float, monitor: Monitor) -> Numbers:
    def compute() -> Numbers:
        mask = target.remaining_mask
        if not scores.shape:
            norms = remaining_span(scores, mask, 0, 1).abs()
        else:
            norms = score_norms(scores, mask, p, dim, monitor=monitor)
        array: Numbers = norms.double().numpy()
        return array

    def skip() -> None:
        monitor.expect(scores.nbytes)
        monitor.advance(scores.nbytes)

    return _cached(target, (scores, target.remaining_mask, dim, p), compute, skip)


def _cached(
    target: Target,
    key: tuple[object, ...],
    compute: Callable[[], Numbers],
    skip: Callable[[], None] = lambda: None,
) -> Numbers:
    cache = target.histogram_cache.norms if target.histogram_cache else None
    cached = cache.get(key) if cache else None
    if cached is not None:
        skip()
        return cached
    computed = compute()
    if cache:
        cache.put(key, computed)
    return computed
