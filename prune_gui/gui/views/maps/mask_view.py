"""The mask of a parameter of any size: a density, or single elements if zoomed in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from prune_gui.audit.rendering.cell_labels import Texts, texts
from prune_gui.audit.rendering.colours import Colours
from prune_gui.audit.rendering.mask_picture import colour
from prune_gui.audit.rendering.tile_render import RenderedView
from prune_gui.audit.rendering.tiles import RasterBlock, TileRegion
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.profiled_view import ProfiledView
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor


@dataclass(frozen=True, slots=True)
class MaskPainter:
    """Paints which elements are pruned.

    Attributes:
        subject: the parameter and its resolution.
        colours: colours of the theme.
        plain: whether all steps have the same colour.
    """

    subject: Subject
    colours: Colours
    plain: bool

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal pictures."""
        return (*self.subject.mask_key, self.subject.draft, self.colours, self.plain)

    def paint(self, layout: ParameterLayout, part: TileRegion, monitor: Monitor) -> RasterBlock:
        """Paint a rectangle. Kinds of rare cells: with a pruned element, with a kept element."""
        from prune_gui.audit.raster.density import density  # torch: slow to import

        subject = self.subject
        cells = density(
            subject.resolution, subject.name, layout, part.rows, part.columns, part.cells, monitor
        )
        pixels = colour(cells, self.colours, subject.draft, plain=self.plain)
        return RasterBlock(pixels, (cells.share > 0, cells.share < 1))

    def texts(self, layout: ParameterLayout, rows: range, columns: range) -> Texts:
        """Return the weights as texts."""
        from prune_gui.audit.statistics.element_values import weights

        subject = self.subject
        return texts(weights(subject.resolution, subject.name), layout, rows, columns)

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal profiles."""
        return self.subject.mask_key

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the share pruned of each row and column."""
        from prune_gui.audit.raster.profiles import pruned_shares

        return pruned_shares(self.subject.resolution, self.subject.name, layout, monitor)


class MaskView(ProfiledView):
    """Shows which elements are kept, and which step pruned the others."""

    lane = "mask"

    def __init__(
        self, workbench: Workbench, viewport: Viewport, parent: QWidget | None = None
    ) -> None:
        self._colour_by = ElidedComboBox()
        self._colour_by.setAccessibleName(tr("Colour by"))
        self._colour_by.setToolTip(tr("What the colours stand for"))
        self._colour_by.addItem(tr("Coloured by step"), False)
        self._colour_by.addItem(tr("Kept or pruned"), True)
        super().__init__(workbench, [self._colour_by], viewport, parent)
        self._profiles.setToolTip(tr("Show the share pruned of each row and column"))
        self.setAccessibleName(tr("Mask"))
        self._plot.setAccessibleName(tr("Picture of the mask"))
        self._colour_by.currentIndexChanged.connect(self.refresh)

    def _painter(self, subject: Subject) -> MaskPainter:
        return MaskPainter(subject, self.colours(), bool(self._colour_by.currentData()))

    def _describe_colours(self, subject: Subject, rendered: RenderedView) -> None:
        self._legend.show_subject(
            subject,
            self.colours(),
            plain=bool(self._colour_by.currentData()),
            marks=len(rendered.painted.marks),
        )

    def _titles(self) -> Titles:
        return Titles(
            tr("Share pruned of each column"), tr("Share pruned of each row"), shares=True
        )
