"""One weight: what it is, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.audit.statistics.score_blocks import element_ranks_of
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT


@dataclass(frozen=True, slots=True)
class Element:
    """One entry of a parameter.

    Attributes:
        index: along every dimension.
        value: in the file.
        code: which step pruned it; 0 kept, 255 in the file.
        score: by which the step that pruned it ranked it, or, if it is kept, the last one that
            did; None if none did.
        cut: the score of the last that goes in that step; None if none goes.
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
        """How far the score lies above the cut; at most 0 where pruned."""
        return None if self.score is None or self.cut is None else self.score - self.cut


def element_at(
    resolution: Resolution, name: str, layout: ParameterLayout, row: int, column: int
) -> Element:
    """Return the entry at a place of a parameter's picture."""
    flat, index = layout.flat(row, column), layout.index(row, column)
    value = float(resolution.checkpoint.view(name)[index])
    code = int(resolution.pruned_by_within(name, flat, flat + 1)[0])
    return Element(index, value, code, *_standing(resolution, name, flat, code))


def _standing(
    resolution: Resolution, name: str, flat: int, code: int
) -> tuple[float | None, float | None, int | None]:
    """Return the score and the cut that decided about an entry, and the step they are of."""
    for layer in reversed(resolution.layers.get(name, ())):
        look = element_ranks_of(layer.predicate)
        if look is None or layer.step == IN_FILE or code not in (KEPT, layer.step):
            continue
        found = look(flat, flat + 1)
        if found.ranked[0]:
            cut = float(found.cuts[0]) if found.cut[0] else None
            return float(found.scores[0]), cut, layer.step
    return None, None, None
