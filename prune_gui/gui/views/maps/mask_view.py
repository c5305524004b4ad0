"""The mask of a parameter of any size: a density, or single elements if zoomed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.audit.rendering.colours import Colours
from prune_gui.audit.rendering.mask_painter import MaskPainter
from prune_gui.audit.rendering.tile_render import RenderedView
from prune_gui.audit.view_data.legend_text import legend
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.map_content import MapContent
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench


class MaskContent(MapContent):
    """Shows which elements are kept, and which step pruned the others."""

    lane = "mask"

    def __init__(self) -> None:
        super().__init__()
        self._colour_by = ElidedComboBox()
        self._colour_by.setAccessibleName(tr("Colour by"))
        self._colour_by.setToolTip(tr("Meaning of the colours"))
        self._colour_by.addItem(tr("Coloured by step"), False)
        self._colour_by.addItem(tr("Kept or pruned"), True)
        self._colour_by.currentIndexChanged.connect(self.changed)
        self.name = tr("Mask")
        self.picture_name = tr("Picture of the mask")
        self.profiles_tip = tr("Show the share pruned of each row and column")
        self.controls = [self._colour_by]

    @property
    def _plain(self) -> bool:
        return bool(self._colour_by.currentData())

    def painter(self, subject: Subject, colours: Colours) -> MaskPainter:
        """Return a painter of the mask."""
        return MaskPainter(subject, colours, self._plain)

    def legend(self, subject: Subject, colours: Colours, rendered: RenderedView) -> str:
        """Return the colours of the steps as rich text."""
        zeros = 0 if self._plain else subject.zeros
        marks = len(rendered.painted.marks)
        return legend(subject, colours, plain=self._plain, marks=marks, zeros=zeros)

    def profile_titles(self) -> Titles:
        """Return the titles of the shares."""
        return Titles(
            tr("Share pruned of each column"), tr("Share pruned of each row"), shares=True
        )


def mask_view(workbench: Workbench, viewport: Viewport) -> MapView:
    """Return the view of the mask."""
    return MapView(workbench, viewport, MaskContent())
