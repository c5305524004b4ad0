"""One element of a parameter: its value, its score, and the step that pruned it."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.audit.statistics.score_blocks import element_ranks_of
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a parameter.

    Attributes:
        index: its index, one number per dimension.
        value: its value in the file.
        code: the step that pruned it; 0: kept, 255: pruned in the file.
        score: its score in the step that pruned it or, if it is kept, in the last step that ranked
            it; None if no step did.
        cut: the score of the last pruned unit in that step; None if the step prunes none.
        step: the number of that step.
    """

    index: tuple[int, ...]
    value: float
    code: int
    score: float | None = None
    cut: float | None = None
    step: int | None = None

    @property
    def margin(self) -> float | None:
        """The score minus the cut; at most 0 if pruned."""
        return None if self.score is None or self.cut is None else self.score - self.cut


def element_at(
    resolution: Resolution, name: str, layout: ParameterLayout, row: int, column: int
) -> Element:
    """Return the element at (row, column) of a parameter's layout."""
    flat, index = layout.flat(row, column), layout.index(row, column)
    value = float(resolution.checkpoint.view(name)[index])
    code = int(resolution.pruned_by_within(name, flat, flat + 1)[0])
    return Element(index, value, code, *_score_and_cut(resolution, name, flat, code))


def _score_and_cut(
    resolution: Resolution, name: str, flat: int, code: int
) -> tuple[float | None, float | None, int | None]:
    """Return score, cut and step of an element, as in `Element`."""
    for applied in reversed(resolution.layers.get(name, ())):
        read = element_ranks_of(applied.predicate)
        if read is None or applied.step == IN_FILE or code not in (KEPT, applied.step):
            continue
        block = read(flat, flat + 1)
        if block.ranked[0]:
            cut = float(block.cuts[0]) if block.cut[0] else None
            return float(block.scores[0]), cut, applied.step
    return None, None, None
