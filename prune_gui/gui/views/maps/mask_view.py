"""The mask of a parameter of any size: densities, or single elements if zoomed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from PySide6.QtWidgets import QCheckBox

from prune_gui.audit.rendering.mask_levels import (
    Contrast,
    coloured,
    density_table,
    local_contrast,
    step_table,
)
from prune_gui.audit.rendering.mask_painter import MaskPainter
from prune_gui.audit.rendering.tile_render import RenderedView
from prune_gui.audit.rendering.tiles import Pixels
from prune_gui.audit.view_data.legend_text import legend
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.density_bar import DensityBar
from prune_gui.gui.views.maps.map_content import MapContent
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel
from prune_gui.language import tr
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench

ColourBy = Literal["step", "plain", "main_step"]
"""By step or kept and pruned, with densities if zoomed out; or by the main step at any zoom."""


class MaskContent(MapContent):
    """Shows which elements are kept, and which step pruned the others."""

    lane = "mask"
    bar: DensityBar

    def __init__(self) -> None:
        super().__init__()
        self._colour_by = ElidedComboBox()
        self._colour_by.setAccessibleName(tr("Colour by"))
        self._colour_by.setToolTip(
            tr(
                "Meaning of the colours. Zoomed out, a cell of several weights shows the share "
                "that is kept,\nor the colour of the step that pruned most of them."
            )
        )
        items: tuple[tuple[str, ColourBy], ...] = (
            (tr("Density and steps"), "step"),
            (tr("Density, kept or pruned"), "plain"),
            (tr("Main step of each cell"), "main_step"),
        )
        for text, colour_by in items:
            self._colour_by.addItem(text, colour_by)
        self._colour_by.currentIndexChanged.connect(self.recoloured)
        self.name = tr("Mask")
        self.picture_name = tr("Picture of the mask")
        self.profiles_tip = tr(
            "Show the share of each row and column that is pruned, or zero in the file"
        )
        self.controls = [self._colour_by]
        self.bar = DensityBar()
        self.bar.moved.connect(self._set_contrast)
        self._local = QCheckBox(tr("Local range"))
        self._local.setToolTip(
            tr(
                "Fit the contrast to the visible cells: between the smallest and the largest share "
                "kept,\nwithout 1 % of the cells at either end"
            )
        )
        self._local.clicked.connect(self._toggle_local)
        self._cell_size = ElidedLabel(tr("Size of a cell"))
        self.scale = [self.bar, self._local, self._cell_size]

    def _set_contrast(self) -> None:
        self._local.setChecked(False)
        self.recoloured.emit()

    def _toggle_local(self, on: bool) -> None:
        if not on:
            self.bar.contrast = Contrast()
        self.recoloured.emit()

    def painter(self, subject: Subject, _colours: Colours) -> MaskPainter:
        """Return a painter of the mask."""
        return MaskPainter(subject)

    def shows_density(self, cell: tuple[int, int]) -> bool:
        """Return whether cells of a size show densities in place of steps."""
        return cell != (1, 1) and self._colour_by.currentData() != "main_step"

    def fit_colours(self, visible: Pixels, cell: tuple[int, int], colours: Colours) -> bool:
        """Fit the contrast to the visible cells, if the user wants that."""
        before, dense = self.bar.contrast, self.shows_density(cell)
        for widget in (self.bar, self._local):
            widget.setEnabled(dense)
        local = local_contrast(visible) if dense and self._local.isChecked() else None
        self.bar.show_contrast(local or before, colours)
        down, across = cell
        self._cell_size.say(
            tr(
                "{down:,} \N{MULTIPLICATION SIGN} {across:,} weights per cell",
                down=down,
                across=across,
            )
            if dense
            else ""
        )
        return self.bar.contrast != before

    def pixels(self, levels: Pixels, cell: tuple[int, int], colours: Colours) -> Pixels:
        """Return the colours of the densities or steps."""
        if self.shows_density(cell):
            return coloured(levels, density_table(colours, self.bar.contrast))
        plain = self._colour_by.currentData() == "plain"
        return coloured(levels, step_table(colours, plain=plain))

    def legend(self, subject: Subject, colours: Colours, rendered: RenderedView) -> str:
        """Return the colours of the steps as rich text."""
        is_dense = self.shows_density(rendered.tile_grid.cell)
        plain = self._colour_by.currentData() == "plain"
        return legend(
            subject,
            colours,
            plain=plain,
            marks=len(rendered.painted.marks),
            zeros=0 if plain else subject.zeros,
            filled=not is_dense,
        )

    def clear_caches(self) -> None:
        """Forget the contrast, which was set for the previous file."""
        self.bar.contrast = Contrast()

    def profile_titles(self, subject: Subject) -> Titles:
        """Return the titles of the shares."""
        if subject.zeros:
            return Titles(
                tr("Share zero or pruned of each column"),
                tr("Share zero or pruned of each row"),
                shares=True,
            )
        return Titles(
            tr("Share pruned of each column"), tr("Share pruned of each row"), shares=True
        )


def mask_view(workbench: Workbench, viewport: Viewport) -> MapView:
    """Return the view of the mask."""
    return MapView(workbench, viewport, MaskContent())
