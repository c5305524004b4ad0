"""The numbers of a parameter of any size: its values, scores, or what lies between two files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.runtime.locale import literal
from prune_gui.gui.views.legend import SPACE, unbroken
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.profiled_view import ProfiledView
from prune_gui.gui.views.maps.ramp_bar import RampBar
from prune_gui.gui.views.maps.tile_render import RenderedView
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.maps.weights_picture import KINDS, Ends, Quantity, WeightsPainter
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.language import later, tr

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe.auxiliary_files import AuxiliaryFiles

CHOOSE: Final = later("Choose the checkpoint to compare with")
WIDE: Final = 80
"""Pixels that the name of a file may take on its button."""


class WeightsView(ProfiledView):
    """A number per entry as a colour: the value, its size, a score, a margin, or a difference."""

    lane = "weights"

    def __init__(
        self, workbench: Workbench, viewport: Viewport, parent: QWidget | None = None
    ) -> None:
        self._quantity, self._step = ElidedComboBox(), ElidedComboBox()
        self._quantity.setAccessibleName(tr("Colour by"))
        self._quantity.setToolTip(tr("What the colours stand for"))
        self._step.setAccessibleName(tr("Step"))
        self._step.setToolTip(tr("Whose score it is"))
        for quantity, kind in KINDS.items():
            title = tr(kind.title)
            self._quantity.addItem(f"{title}…" if quantity == "difference" else title, quantity)
        self._choose_file = QPushButton(tr("File…"))
        self._choose_file.setToolTip(tr(CHOOSE))
        self._other = ""
        self._files: AuxiliaryFiles | None = None
        self._ends = Ends()
        self._bar = RampBar()
        controls = [self._quantity, self._step, self._choose_file]
        super().__init__(workbench, controls, viewport, parent)
        self._profiles.setToolTip(tr("Show the mean of what is finite in each row and column"))
        self.setAccessibleName(tr("Weights"))
        legend = QHBoxLayout()
        legend.setContentsMargins(8, 0, 0, 4)
        legend.addWidget(self._bar)
        legend.addWidget(self._legend, 1)
        below = self._content.layout()
        assert isinstance(below, QVBoxLayout)
        below.addLayout(legend)
        self._plot.setAccessibleName(tr("Picture of the weights"))
        self._step.hide()
        self._choose_file.hide()
        self._quantity.activated.connect(self._choose)
        self._step.currentIndexChanged.connect(self.refresh)
        self._choose_file.clicked.connect(self._ask_for_file)
        workbench.opened.connect(self._forget)

    def compare_with(self, path: Path) -> None:
        """Show the difference to another checkpoint."""
        self._other = str(path.absolute())
        metrics = self._choose_file.fontMetrics()
        name = metrics.elidedText(literal(path.name), Qt.TextElideMode.ElideMiddle, WIDE)
        self._choose_file.setText(name.replace("&", "&&"))
        self._choose_file.setToolTip("\n".join((one_line(path.name), tr(CHOOSE))))
        self._quantity.setCurrentIndex(self._quantity.findData("difference"))
        self.refresh()

    def _choose(self) -> None:
        if self._quantity.currentData() == "difference" and not self._other:
            self._ask_for_file()
        self.refresh()

    def _ask_for_file(self) -> None:
        session = self._workbench.session
        assert session is not None
        path = ask_checkpoint(self, session.checkpoint.path.parent)
        if path is not None:
            self.compare_with(path)

    def _look(self, subject: Subject) -> None:
        self._offer_steps(subject)
        super()._look(subject)

    def _painter(self, subject: Subject) -> WeightsPainter:
        quantity: Quantity = self._quantity.currentData()
        return WeightsPainter(
            subject,
            self.colours(),
            quantity,
            self._step.currentData() or 0 if KINDS[quantity].of_step else 0,
            self._other if quantity == "difference" else "",
            self._companions(),
            self._ends,
        )

    def _companions(self) -> AuxiliaryFiles:
        """Return what keeps the other file open, for as long as this file is."""
        from prune_gui.recipe.auxiliary_files import AuxiliaryFiles

        if self._files is None:
            self._files = AuxiliaryFiles()
        return self._files

    def _offer_steps(self, subject: Subject) -> None:
        """Offer the steps that rank the parameter; the last one, unless another was chosen."""
        from prune_gui.audit.statistics.element_values import ranking_steps

        quantity: Quantity = self._quantity.currentData()
        self._choose_file.setVisible(quantity == "difference")
        steps = ranking_steps(subject.resolution, subject.name) if KINDS[quantity].of_step else ()
        self._step.setVisible(bool(steps))
        offered = [(subject.title(step), step) for step in steps]
        before = self._step.currentData()
        if offered != [
            (self._step.itemText(i), self._step.itemData(i)) for i in range(self._step.count())
        ]:
            self._step.blockSignals(True)
            self._step.clear()
            for title, step in offered:
                self._step.addItem(title, step)
            place = self._step.findData(before)
            self._step.setCurrentIndex(place if place >= 0 else len(offered) - 1)
            self._step.blockSignals(False)

    def _describe_colours(self, subject: Subject, drawn: RenderedView) -> None:
        painter = self._painter(subject)
        kind, colours = painter.kind, painter.colours
        single = drawn.mosaic.cell == (1, 1)
        each = tr("{quantity} of each entry", quantity=tr(kind.title))
        said = [each if single else kind.reduced]
        [odd] = drawn.painted.rare
        if odd is None or len(odd):
            text = unbroken(tr("NaN or infinite"))
            said.append(f'<span style="color: {colours.warning}">■</span>&nbsp;{text}')
        if len(drawn.painted.marks):
            said.append(unbroken(tr("○ marks lone cells of these")))
        if kind.of_step:
            text = unbroken(tr("not ranked"))
            said.append(f'<span style="color: {colours.grid}">■</span>&nbsp;{text}')
        self._legend.setText(SPACE.join(said))
        self._bar.show_ramp(painter.ramp, self._ends.get(painter.numbers_key) or 0.0)

    def _titles(self) -> Titles:
        quantity: Quantity = self._quantity.currentData()
        mean = tr(KINDS[quantity].profile)
        return Titles(tr("{mean} of each column", mean=mean), tr("{mean} of each row", mean=mean))

    def legend(self) -> str:
        """Return the bar of colours in words, and what they are of."""
        return f"{self._bar.html}{SPACE}{super().legend()}"

    def _forget(self) -> None:
        self._ends.forget()
        self._files = None
