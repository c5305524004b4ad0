"""How the weights or the scores of a parameter fall, and which of them each step prunes."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSignalBlocker, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QCheckBox, QLabel, QWidget

from prune_gui.gui.views.axes import CountAxis
from prune_gui.gui.views.axis_limits import LEAST, drawable, span
from prune_gui.gui.views.distribution.cut_line import CutLine, Scale, arrange
from prune_gui.gui.views.distribution.distribution_data import (
    DistributionData,
    DistributionRequest,
    Of,
    offers,
    pictured,
    remark,
    shared_step,
    table_of,
)
from prune_gui.gui.views.distribution.readout import (
    curve_legend,
    describe_bin,
    describe_cut,
    odd_numbers,
)
from prune_gui.gui.views.legend import SPACE, legend, unbroken
from prune_gui.gui.views.maps.map_navigation import go_along_by_keys
from prune_gui.gui.views.norms.stacked_bars import FLOOR, stacked
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.views.subject import Subject
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import later, tr

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

HEADROOM: Final = 1.15
FAINT: Final = 90
"""How solid the bars of the other targets are, of 255."""
RARE: Final = 1e-4
"""The share of entries that a picture may leave to zooming out: the least on a logarithmic axis,
and the outliers among many targets."""
NARROWEST: Final = 1e-3
"""How many powers of ten a logarithmic axis shows at least."""
COUNTS, LOG_COUNTS, CUMULATIVE = later("Counts"), later("Log counts"), later("Cumulative")
DRAFT: Final = "draft"


class DistributionView(View):
    """An exact histogram, coloured by step, with the cuts; that of the draft can be dragged.

    Signals:
        cut_dragged: (absolute value) the user wants the draft to prune what is at most this.
        score_cut_dragged: (score) likewise, of the draft's own scores.
    """

    lane = "distribution"
    has_table = True
    cut_dragged = Signal(float)
    score_cut_dragged = Signal(float)

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName(tr("Distribution"))
        self._picture_shown: DistributionData | None = None
        self._items: list[pg.BarGraphItem | pg.PlotCurveItem] = []
        self._cursor: QPointF | None = None
        self._cuts: dict[int, CutLine] = {}
        self._plot = Plot({"left": CountAxis("left")})
        self._plot.setAccessibleName(tr("Histogram of the weights"))
        self._plot.setMouseEnabled(x=True, y=False)
        go_along_by_keys(self._plot)
        self._of, self._how = ElidedComboBox(), ElidedComboBox()
        self._of.setAccessibleName(tr("Which numbers"))
        self._of.setToolTip(tr("What lies along the axis"))
        self._how.setAccessibleName(tr("What of them"))
        self._how.setToolTip(
            tr(
                "How many entries lie in each bin; or, for every cut, the share of entries that it "
                "prunes and the share of energy (the sum of squares) that it keeps"
            )
        )
        for how in (COUNTS, LOG_COUNTS, CUMULATIVE):
            self._how.addItem(tr(how), how)
        self._log = QCheckBox(tr("Log a&xis"))
        self._log.setChecked(True)
        self._symmetric = QCheckBox(tr("&Symmetric"))
        self._symmetric.setToolTip(tr("Reach as far below zero as above"))
        self._symmetric.setChecked(True)
        self._together = QCheckBox(tr("All targets"))
        self._together.setToolTip(
            tr("Show all targets of the step that cuts them as one, this parameter in full colour")
        )
        self._bin, self._odd = ElidedLabel(tr("Bin under the cursor")), QLabel()
        self._odd.setAccessibleName(tr("Weights that are no finite number"))
        controls = [self._of, self._how, self._symmetric, self._log, self._together]
        self._lay_out(controls, self._plot, [self._bin, self._odd])
        self._of.currentIndexChanged.connect(self.refresh)
        self._how.currentIndexChanged.connect(self.refresh)
        for box in (self._log, self._symmetric, self._together):
            box.toggled.connect(self.refresh)
        self._plot.scene().sigMouseMoved.connect(self._point_at)
        self._plot.view.sigRangeChanged.connect(self._arrange_cuts)
        self._plot.view.sigResized.connect(self._arrange_cuts)
        self._plot.left.connect(self._leave)
        self._recolour()

    def _look(self, subject: Subject) -> None:
        self._offer(subject)
        wish = self._wish(subject)
        self._symmetric.setVisible(wish.signed)
        self._log.setVisible(not wish.signed)
        self._together.setVisible(shared_step(subject, wish.of) is not None)
        session, before = self._workbench.session, self._picture_shown
        assert session is not None
        if before and before.subject.resolution.checkpoint is not subject.resolution.checkpoint:
            before = None
        score_histograms = session.score_histograms

        def work(monitor: Monitor) -> DistributionData:
            return pictured(subject, wish, score_histograms, before, monitor)

        self._picture(subject, work, self._show)

    def _offer(self, subject: Subject) -> None:
        """List the numbers that there are; what was chosen stays, if there still is such."""
        items: list[tuple[str, object]] = [
            (tr("Weights"), "weights"),
            (tr("|Weights|"), "absolute"),
        ]
        for step in offers(subject):
            if step == subject.draft:
                items.append((tr("Scores of the draft"), DRAFT))
            else:
                items.append((tr("Scores of step {number}", number=step), step))
        there = [(self._of.itemText(i), self._of.itemData(i)) for i in range(self._of.count())]
        if items != there:
            chosen = self._of.currentData()
            with QSignalBlocker(self._of):
                self._of.clear()
                for text, what in items:
                    self._of.addItem(text, what)
                self._of.setCurrentIndex(max(self._of.findData(chosen), 0))

    def _wish(self, subject: Subject) -> DistributionRequest:
        chosen = self._of.currentData()
        of: Of = (subject.draft or 0) if chosen == DRAFT else chosen
        cumulative = self._how.currentData() == CUMULATIVE
        signed = of == "weights" and not cumulative
        together = self._together.isChecked() and shared_step(subject, of) is not None
        return DistributionRequest(
            of,
            cumulative,
            log=self._log.isChecked() and not signed,
            symmetric=self._symmetric.isChecked(),
            together=together,
        )

    def _show(self, picture: DistributionData) -> None:
        before, self._picture_shown = self._picture_shown, picture
        self._label(picture)
        for item in self._items:
            self._plot.removeItem(item)
        self._items = self._curves(picture) if picture.curve else self._bars(picture)
        for item in self._items:
            self._plot.addItem(item, ignoreBounds=True)
        if not picture.same_axis(before):
            self._show_range(picture)
        self._draw_cuts(picture)
        self._show_legend(picture)
        if self._cursor is not None:
            self._point_at(self._cursor)
        self._odd.setText(odd_numbers(picture))

    def _show_legend(self, picture: DistributionData) -> None:
        if picture.curve:
            text = curve_legend(picture.curve, self.colours())
        else:
            text = legend(picture.subject, self.colours())
            if (others := len(picture.names) - 1) > 0:
                text += SPACE + unbroken(tr("faint: {count:,} more", count=others))
        self._legend.setText("<br>".join(filter(None, (text, escape(remark(picture))))))

    def _label(self, picture: DistributionData) -> None:
        of, log_counts = picture.wish.of, self._how.currentData() == LOG_COUNTS
        left, bottom = (self._plot.plotItem.getAxis(side) for side in ("left", "bottom"))
        left.setLogMode(log_counts)
        bottom.setLogMode(picture.wish.log)
        what = tr("weight") if of == "weights" else tr("absolute weight")
        if isinstance(of, int):
            what = tr("score by {step}", step=picture.subject.title(of))
        elif picture.wish.cumulative:
            what = tr("absolute weight at the cut")
        self._plot.label(
            "bottom", tr("{what}, logarithmic", what=what) if picture.wish.log else what
        )
        if picture.wish.cumulative:
            self._plot.label("left", "%")
            return
        what = tr("entries per bin")
        if (targets := len(picture.names)) > 1:
            what = tr("entries per bin of {count:,} targets", count=targets)
        self._plot.label("left", tr("{what}, logarithmic", what=what) if log_counts else what)

    def _show_range(self, picture: DistributionData) -> None:
        scale = self._scale(picture)
        low, high = (scale.place(float(edge)) for edge in picture.edges[[0, -1]])
        if picture.wish.signed:
            low = float(picture.edges[0])
        least = NARROWEST if picture.wish.log else LEAST
        low, high = span(low, high, least)
        self._plot.view.setLimits(xMin=low, xMax=high, minXRange=(high - low) / 100)
        if picture.wish.log or len(picture.names) > 1:
            reached = np.cumsum((picture.counts + picture.others).sum(0))
            rare = RARE * reached[-1]
            first, last = np.searchsorted(reached, [rare, reached[-1] - rare])
            if picture.wish.signed:
                low = float(picture.edges[first])
            elif picture.wish.log:
                low = scale.place(float(picture.edges[first]))
            if len(picture.names) > 1:
                high = scale.place(float(picture.edges[last + 1]))
        self._plot.setXRange(*span(low, high, least), padding=0)

    def _scale(self, picture: DistributionData) -> Scale:
        return Scale(
            float(picture.edges[0]) if picture.wish.log else None,
            picture.wish.signed,
            tr("score") if isinstance(picture.wish.of, int) else "|w|",
        )

    def _bars(self, picture: DistributionData) -> list[pg.BarGraphItem]:
        log = self._how.currentData() == LOG_COUNTS
        colours, codes = self.colours(), picture.codes
        tops = stacked(np.concatenate([picture.counts, picture.others]), log=log)
        edges = np.log10(picture.edges) if picture.wish.log else drawable(picture.edges)
        bars = []
        for part in range(len(codes) * (2 if len(picture.names) > 1 else 1)):
            colour = QColor(colours.of(codes[part % len(codes)], picture.subject.draft))
            colour.setAlpha(255 if part < len(codes) else FAINT)
            some = tops[part + 1] > tops[part]
            bars.append(
                pg.BarGraphItem(
                    x0=edges[:-1][some],
                    x1=edges[1:][some],
                    y0=tops[part][some],
                    y1=tops[part + 1][some],
                    pen=None,
                    brush=colour,
                )
            )
        top = max(1.0, float(tops[-1].max())) * HEADROOM
        self._plot.setYRange(FLOOR if log else 0.0, top, padding=0)
        return bars

    def _curves(self, picture: DistributionData) -> list[pg.PlotCurveItem]:
        curve, colours, scale = picture.curve, self.colours(), self._scale(picture)
        assert curve is not None
        places = np.array([scale.place(score) for score in curve.scores.tolist()])
        self._plot.setYRange(0.0, 100 * HEADROOM, padding=0)
        return [
            pg.PlotCurveItem(places, 100 * shares, pen=pen(colour, width=2), antialias=True)
            for shares, colour in (
                (curve.pruned, colours.draft),
                (curve.energy, colours.steps[1]),
            )
        ]

    def _draw_cuts(self, picture: DistributionData) -> None:
        subject = picture.subject
        some = {subject.draft, *subject.counts()}  # a step that prunes nothing here has no line
        cuts = {code: value for code, value in picture.cuts.items() if code in some}
        for code in [code for code in self._cuts if code not in cuts]:
            self._cuts.pop(code).remove()
        limit = float(np.abs(picture.edges).max())
        for code, value in cuts.items():
            if code not in self._cuts:
                self._cuts[code] = CutLine(self._plot)
                self._cuts[code].dragged.connect(self._drag)
            drafted = code == subject.draft
            self._cuts[code].show_cut(
                value,
                tr("draft") if drafted else tr("step {number}", number=code),
                self.colours(),
                self._scale(picture),
                limit=limit if drafted else None,
            )
        self._arrange_cuts()

    def _arrange_cuts(self) -> None:
        arrange(self._plot, [self._cuts[code] for code in sorted(self._cuts)])

    def _drag(self, value: float) -> None:
        self._arrange_cuts()
        picture = self._picture_shown
        if picture is not None and isinstance(picture.wish.of, int):
            self.score_cut_dragged.emit(value)
        else:
            self.cut_dragged.emit(value)

    def _point_at(self, scene: QPointF) -> None:
        picture, self._cursor = self._picture_shown, scene
        if picture is None or self.subject is None:
            return
        at = self._plot.view.mapSceneToView(scene).x()
        if not self._plot.view.sceneBoundingRect().contains(scene):
            self._bin.say("")
            return
        value = math.pow(10.0, at) if picture.wish.log else at
        place = int(np.searchsorted(picture.edges, value, side="right")) - 1
        if picture.curve is not None:
            self._bin.say(describe_cut(picture.curve, max(value, 0.0)))
        elif 0 <= place < picture.counts.shape[1]:
            self._bin.say(describe_bin(picture, place))
        else:
            self._bin.say("")

    def _leave(self) -> None:
        self._cursor = None
        self._bin.say("")

    def table(self) -> Table | None:
        """Return what is shown: the bins, and how many entries each step prunes of them."""
        shown = self._picture_shown
        return table_of(shown) if shown is not None and self.picture() is not None else None

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
