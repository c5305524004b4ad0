"""The painter of a mask: a density, or single elements if zoomed in. No Qt."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_gui.audit.rendering.cell_labels import Texts, texts
from prune_gui.audit.rendering.mask_levels import mask_levels
from prune_gui.audit.rendering.tiles import RasterBlock, TileRegion
from prune_gui.audit.view_data.subject import Subject

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.monitor import Monitor


@dataclass(frozen=True, slots=True)
class MaskPainter:
    """Paints which elements are pruned, as levels.

    Attributes:
        subject: the parameter and its resolution.
    """

    subject: Subject

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal pictures."""
        return (*self.subject.mask_key, self.subject.draft, self._marks_zeros)

    @property
    def _marks_zeros(self) -> bool:
        """Whether kept zeros of the file have a colour of their own."""
        return self.subject.zeros > 0

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle.

        Kinds of rare cells: with a pruned element, with a kept one. Zeros that are marked count as
        pruned.
        """
        from prune_gui.audit.raster.density import density  # torch: slow to import

        subject = self.subject
        resolution = subject.resolution
        if self._marks_zeros:
            resolution = resolution.marking_zeros(subject.name)
        cells = density(
            resolution, subject.name, layout, part.rows, part.columns, part.cells, monitor
        )
        levels = mask_levels(cells, subject.draft)
        return RasterBlock(levels, (cells.share > 0, cells.share < 1))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return the weights as texts."""
        from prune_gui.audit.statistics.element_values import weights  # torch: slow to import

        subject = self.subject
        return texts(weights(subject.resolution, subject.name), layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal profiles."""
        return self.subject.mask_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the share pruned of each row and column."""
        from prune_gui.audit.raster.profiles import pruned_shares  # torch: slow to import

        return pruned_shares(self.subject.resolution, self.subject.name, layout, monitor)
