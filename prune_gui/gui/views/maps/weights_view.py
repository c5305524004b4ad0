"""The numbers of a parameter of any size: its values, its scores, or a difference of two files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QPushButton, QWidget

from prune_gui.audit.rendering.tile_render import RenderedView
from prune_gui.audit.rendering.weights_picture import (
    QUANTITIES,
    Quantity,
    ReachCache,
    WeightsPainter,
)
from prune_gui.audit.view_data.legend_text import SEPARATOR, unbroken
from prune_gui.audit.view_data.subject import Subject
from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.views.maps.map_content import MapContent
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.ramp_bar import RampBar
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.eliding import ElidedComboBox
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe.auxiliary_files import AuxiliaryFiles

CHOOSE: Final = deferred("Choose the checkpoint to compare with")
FILE_NAME_WIDTH_PX: Final = 80
"""Maximum width of a file name on its button."""


class WeightsContent(MapContent):
    """Shows a number per element as a colour: value, size, score, margin, or difference."""

    lane = "weights"
    bar: RampBar

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._quantity, self._step = ElidedComboBox(), ElidedComboBox()
        self._quantity.setAccessibleName(tr("Colour by"))
        self._quantity.setToolTip(tr("Meaning of the colours"))
        self._step.setAccessibleName(tr("Step"))
        self._step.setToolTip(tr("Step of the scores"))
        for quantity, style in QUANTITIES.items():
            title = tr(style.title)
            self._quantity.addItem(f"{title}…" if quantity == "difference" else title, quantity)
        self._choose_file = QPushButton(tr("File…"))
        self._choose_file.setToolTip(tr(CHOOSE))
        self._full_range = QCheckBox(tr("Full range"))
        self._full_range.setToolTip(
            tr("Scale the colours up to the outermost number; else to 99.9 % of the numbers")
        )
        self._other = ""
        self._files: AuxiliaryFiles | None = None
        self._reach_cache = ReachCache()
        self._is_whole = True
        self.bar = RampBar()
        self.scale = [self.bar, self._full_range, QWidget()]
        self.name = tr("Weights")
        self.picture_name = tr("Picture of the weights")
        self.profiles_tip = tr("Show the mean of the finite values in each row and column")
        self.controls = [self._quantity, self._step, self._choose_file]
        self._step.hide()
        self._choose_file.hide()
        self._quantity.activated.connect(self._choose)
        self._step.currentIndexChanged.connect(self.changed)
        self._choose_file.clicked.connect(self._ask_for_file)
        self._full_range.toggled.connect(self.changed)

    def compare_with(self, path: Path) -> None:
        """Show the difference to another checkpoint."""
        self._other = str(path.absolute())
        metrics = self._choose_file.fontMetrics()
        name = metrics.elidedText(
            escape_mnemonics(path.name), Qt.TextElideMode.ElideMiddle, FILE_NAME_WIDTH_PX
        )
        self._choose_file.setText(name.replace("&", "&&"))
        self._choose_file.setToolTip("\n".join((one_line(path.name), tr(CHOOSE))))
        self._quantity.setCurrentIndex(self._quantity.findData("difference"))
        self.changed.emit()

    def _choose(self) -> None:
        if self._quantity.currentData() == "difference" and not self._other:
            self._ask_for_file()
        self.changed.emit()

    def _ask_for_file(self) -> None:
        session = self._workbench.session
        assert session is not None
        path = ask_checkpoint(self._choose_file.window(), session.checkpoint.path.parent)
        if path is not None:
            self.compare_with(path)

    def painter(self, subject: Subject, colours: Colours) -> WeightsPainter:
        """Return a painter of the chosen quantity."""
        quantity: Quantity = self._quantity.currentData()
        painter = WeightsPainter(
            subject,
            colours,
            quantity,
            self._step.currentData() or 0 if QUANTITIES[quantity].of_step else 0,
            self._other if quantity == "difference" else "",
            self._auxiliary_files(),
            self._reach_cache,
            self._full_range.isChecked(),
        )
        return painter if self._is_whole else painter.shows_part()

    def _auxiliary_files(self) -> AuxiliaryFiles:
        """Return the object that keeps the other file open as long as the current file is."""
        from prune_gui.recipe.auxiliary_files import AuxiliaryFiles  # torch: slow to import

        if self._files is None:
            self._files = AuxiliaryFiles()
        return self._files

    def prepare(self, subject: Subject, *, is_whole: bool) -> None:
        """Offer the steps that rank the parameter; select the last unless another was chosen."""
        self._is_whole = is_whole
        from prune_gui.statistics.element_values import ranking_steps  # torch: slow to import

        quantity: Quantity = self._quantity.currentData()
        self._choose_file.setVisible(quantity == "difference")
        steps = (
            ranking_steps(subject.resolution, subject.name) if QUANTITIES[quantity].of_step else ()
        )
        self._step.setVisible(bool(steps))
        offered = [(subject.title(step), step) for step in steps]
        chosen = self._step.currentData()
        if offered != [
            (self._step.itemText(i), self._step.itemData(i)) for i in range(self._step.count())
        ]:
            self._step.blockSignals(True)
            self._step.clear()
            for title, step in offered:
                self._step.addItem(title, step)
            index = self._step.findData(chosen)
            self._step.setCurrentIndex(index if index >= 0 else len(offered) - 1)
            self._step.blockSignals(False)

    def legend(self, subject: Subject, colours: Colours, rendered: RenderedView) -> str:
        """Return the quantity and the special colours as rich text."""
        painter = self.painter(subject, colours)
        style, (limit, highest) = painter.style, painter.limits
        single = rendered.tile_grid.cell == (1, 1)
        title_text = tr("{quantity} of each weight", quantity=tr(style.title))
        parts = [title_text if single else style.reduced]
        if highest > limit:
            parts.append(unbroken(tr("end colours: numbers up to {value:.3g}", value=highest)))
        [non_finite] = rendered.painted.rare
        if non_finite is None or len(non_finite):
            text = unbroken(tr("NaN or infinite"))
            parts.append(f'<span style="color: {colours.warning}">■</span>&nbsp;{text}')
        if len(rendered.painted.marks):
            parts.append(unbroken(tr("○ marks single cells of this kind")))
        if style.of_step:
            text = unbroken(tr("not ranked"))
            parts.append(f'<span style="color: {colours.grid}">■</span>&nbsp;{text}')
        return SEPARATOR.join(parts)

    def update_bar(self, subject: Subject, colours: Colours) -> None:
        """Show the ramp of the quantity, as far as the numbers reach."""
        painter = self.painter(subject, colours)
        self.bar.show_ramp(painter.ramp, painter.limits[0])

    def profile_titles(self, _subject: Subject) -> Titles:
        """Return the titles of the means."""
        quantity: Quantity = self._quantity.currentData()
        mean = tr(QUANTITIES[quantity].profile)
        return Titles(tr("{mean} of each column", mean=mean), tr("{mean} of each row", mean=mean))

    def clear_caches(self) -> None:
        """Forget what was computed for the previous file."""
        self._reach_cache.forget()
        self._files = None


def weights_view(workbench: Workbench, viewport: Viewport) -> MapView:
    """Return the view of the weights."""
    return MapView(workbench, viewport, WeightsContent(workbench))
