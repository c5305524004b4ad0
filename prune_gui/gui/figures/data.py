"""What the ready layouts show, computed on the engine thread. No Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from prune_gui.gui.views.maps.tiles import Pixels, TileRegion
from prune_gui.gui.views.mask.data import MaskPainter
from prune_gui.gui.views.overview.data import parameter_subject
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.monitor import Monitor
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.subjects import ModelSubject, Subject, with_zeros

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution

MAX_NAME_CHARS: Final = 100  # of a suggested file name
MAX_CELLS: Final = 2048
"""Maximum number of cells of a mask along a side, whatever the resolution."""
MAX_BARS: Final = 72  # more bars than this are summed up by block


@dataclass(frozen=True, slots=True, eq=False)
class ShownMask:
    """The mask of a parameter in a layout."""

    subject: Subject
    layout: KernelLayout | SliceLayout
    sparsity: float
    _painted: dict[tuple[int, int], Pixels] = field(default_factory=dict)

    def levels(self, cell: tuple[int, int], monitor: Monitor) -> Pixels:
        """Return a level per cell (see `mask_levels`), given its rows and columns."""
        if cell not in self._painted:
            rows, columns = self.layout.rows, self.layout.columns
            cells = ceil(rows / cell[0]), ceil(columns / cell[1])
            region = TileRegion(range(rows), range(columns), cells)
            painted = MaskPainter(self.subject).paint(self.layout, region, monitor)
            self._painted[cell] = painted.pixels
        return self._painted[cell]


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
        return pruned_share(self.counts)


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
    masks: tuple[ShownMask, ...] = ()

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
    layout = layout_of(chosen.info.shape)
    masks = tuple(
        ShownMask(each, layout, pruned_share(_counts(each))) for each in (original, chosen)
    )
    return FigureData(subject, found, bars, chosen, axes, masks)


def pruned_share(counts: Mapping[int, int]) -> float:
    """Return the share of elements that are not kept, in [0, 1], given their numbers by code."""
    return 1 - counts.get(KEPT, 0) / max(1, sum(counts.values()))


def _counts(subject: Subject) -> dict[int, int]:
    return with_zeros(subject.counts(), subject.zeros)


def layout_of(shape: tuple[int, ...]) -> KernelLayout | SliceLayout:
    """Return the layout of a mask, the first that the view offers."""
    return KernelLayout.of(shape) or SliceLayout.wrapped(shape) or SliceLayout.flattened(shape)


def file_name(text: str) -> str:
    """Return a text as a file name: special characters become "_", and only the end is kept."""
    text = "".join(char if char.isalnum() or char in "._-" else "_" for char in text)
    return text[-MAX_NAME_CHARS:]
