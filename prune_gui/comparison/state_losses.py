"""What every parameter loses from one state to another, computed as the weights are read.

A parameter that is smaller on one side, as in a compact file, counts as zero there where it lacks
slices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import TensorInfo
from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.monitor import Monitor
from prune_gui.recipe import Resolution
from prune_gui.recipe.recipe import reconstruction_errors
from prune_gui.statistics.losses import LOSSES, WeightState, energy_share, loss


@dataclass(frozen=True, eq=False)
class StateLosses(Sequence[str]):
    """The names of the parameters that two states have in common, and what each of them loses.

    `infos` are of the side with more elements.
    `measures` has the `LOSSES` of each parameter; it is read-only. Tensors that are no weights have
    no energy.
    """

    left: Resolution
    right: Resolution
    infos: tuple[TensorInfo, ...]
    measures: NDArray[np.void]

    def __len__(self) -> int:
        return len(self.infos)

    def __getitem__(self, row: int) -> str:  # type: ignore[override]  # no slices are needed
        return self.infos[row].name

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(info.name for info in self.infos)

    @cached_property
    def listed(self) -> StateLosses:
        """Those of weights, and of other tensors that differ (see `TensorInfo.kind`)."""
        measures = self.measures
        differs = (measures["change"] > 0) | (measures["left"] != measures["right"])
        listed = differs | np.array([info.kind is None for info in self.infos], np.bool_)
        infos = tuple(self.infos[row] for row in np.flatnonzero(listed))
        return replace(self, infos=infos, measures=measures[listed])

    @cached_property
    def weights(self) -> StateLosses:
        """Those of weights, which totals count (see `TensorInfo.kind`)."""
        is_weight = np.array([info.kind is None for info in self.infos], np.bool_)
        infos = tuple(self.infos[row] for row in np.flatnonzero(is_weight))
        return replace(self, infos=infos, measures=self.measures[is_weight])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([info.numel for info in self.infos], np.int64)

    @property
    def omitted(self) -> int:
        """The number of parameters that are not on both sides."""
        tensors = {**self.left.checkpoint.tensors, **self.right.checkpoint.tensors}
        names = self.left.counts.keys() ^ self.right.counts.keys()
        return sum(tensors[name].kind is None for name in names)

    @cached_property
    def unmatched(self) -> NDArray[np.bool_]:
        """Whether a parameter has another shape on one side, but not slices of the other side."""
        unmatched: NDArray[np.bool_] = np.isnan(self.measures["change"])
        return unmatched

    @property
    def is_complete(self) -> bool:
        return bool(self.measures["known"].all())

    @property
    def progress(self) -> float:
        """The share of the elements that are read, in [0, 1]."""
        return float(self.sizes[self.measures["known"]].sum() / max(1, self.sizes.sum()))

    @cached_property
    def before(self) -> NDArray[np.float64]:
        """The share of zeros on the left, in [0, 1]; NaN while it is not known."""
        return self._where_known(self.measures["left"] / np.maximum(self.sizes, 1))

    @cached_property
    def after(self) -> NDArray[np.float64]:
        return self._where_known(self.measures["right"] / np.maximum(self.sizes, 1))

    @cached_property
    def lost(self) -> NDArray[np.float64]:
        """The lost share of the energy; NaN also if there is none, or if it is infinite."""
        return energy_share(self.measures["lost"], self.measures["energy"])

    @cached_property
    def change(self) -> NDArray[np.float64]:
        """The L2 norm of the difference."""
        return self._where_known(np.sqrt(self.measures["change"]))

    @cached_property
    def iou(self) -> NDArray[np.float64]:
        """Intersection over union of the zeros; NaN if there are none."""
        either = self.measures["left"] + self.measures["right"] - self.measures["both"]
        ratio = np.full(len(self), np.nan)
        np.divide(self.measures["both"], either, out=ratio, where=either > 0)
        return ratio

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """The errors that a reconstruction recorded, on the right or else on the left; or NaN."""
        sides = self.right.checkpoint, self.left.checkpoint
        found = next(filter(None, (reconstruction_errors(one.metadata) for one in sides)), {})
        return np.array([found.get(name, np.nan) for name in self.names])

    def overlap(self, row: int) -> Overlap:
        """Return the overlap of the zeros of a parameter that is read."""
        left, right, both = (int(self.measures[of][row]) for of in ("left", "right", "both"))
        return Overlap(self[row], both, left - both, right - both, int(self.sizes[row]))

    @property
    def worst(self) -> tuple[str, float] | None:
        """The parameter that lost the largest share of its energy, and that share, if any did."""
        if not np.nan_to_num(self.lost).any():
            return None
        row = int(np.nanargmax(self.lost))
        return self[row], float(self.lost[row])

    def _where_known(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(self.measures["known"] & ~self.unmatched, values, np.nan)


def empty_losses(
    left: Resolution, right: Resolution, before: StateLosses | None = None
) -> StateLosses:
    """Return the parameters that two states have in common, without reading weights.

    Earlier losses are reused for parameters of the same values and masks on both sides.
    """
    names = [name for name in right.counts if name in left.counts]
    pairs = [[side.checkpoint.tensors[name] for side in (right, left)] for name in names]
    infos = tuple(max(pair, key=attrgetter("numel")) for pair in pairs)
    measures = np.zeros(len(names), LOSSES)
    if before is not None:
        earlier = {name: row for row, name in enumerate(before)}
        for row, name in enumerate(names):
            if (old := earlier.get(name)) is not None and (
                _key(before.left, name) == _key(left, name)
                and _key(before.right, name) == _key(right, name)
            ):
                measures[row] = before.measures[old]
    measures.flags.writeable = False
    return StateLosses(left, right, infos, measures)


def compute_losses(
    losses: StateLosses, wanted: Callable[[TensorInfo], bool], monitor: Monitor, first: str = ""
) -> StateLosses:
    """Return losses with those of more parameters: the `first`, changed ones, then smallest first.

    `wanted` is called before each is read; False stops.
    """
    left, right = losses.left, losses.right
    waiting = np.flatnonzero(~losses.measures["known"]).tolist()
    same = {row: _key(left, losses[row]) == _key(right, losses[row]) for row in waiting}
    waiting.sort(key=lambda row: (losses[row] != first, same[row], losses.infos[row].nbytes))
    measures = losses.measures.copy()
    monitor.expect(sum(losses.infos[row].nbytes for row in waiting))
    for row in waiting:
        info = losses.infos[row]
        if not wanted(info):
            break
        before, after = (WeightState.of(side, info.name) for side in (left, right))
        found = loss(before, after, info, monitor)
        measures[row] = (True, *[np.nan] * 3, 0, 0, 0) if found is None else found
        if info.kind is not None:
            measures[["energy", "lost"]][row] = 0, 0
    for side in (left, right):
        side.checkpoint.check()  # values of a file that changed meanwhile are invalid
    measures.flags.writeable = False
    return replace(losses, measures=measures)


def _key(resolution: Resolution, name: str) -> tuple[Hashable, ...]:
    """Return a key that is equal for equal values and masks of a parameter."""
    predicates = tuple(applied.predicate for applied in resolution.layers.get(name, ()))
    return resolution.checkpoint, predicates, resolution.values_key(name)
