"""What the ready layouts show, computed on the engine thread. No Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.gui.views.mask.data import mask_levels
from prune_gui.gui.views.overview.data import parameter_subject
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO
from prune_gui.session.subjects import ModelSubject, Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution

MAX_CELLS: Final = 256
"""Maximum number of cells of a mask along a side: more are smaller than what a printer resolves."""
MAX_BARS: Final = 72  # more bars than this are summed up by block


@dataclass(frozen=True, slots=True, eq=False)
class MaskCells:
    """The mask of a parameter with a number of rows and columns: a level per cell."""

    levels: NDArray[np.uint16]  # see `mask_levels`
    size: tuple[int, int]
    sparsity: float


@dataclass(frozen=True, slots=True, eq=False)
class Bar:
    """What is pruned of a parameter or of a block: numbers of elements by code.

    The heading is above the first of several bars; `block` is beside the first bar of a block.
    """

    heading: str
    block: str
    label: str
    counts: Mapping[int, int]

    @property
    def sparsity(self) -> float:
        """The share that is not kept, in [0, 1]."""
        return 1 - self.counts.get(KEPT, 0) / max(1, sum(self.counts.values()))


@dataclass(frozen=True, slots=True, eq=False)
class FigureData:
    """The content of the layouts. `masks` are of the chosen parameter, before and after.

    The axes are the labels of its rows and of its columns.
    """

    subject: ModelSubject
    arrangement: Arrangement
    bars: Mapping[str, Bar]
    chosen: Subject | None = None
    axes: tuple[str, str] = ("", "")
    masks: tuple[MaskCells, ...] = ()

    def listed(self, *, by_block: bool) -> list[Bar]:
        """Return the bars in the order of the sections; one per block if there are too many."""
        listed = []
        for section in self.arrangement.sections:
            for row in section.rows:
                bars = [self.bars[name] for name in row.names if name is not None]
                if section.roles and (by_block or len(self.bars) > MAX_BARS):
                    counts = sum((Counter(bar.counts) for bar in bars), Counter[int]())
                    bars = [Bar(section.title, "", row.label, counts)]
                listed += bars
        return listed


def figure_data(
    subject: ModelSubject,
    before: Resolution,
    chosen: Subject | None,
    axes: tuple[str, str],
    monitor: Monitor,
) -> FigureData:
    """Return the content of the layouts; `before` is the original, or the file itself."""
    tensors, counts = subject.resolution.checkpoint.tensors, subject.resolution.counts
    found = Arrangement.of(tensors, counts)
    bars = {}
    for section in found.sections:
        for row in section.rows:
            heading, block = section.title or row.label, row.label if section.roles else ""
            labels = row.captions or [" ".join(filter(None, role)) for role in section.roles]
            for name, label in zip(row.names, labels, strict=True):
                if name is not None:
                    elements = _counts(parameter_subject(subject, name))
                    bars[name] = Bar(heading, block, label, elements)
    if chosen is None:
        return FigureData(subject, found, bars)
    original = Subject(before, before.checkpoint.tensors[chosen.name], None)
    if before.checkpoint is chosen.resolution.checkpoint:
        original = replace(original, file_zeros=chosen.file_zeros)
    masks = _cells(original, monitor), _cells(chosen, monitor)
    return FigureData(subject, found, bars, chosen, axes, masks)


def _counts(subject: Subject) -> dict[int, int]:
    """Return numbers of elements by code. Zeros of the file count where no step may prune them."""
    counts = subject.counts()
    if counts.keys() <= {KEPT, IN_FILE} and subject.zeros:
        counts |= {KEPT: counts[KEPT] - subject.zeros, ZERO: subject.zeros}
    return counts


def layout_of(shape: tuple[int, ...]) -> KernelLayout | SliceLayout:
    """Return the layout of a mask, the first that the view offers."""
    return KernelLayout.of(shape) or SliceLayout.wrapped(shape) or SliceLayout.flattened(shape)


def _cells(subject: Subject, monitor: Monitor) -> MaskCells:
    # torch: slow to import
    from prune_gui.raster.cell_grid import CellGrid
    from prune_gui.raster.density import density

    layout = layout_of(subject.info.shape)
    size = layout.rows, layout.columns
    down, across = (ceil(length / ceil(length / MAX_CELLS)) for length in size)
    cells = density(subject.marked, subject.name, CellGrid.over(layout, (down, across)), monitor)
    bar = Bar("", "", "", _counts(subject))
    return MaskCells(mask_levels(cells, subject.draft), size, bar.sparsity)
