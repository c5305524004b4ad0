"""The distribution of weights or scores of a parameter, and what each step prunes of them."""

from __future__ import annotations

import math
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSignalBlocker
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QCheckBox, QLabel, QWidget

from prune_gui.audit.rendering.axis_limits import (
    MIN_LENGTH,
    count_beyond,
    inner_range,
    peak_limit,
    span,
)
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
from prune_gui.gui.views.overflow_mark import OverflowMark
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.eliding import ElidedComboBox, ElidedLabel
from prune_gui.language import deferred, tr
from prune_gui.session.draft_request import CutRequest

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.table import Table

HEADROOM: Final = 1.15
OTHERS_ALPHA: Final = 90
"""Opacity of the bars of the other targets, of 255."""
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
        self._own_cuts: dict[int, CutLine] = {}
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
        self._full_range_box = QCheckBox(tr("Full range"))
        self._full_range_box.setToolTip(
            tr("Show the axis up to the outermost numbers; else 99.9 % of them")
        )
        self._marks = OverflowMark(self._plot, "left"), OverflowMark(self._plot, "right")
        self._peak_mark = OverflowMark(self._plot, "peak")
        self._bin_label, self._excluded_label = ElidedLabel(tr("Bin under the cursor")), QLabel()
        self._excluded_label.setAccessibleName(tr("Non-finite weights"))
        controls = [
            self._numbers_box,
            self._display_box,
            self._symmetric,
            self._log,
            self._all_targets_box,
            self._full_range_box,
        ]
        self._lay_out(controls, self._plot, [self._bin_label, self._excluded_label])
        self._numbers_box.currentIndexChanged.connect(self.refresh)
        self._display_box.currentIndexChanged.connect(self.refresh)
        for box in (self._log, self._symmetric, self._all_targets_box):
            box.toggled.connect(self.refresh)
        self._full_range_box.toggled.connect(self._show_range)
        self._full_range_box.toggled.connect(self._show_heights)
        self._plot.scene().sigMouseMoved.connect(self._cursor_moved)
        self._plot.view.sigRangeChanged.connect(self._arrange)
        self._plot.view.sigResized.connect(self._arrange)
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
            chosen, shown = self._numbers_box.currentData(), self._picture_shown
            if subject.draft is not None and chosen == subject.draft:
                chosen = DRAFT  # the step is being edited
            elif chosen == DRAFT and subject.draft is None and shown is not None:
                chosen = shown.subject.draft  # it was edited, or added
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
        self._draw(picture)
        self._show_heights()
        if not picture.same_axis(before):
            self._show_range()
        self._draw_cuts(picture)
        self._show_legend(picture)
        if self._cursor is not None:
            self._cursor_moved(self._cursor)
        self._excluded_label.setText(describe_excluded(picture))

    def _draw(self, picture: DistributionData) -> None:
        """Draw the bars or curves. Moving bars is faster than new ones: a drag draws many."""
        bars = [] if picture.curve else self._bars(picture)
        if bars and [type(item) for item in self._items] == len(bars) * [pg.BarGraphItem]:
            for item, options in zip(self._items, bars, strict=True):
                item.setOpts(**options)
            return
        for item in self._items:
            self._plot.removeItem(item)
        self._items = [pg.BarGraphItem(**options) for options in bars] or self._curves(picture)
        for item in self._items:
            self._plot.addItem(item, ignoreBounds=True)

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
        for axis, log in ((left, log_counts), (bottom, picture.request.log)):
            if axis.logMode != log:  # the axis would be drawn again
                axis.setLogMode(log)
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

    def _show_range(self) -> None:
        """Show the range of most numbers, or of all."""
        picture = self._picture_shown
        if picture is None:
            return
        request, positions = picture.request, picture.positions
        min_length = MIN_DECADES if request.log else MIN_LENGTH
        low, high = span(float(positions[0]), float(positions[-1]), min_length)
        inner = span(
            *inner_range(positions, picture.sums, symmetric=request.signed and request.symmetric),
            min_length,
        )
        self._plot.view.setLimits(xMin=low, xMax=high, minXRange=(inner[1] - inner[0]) / 100)
        shown = (low, high) if self._full_range_box.isChecked() else inner
        self._plot.setXRange(*shown, padding=0)

    def _show_heights(self) -> None:
        """Show the whole height of the bars, or of all but a much higher one."""
        picture, log = self._picture_shown, self._display_box.currentData() == LOG_COUNTS
        if picture is None:
            return
        if picture.curve is not None:
            self._plot.setYRange(0.0, 100 * HEADROOM, padding=0)
        elif log:
            top = max(1.0, math.log10(max(1, int(picture.sums.max()))))
            self._plot.setYRange(FLOOR, top * HEADROOM, padding=0)
        else:
            full = self._full_range_box.isChecked()
            top = max(1, int(picture.sums.max())) if full else peak_limit(picture.sums)
            self._plot.setYRange(0.0, top * HEADROOM, padding=0)

    def _scale(self, picture: DistributionData) -> Scale:
        return Scale(
            float(picture.edges[0]) if picture.request.log else None,
            picture.request.signed,
            tr("score") if isinstance(picture.request.of, int) else "|w|",
        )

    def _bars(self, picture: DistributionData) -> list[dict[str, object]]:
        """Return the options of a `BarGraphItem` for each code, and for each of other targets."""
        log = self._display_box.currentData() == LOG_COUNTS
        colours, codes = self.colours(), picture.codes
        tops = stacked(np.concatenate([picture.counts, picture.others]), log=log)
        edges = picture.positions
        bars = []
        for row in range(len(codes) * (2 if len(picture.names) > 1 else 1)):
            colour = QColor(colours.of(codes[row % len(codes)], picture.subject.draft))
            colour.setAlpha(255 if row < len(codes) else OTHERS_ALPHA)
            nonempty = tops[row + 1] > tops[row]
            bars.append(
                {
                    "x0": edges[:-1][nonempty],
                    "x1": edges[1:][nonempty],
                    "y0": tops[row][nonempty],
                    "y1": tops[row + 1][nonempty],
                    "pen": None,
                    "brush": colour,
                }
            )
        return bars

    def _curves(self, picture: DistributionData) -> list[pg.PlotCurveItem]:
        curve, colours, scale = picture.curve, self.colours(), self._scale(picture)
        assert curve is not None
        positions = np.array([scale.position(score) for score in curve.scores.tolist()])
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
        cuts = {code: cut for code, cut in picture.cuts.items() if code in shown_codes}
        limited = {code: cut for code, cut in cuts.items() if cut.shared is not None}
        limit = float(np.abs(picture.edges).max())
        for lines, wanted in ((self._cuts, cuts), (self._own_cuts, limited)):
            for code in [code for code in lines if code not in wanted]:
                lines.pop(code).remove()
            for code, cut in wanted.items():
                if code not in lines:
                    lines[code] = CutLine(self._plot)
                    lines[code].dragged.connect(partial(self._drag, code))
                drafted = code == subject.draft
                lines[code].show_cut(
                    cut,
                    tr("draft") if drafted else tr("step {number}", number=code),
                    self.colours(),
                    self._scale(picture),
                    limit=limit,
                    drafted=drafted,
                    own=lines is self._own_cuts,
                )
        self._arrange()

    def _arrange(self) -> None:
        """Put the labels of the cuts, and the marks of what is beyond, in the visible range."""
        lines = [cuts[code] for cuts in (self._own_cuts, self._cuts) for code in sorted(cuts)]
        arrange_labels(self._plot, lines)
        picture = self._picture_shown
        if picture is None:
            return
        low, high = self._plot.view.viewRange()[0]
        beyond = count_beyond(picture.positions, picture.sums, low, high)
        for mark, count, extreme in zip(self._marks, beyond, picture.extremes, strict=True):
            mark.show_count(count, extreme, self.colours())
        highest, top = int(picture.sums.argmax()), self._plot.view.viewRange()[1][1]
        middle = float(picture.positions[highest : highest + 2].mean())
        log = self._display_box.currentData() == LOG_COUNTS
        self._peak_mark.hide()
        if not (picture.curve or log) and picture.sums[highest] > top and low <= middle <= high:
            self._peak_mark.show_peak(middle, int(picture.sums[highest]), self.colours())

    def _drag(self, code: int, value: float) -> None:
        self._arrange()
        picture = self._picture_shown
        if picture is None:
            return
        of_step = isinstance(picture.request.of, int)
        step = None if code == picture.subject.draft else code
        self._request_draft(CutRequest("score" if of_step else "weight", value, step))

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
