"""Predicates that prune the single elements below a cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr, trn
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.selection.batched import mark_batched
from prune_gui.pruning.selection.keys import (
    Bits,
    KeySource,
    RemainingMask,
    ScoreKeys,
    with_equal_nans,
)
from prune_gui.pruning.selection.radix_select import Cut, mark_codes
from prune_gui.pruning.selection.ranking import Ranking
from prune_gui.pruning.selection.row_column_scores import RowColumnScores
from prune_gui.pruning.selection.rows import RowCuts, RowShape, gathered_rows


@dataclass(frozen=True, slots=True, eq=False)
class ElementCut(Predicate):
    """Prunes the elements whose keys are below a cut.

    Attributes:
        ranking: the ranked elements.
        cut: computed on first use.
    """

    ranking: Ranking
    cut: Lazy[Cut]

    @property
    def note(self) -> str:
        """The number of non-finite scores, in words."""
        non_finite = self.cut().non_finite if self.cut.is_computed else 0
        if not non_finite:
            return ""
        return trn(
            "{count:,} NaN or infinite score ranks as the largest",
            "{count:,} NaN or infinite scores rank as the largest",
            non_finite,
        )

    @property
    def lazy(self) -> Lazy[Cut]:
        """The value that `note` depends on."""
        return self.cut

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        mark_codes(self.ranking.keys, self.cut(), start, step, codes)

    @staticmethod
    def mark_each(
        every: Sequence[ElementCut], bounds: NDArray[np.int64], step: int, codes: NDArray[np.uint8]
    ) -> None:
        """Apply `mark` to whole concatenated parameters."""
        mark_batched(
            [one.ranking.keys for one in every], [one.cut() for one in every], bounds, step, codes
        )

    def covers(self, other: Predicate) -> bool:
        """Return whether `other` is a cut of the same keys that is not above this one."""
        if not isinstance(other, ElementCut) or self.ranking.keys != other.ranking.keys:
            return False
        cut, lower = self.cut(), other.cut()
        return (cut.threshold, cut.last_tie) >= (lower.threshold, lower.last_tie)

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank of the element at a flat index; reads all keys."""
        cut = self.cut()
        keys = with_equal_nans(self.ranking.keys, key_at(self.ranking.keys, flat))
        key = key_at(keys, flat)
        before, ranked = 0, 0
        count = partial(_count_before, keys, self.ranking.remaining_mask, key, flat)
        for before_in_span, ranked_in_span in run(count, chunks(keys.size)):
            before, ranked = before + before_in_span, ranked + ranked_in_span
        return ElementRank(
            pruned=key < cut.threshold or (key == cut.threshold and flat <= cut.last_tie),
            score=keys.value(key),
            cut=keys.value(cut.threshold) if cut.pruned else None,
            rank=before,
            ranked=ranked,
            factors=factors_at(self.ranking.keys, flat),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowCut(Predicate):
    """Prunes the elements of each row whose keys are below the cut of the row.

    Attributes:
        ranking: the ranked elements.
        shape: where the elements of a row are.
        cuts: computed on first use.
    """

    ranking: Ranking
    shape: RowShape
    cuts: Lazy[RowCuts]
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        cuts = self.cuts()
        keys = with_equal_nans(self.ranking.keys, int(cuts.thresholds.max()))
        bits = keys.bits(start, start + codes.size)
        key_kernels.mark_rows(
            bits,
            bits.dtype.type(keys.magnitude),
            cuts.thresholds,
            cuts.last_ties,
            self.shape.after,
            start,
            np.uint8(step),
            codes,
        )

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank in its row of the element at a flat index."""
        cuts, (row, column) = self.cuts(), self.shape.row_and_column(flat)
        keys, mask = self.ranking.keys, self.ranking.remaining_mask
        keys = with_equal_nans(keys, key_at(keys, flat))
        key, threshold = key_at(keys, flat), int(cuts.thresholds[row])
        if self.shape.before == 1:
            span = row * self.shape.columns, (row + 1) * self.shape.columns
            before, ranked = _count_before(keys, mask, key, flat, span)
        else:
            bits, kept = gathered_rows(
                replace(self.ranking, keys=keys), self.shape, slice(row, row + 1)
            )
            flags = None if kept is None else kept[0]
            before, ranked = _count_in(bits[0], keys, flags, key, column)
        last = int(cuts.last_ties[row])
        return ElementRank(
            pruned=key < threshold or (key == threshold and column <= last),
            unit=tr("weight of row {row}", row=row),
            score=keys.value(key),
            cut=keys.value(threshold) if last >= 0 else None,
            rank=before,
            ranked=ranked,
            factors=factors_at(self.ranking.keys, flat),
        )


def key_at(keys: KeySource, flat: int) -> int:
    """Return the key of the element at a flat index."""
    return int(keys.bits(flat, flat + 1)[0]) & keys.magnitude


def factors_at(keys: KeySource, flat: int) -> tuple[float, float] | None:
    """Return the factors of the row and column of an element; None if its score has none."""
    scores = keys.scores if isinstance(keys, ScoreKeys) else None
    return scores.factors_at(flat) if isinstance(scores, RowColumnScores) else None


def _count_before(
    keys: KeySource,
    remaining_mask: RemainingMask | None,
    key: int,
    flat: int,
    span: tuple[int, int],
) -> tuple[int, int]:
    """Count the remaining elements in `span`: those that rank before an element, and all."""
    start, stop = span
    mask = None if remaining_mask is None else remaining_mask(start, stop)
    return _count_in(keys.bits(start, stop), keys, mask, key, flat - start)


def _count_in(
    bits: Bits, keys: KeySource, mask: NDArray[np.bool_] | None, key: int, at: int
) -> tuple[int, int]:
    """Count the remaining of some elements: those that rank before the one at `at`, and all."""
    as_key = bits.dtype.type
    before, remaining = key_kernels.count_before(
        bits, as_key(keys.magnitude), mask, as_key(key), at
    )
    return int(before), int(remaining)
