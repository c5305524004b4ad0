"""Single entries, cut where their keys end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr, trn
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.selection.batched import mark_batched
from prune_gui.pruning.selection.keys import KeySource, RemainingMask, with_equal_nans
from prune_gui.pruning.selection.radix_select import Cut, Ranking, mark_codes
from prune_gui.pruning.selection.rows import RowCuts


@dataclass(frozen=True, slots=True, eq=False)
class ElementCut(Predicate):
    """Prunes the entries whose keys lie below a cut.

    Attributes:
        ranking: the entries that were ranked.
        cut: found when it is first needed.
    """

    ranking: Ranking
    cut: Lazy[Cut]

    @property
    def note(self) -> str:
        """How many scores are no plain numbers."""
        odd = self.cut().non_finite if self.cut.is_known else 0
        if not odd:
            return ""
        return trn(
            "{count:,} NaN or infinite score ranks as the largest",
            "{count:,} NaN or infinite scores rank as the largest",
            odd,
        )

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        mark_codes(self.ranking.keys, self.cut(), start, step, codes)

    @staticmethod
    def mark_each(
        every: Sequence[ElementCut], bounds: NDArray[np.int64], step: int, codes: NDArray[np.uint8]
    ) -> None:
        """Set to `step` those codes that are 0 and whose entry goes, of many whole parameters."""
        mark_batched(
            [one.ranking.keys for one in every], [one.cut() for one in every], bounds, step, codes
        )

    def element_rank(self, flat: int) -> ElementRank:
        """Return how the entry of that flat index stood; counts those of lower rank."""
        cut = self.cut()
        keys = with_equal_nans(self.ranking.keys, key_at(self.ranking.keys, flat))
        key = key_at(keys, flat)
        before, ranked = 0, 0
        count = partial(_count_before, keys, self.ranking.remaining_mask, key, flat)
        for part_before, part in run(count, chunks(keys.size)):
            before, ranked = before + part_before, ranked + part
        return ElementRank(
            pruned=key < cut.threshold or (key == cut.threshold and flat <= cut.last_tie),
            score=keys.value(key),
            cut=keys.value(cut.threshold) if cut.pruned else None,
            rank=before,
            ranked=ranked,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowCut(Predicate):
    """Prunes in each row the entries whose keys lie below a cut of its own.

    Attributes:
        ranking: the entries that were ranked.
        columns: entries per row.
        cuts: found when they are first needed.
    """

    ranking: Ranking
    columns: int
    cuts: Lazy[RowCuts]
    note: str = ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes."""
        cuts = self.cuts()
        keys = with_equal_nans(self.ranking.keys, int(cuts.thresholds.max()))
        bits = keys.bits(start, start + codes.size)
        key_kernels.mark_rows(
            bits,
            bits.dtype.type(keys.magnitude),
            cuts.thresholds,
            cuts.last_ties,
            self.columns,
            start,
            np.uint8(step),
            codes,
        )

    def element_rank(self, flat: int) -> ElementRank:
        """Return how the entry of that flat index stood in its row."""
        cuts, (row, place) = self.cuts(), divmod(flat, self.columns)
        keys = with_equal_nans(self.ranking.keys, key_at(self.ranking.keys, flat))
        key, threshold = key_at(keys, flat), int(cuts.thresholds[row])
        first = row * self.columns
        before, ranked = _count_before(
            keys, self.ranking.remaining_mask, key, flat, (first, first + self.columns)
        )
        last = int(cuts.last_ties[row])
        return ElementRank(
            pruned=key < threshold or (key == threshold and place <= last),
            unit=tr("entry of row {row}", row=row),
            score=keys.value(key),
            cut=keys.value(threshold) if last >= 0 else None,
            rank=before,
            ranked=ranked,
        )


def key_at(keys: KeySource, flat: int) -> int:
    """Return the key of one entry."""
    return int(keys.bits(flat, flat + 1)[0]) & keys.magnitude


def _count_before(
    keys: KeySource,
    remaining_mask: RemainingMask | None,
    key: int,
    flat: int,
    span: tuple[int, int],
) -> tuple[int, int]:
    """Count the entries still there that go before one, and all that are there."""
    start, stop = span
    bits = keys.bits(start, stop)
    here = None if remaining_mask is None else remaining_mask(start, stop)
    as_key = bits.dtype.type
    before, there = key_kernels.count_before(
        bits, as_key(keys.magnitude), here, as_key(key), flat - start
    )
    return int(before), int(there)
