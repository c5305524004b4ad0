"""The distribution of weights or scores of a parameter, and what each step prunes of them."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSignalBlocker
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QCheckBox, QLabel, QWidget

from prune_gui.audit.rendering.axis_limits import MIN_LENGTH, drawable, span
from prune_gui.audit.rendering.stacked_bars import FLOOR, stacked
from prune_gui.audit.view_data.distribution_data import (
    DistributionData,
    DistributionRequest,
    Of,
    compute_distribution,
    remark,
    shared_step,
    steps_with_own_scores,
    table_of,
)
from prune_gui.audit.view_data.distribution_readout import (
    curve_legend,
    describe_bin,
    describe_cut,
    describe_excluded,
)
from prune_gui.audit.view_data.legend_text import SEPARATOR, legend, unbroken
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.axes import CountAxis
from prune_gui.gui.views.distribution.cut_line import CutLine, Scale, arrange_labels
from prune_gui.gui.views.maps.map_navigation import add_axis_shortcuts
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import deferred, tr
from prune_gui.session.draft_request import CutRequest

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

HEADROOM: Final = 1.15
OTHERS_ALPHA: Final = 90
"""Opacity of the bars of the other targets, of 255."""
OUTLIER_SHARE: Final = 1e-4
"""Share of elements that the initial range may cut off: the smallest on a logarithmic axis, and the
outliers among several targets.
"""
MIN_DECADES: Final = 1e-3
"""Minimum length of a logarithmic axis, in powers of ten."""
COUNTS, LOG_COUNTS, CUMULATIVE = deferred("Counts"), deferred("Log counts"), deferred("Cumulative")
DRAFT: Final = "draft"


class DistributionView(View[Subject]):
    """An exact histogram, coloured by step, with the cuts. The draft's cut can be dragged."""

    lane = "distribution"
    busy_text = deferred("Computing the histogram of {name}…")
    has_table = True

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(workbench, lambda: workbench.subject, parent)
        self.setAccessibleName(tr("Distribution"))
        self._picture_shown: DistributionData | None = None
        self._items: list[pg.BarGraphItem | pg.PlotCurveItem] = []
        self._cursor: QPointF | None = None
        self._cuts: dict[int, CutLine] = {}
        self._plot = Plot({"left": CountAxis("left")})
        self._plot.setAccessibleName(tr("Histogram of the weights"))
        self._plot.setMouseEnabled(x=True, y=False)
        add_axis_shortcuts(self._plot)
        self._numbers_box, self._display_box = ElidedComboBox(), ElidedComboBox()
        self._numbers_box.setAccessibleName(tr("Quantity of the histogram"))
        self._numbers_box.setToolTip(tr("Quantity on the axis"))
        self._display_box.setAccessibleName(tr("Counts or cumulative shares"))
        self._display_box.setToolTip(
            tr(
                "Number of weights in each bin; or, for every cut, the share of weights that it "
                "prunes and the share of energy (the sum of squares) that it keeps"
            )
        )
        for how in (COUNTS, LOG_COUNTS, CUMULATIVE):
            self._display_box.addItem(tr(how), how)
        self._log = QCheckBox(tr("Log a&xis"))
        self._log.setChecked(True)
        self._symmetric = QCheckBox(tr("&Symmetric"))
        self._symmetric.setToolTip(tr("Make the axis symmetric about zero"))
        self._symmetric.setChecked(True)
        self._all_targets_box = QCheckBox(tr("All targets"))
        self._all_targets_box.setToolTip(
            tr("Show all targets that the step cuts together, with this parameter in full colour")
        )
        self._bin_label, self._excluded_label = ElidedLabel(tr("Bin under the cursor")), QLabel()
        self._excluded_label.setAccessibleName(tr("Non-finite weights"))
        controls = [
            self._numbers_box,
            self._display_box,
            self._symmetric,
            self._log,
            self._all_targets_box,
        ]
        self._lay_out(controls, self._plot, [self._bin_label, self._excluded_label])
        self._numbers_box.currentIndexChanged.connect(self.refresh)
        self._display_box.currentIndexChanged.connect(self.refresh)
        for box in (self._log, self._symmetric, self._all_targets_box):
            box.toggled.connect(self.refresh)
        self._plot.scene().sigMouseMoved.connect(self._cursor_moved)
        self._plot.view.sigRangeChanged.connect(self._arrange_cuts)
        self._plot.view.sigResized.connect(self._arrange_cuts)
        self._plot.left.connect(self._cursor_left)
        self._recolour()

    def _request_picture(self, subject: Subject) -> None:
        self._offer(subject)
        request = self._wish(subject)
        self._symmetric.setVisible(request.signed)
        self._log.setVisible(not request.signed)
        self._all_targets_box.setVisible(shared_step(subject, request.of) is not None)
        session, before = self._workbench.session, self._picture_shown
        assert session is not None
        if before and before.subject.resolution.checkpoint is not subject.resolution.checkpoint:
            before = None
        score_histograms = session.score_histograms

        def work(monitor: Monitor) -> DistributionData:
            return compute_distribution(subject, request, score_histograms, before, monitor)

        self._run_picture_job(subject, work, self._show)

    def _offer(self, subject: Subject) -> None:
        """List the available numbers; the chosen one stays chosen if it is still available."""
        items: list[tuple[str, object]] = [
            (tr("Weights"), "weights"),
            (tr("|Weights|"), "absolute"),
        ]
        for step in steps_with_own_scores(subject):
            if step == subject.draft:
                items.append((tr("Scores of the draft"), DRAFT))
            else:
                items.append((tr("Scores of step {number}", number=step), step))
        current = [
            (self._numbers_box.itemText(i), self._numbers_box.itemData(i))
            for i in range(self._numbers_box.count())
        ]
        if items != current:
            chosen = self._numbers_box.currentData()
            with QSignalBlocker(self._numbers_box):
                self._numbers_box.clear()
                for text, what in items:
                    self._numbers_box.addItem(text, what)
                self._numbers_box.setCurrentIndex(max(self._numbers_box.findData(chosen), 0))

    def _wish(self, subject: Subject) -> DistributionRequest:
        chosen = self._numbers_box.currentData()
        of: Of = (subject.draft or 0) if chosen == DRAFT else chosen
        cumulative = self._display_box.currentData() == CUMULATIVE
        signed = of == "weights" and not cumulative
        together = self._all_targets_box.isChecked() and shared_step(subject, of) is not None
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
            self._cursor_moved(self._cursor)
        self._excluded_label.setText(describe_excluded(picture))

    def _show_legend(self, picture: DistributionData) -> None:
        if picture.curve:
            text = curve_legend(picture.curve, self.colours())
        else:
            text = legend(picture.subject, self.colours())
            if (others := len(picture.names) - 1) > 0:
                text += SEPARATOR + unbroken(tr("faint: {count:,} more", count=others))
        self._legend.setText("<br>".join(filter(None, (text, escape(remark(picture))))))

    def _label(self, picture: DistributionData) -> None:
        of, log_counts = picture.request.of, self._display_box.currentData() == LOG_COUNTS
        left, bottom = (self._plot.plotItem.getAxis(side) for side in ("left", "bottom"))
        left.setLogMode(log_counts)
        bottom.setLogMode(picture.request.log)
        what = tr("weight") if of == "weights" else tr("absolute weight")
        if isinstance(of, int):
            what = tr("score by {step}", step=picture.subject.title(of))
        elif picture.request.cumulative:
            what = tr("absolute weight at the cut")
        self._plot.label(
            "bottom", tr("{what}, logarithmic", what=what) if picture.request.log else what
        )
        if picture.request.cumulative:
            self._plot.label("left", "%")
            return
        what = tr("weights per bin")
        if (targets := len(picture.names)) > 1:
            what = tr("weights per bin of {count:,} targets", count=targets)
        self._plot.label("left", tr("{what}, logarithmic", what=what) if log_counts else what)

    def _show_range(self, picture: DistributionData) -> None:
        scale = self._scale(picture)
        low, high = (scale.position(float(edge)) for edge in picture.edges[[0, -1]])
        if picture.request.signed:
            low = float(picture.edges[0])
        min_length = MIN_DECADES if picture.request.log else MIN_LENGTH
        low, high = span(low, high, min_length)
        self._plot.view.setLimits(xMin=low, xMax=high, minXRange=(high - low) / 100)
        if picture.request.log or len(picture.names) > 1:
            reached = np.cumsum((picture.counts + picture.others).sum(0))
            rare = OUTLIER_SHARE * reached[-1]
            first, last = np.searchsorted(reached, [rare, reached[-1] - rare])
            if picture.request.signed:
                low = float(picture.edges[first])
            elif picture.request.log:
                low = scale.position(float(picture.edges[first]))
            if len(picture.names) > 1:
                high = scale.position(float(picture.edges[last + 1]))
        self._plot.setXRange(*span(low, high, min_length), padding=0)

    def _scale(self, picture: DistributionData) -> Scale:
        return Scale(
            float(picture.edges[0]) if picture.request.log else None,
            picture.request.signed,
            tr("score") if isinstance(picture.request.of, int) else "|w|",
        )

    def _bars(self, picture: DistributionData) -> list[pg.BarGraphItem]:
        log = self._display_box.currentData() == LOG_COUNTS
        colours, codes = self.colours(), picture.codes
        tops = stacked(np.concatenate([picture.counts, picture.others]), log=log)
        edges = np.log10(picture.edges) if picture.request.log else drawable(picture.edges)
        bars = []
        for row in range(len(codes) * (2 if len(picture.names) > 1 else 1)):
            colour = QColor(colours.of(codes[row % len(codes)], picture.subject.draft))
            colour.setAlpha(255 if row < len(codes) else OTHERS_ALPHA)
            nonempty = tops[row + 1] > tops[row]
            bars.append(
                pg.BarGraphItem(
                    x0=edges[:-1][nonempty],
                    x1=edges[1:][nonempty],
                    y0=tops[row][nonempty],
                    y1=tops[row + 1][nonempty],
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
        positions = np.array([scale.position(score) for score in curve.scores.tolist()])
        self._plot.setYRange(0.0, 100 * HEADROOM, padding=0)
        return [
            pg.PlotCurveItem(positions, 100 * shares, pen=pen(colour, width=2), antialias=True)
            for shares, colour in (
                (curve.pruned, colours.draft),
                (curve.energy, colours.steps[1]),
            )
        ]

    def _draw_cuts(self, picture: DistributionData) -> None:
        subject = picture.subject
        shown_codes = {
            subject.draft,
            *subject.counts(),
        }  # a step that prunes nothing here has no line
        cuts = {code: value for code, value in picture.cuts.items() if code in shown_codes}
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
        arrange_labels(self._plot, [self._cuts[code] for code in sorted(self._cuts)])

    def _drag(self, value: float) -> None:
        self._arrange_cuts()
        picture = self._picture_shown
        of_step = picture is not None and isinstance(picture.request.of, int)
        self.draft_wanted.emit(CutRequest("score" if of_step else "weight", value))

    def _cursor_moved(self, scene: QPointF) -> None:
        picture, self._cursor = self._picture_shown, scene
        if picture is None or self.subject is None:
            return
        x = self._plot.view.mapSceneToView(scene).x()
        if not self._plot.view.sceneBoundingRect().contains(scene):
            self._bin_label.say("")
            return
        value = math.pow(10.0, x) if picture.request.log else x
        position = int(np.searchsorted(picture.edges, value, side="right")) - 1
        if picture.curve is not None:
            self._bin_label.say(describe_cut(picture.curve, max(value, 0.0)))
        elif 0 <= position < picture.counts.shape[1]:
            self._bin_label.say(describe_bin(picture, position))
        else:
            self._bin_label.say("")

    def _cursor_left(self) -> None:
        self._cursor = None
        self._bin_label.say("")

    def table(self) -> Table | None:
        """Return the bins with the counts of each step, or the points of the curve."""
        shown = self._picture_shown
        return table_of(shown) if shown is not None and self.picture() is not None else None

    def _recolour(self) -> None:
        self._plot.recolour(self.colours())
