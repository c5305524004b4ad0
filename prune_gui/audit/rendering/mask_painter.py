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
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.layouts import ParameterLayout


@dataclass(frozen=True, slots=True)
class MaskPainter:
    """Paints which elements are pruned, as levels.

    Attributes:
        subject: the parameter and its resolution.
    """

    subject: Subject

    @property
    def is_part(self) -> bool:
        """False: a mask reads values only of parameters that were read for it before."""
        return False

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal pictures."""
        return (*self.subject.marked_key, self.subject.draft)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle.

        Kinds of rare cells: with a pruned element, with a kept one. Zeros in the file count as
        pruned.
        """
        from prune_gui.raster.cell_grid import CellGrid  # torch: slow to import
        from prune_gui.raster.density import density

        subject = self.subject
        grid = CellGrid.over(layout, part.cells, part.rows, part.columns)
        cells = density(subject.marked, subject.name, grid, monitor)
        levels = mask_levels(cells, subject.draft)
        return RasterBlock(levels, (cells.share > 0, cells.share < 1))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return the weights as texts."""
        from prune_gui.raster.layouts import flat_span  # torch: slow to import
        from prune_gui.statistics.element_values import weights

        subject = self.subject
        measure = weights(subject.resolution, subject.name, flat_span(layout, rows, columns))
        return texts(measure, layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal profiles."""
        return self.subject.marked_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the share of each row and column that is pruned, or zero in the file."""
        from prune_gui.raster.cell_statistics import pruned_shares  # torch: slow to import

        return pruned_shares(self.subject.marked, self.subject.name, layout, monitor)
