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
    from prune_gui.recipe import Resolution


def marked_resolution(subject: Subject) -> Resolution:
    """Return the resolution of a subject, with kept zeros of the file marked if there are any."""
    if subject.zeros:
        return subject.resolution.marking_zeros(subject.name)
    return subject.resolution


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
        return (*self.profile_key, self.subject.draft)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle.

        Kinds of rare cells: with a pruned element, with a kept one. Zeros that are marked count as
        pruned.
        """
        from prune_gui.audit.raster.density import density  # torch: slow to import

        subject, resolution = self.subject, marked_resolution(self.subject)
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
    def profile_key(self) -> tuple[Hashable, ...]:
        """A key that is equal for equal profiles."""
        return (*self.subject.mask_key, self.subject.zeros > 0)

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the share of each row and column that is pruned, or zero in the file."""
        from prune_gui.audit.raster.profiles import pruned_shares  # torch: slow to import

        return pruned_shares(marked_resolution(self.subject), self.subject.name, layout, monitor)
