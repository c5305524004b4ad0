"""The distribution of weights or scores of a parameter, and what each step prunes of them."""

from __future__ import annotations

import math
from functools import partial
from html import escape
from typing import Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor

from prune_gui.gui.views.bars.data import (
    FLOOR,
    MIN_LENGTH,
    count_beyond,
    inner_range,
    peak_limit,
    span,
    stacked,
)
from prune_gui.gui.views.controls import Choice, add_axis_shortcuts, note, switch
from prune_gui.gui.views.distribution import text
from prune_gui.gui.views.distribution.cut_line import AxisScale, CutLine, arrange_labels
from prune_gui.gui.views.distribution.data import (
    DistributionData,
    DistributionRequest,
    Of,
    compute_distribution,
    shared_step,
    steps_with_own_scores,
)
from prune_gui.gui.views.legend_text import SEPARATOR, legend, unbroken
from prune_gui.gui.views.plot import CappedBars, CountAxis, OverflowMark, Plot, kept_cap, pen
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.draft_request import CutRequest
from prune_gui.session.subjects import Subject
from prune_gui.table import Table

HEADROOM: Final = 1.15
OTHERS_ALPHA: Final = 90
MIN_DECADES: Final = 1e-3
COUNTS, LOG_COUNTS, CUMULATIVE = deferred("Counts"), deferred("Log counts"), deferred("Cumulative")
DRAFT: Final = "draft"


class DistributionView(View[Subject]):
    """An exact histogram, coloured by step, with the cuts. The draft's cut can be dragged."""

    lane = "distribution"
    busy_text = deferred("Computing the histogram of {name}…")
    has_table = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, lambda: workbench.subject, tr("Distribution"))
        self._data: DistributionData | None = None
        self._items: list[CappedBars | pg.PlotCurveItem] = []
        self._cursor: QPointF | None = None
        self._cuts: dict[int, CutLine] = {}
        self._own_cuts: dict[int, CutLine] = {}
        self._plot = Plot({"left": CountAxis("left")})
        self._plot.setAccessibleName(tr("Histogram of the weights"))
        self._plot.setMouseEnabled(x=True, y=False)
        add_axis_shortcuts(self._plot)
        refresh, tip = self.refresh, tr("Quantity on the axis")
        self._numbers_box = Choice(tr("Quantity of the histogram"), changed=refresh, tip=tip)
        tip = tr(
            "Number of weights in each bin; or, for every cut, the share of weights that it "
            "prunes and the share of energy (the sum of squares) that it keeps"
        )
        displays = [(tr(how), how) for how in (COUNTS, LOG_COUNTS, CUMULATIVE)]
        self._display_box = Choice(tr("Counts or cumulative shares"), displays, refresh, tip=tip)
        self._log = switch(tr("Log a&xis"), changed=refresh, on=True)
        tip = tr("Make the axis symmetric about zero")
        self._symmetric = switch(tr("&Symmetric"), tip, refresh, on=True)
        tip = tr("Show all targets that the step cuts together, with this parameter in full colour")
        self._all_targets_box = switch(tr("All targets"), tip, refresh)
        tip = tr("Show the axis up to the outermost numbers; else 99.9 % of them")
        self._full_range_box = switch(tr("Full range"), tip, self._show_all)
        self._marks = OverflowMark(self._plot, "left"), OverflowMark(self._plot, "right")
        self._peak_mark = OverflowMark(self._plot, "peak")
        self._pointed = ElidedLabel(tr("Bin under the cursor"))
        self._excluded = note(tr("Non-finite weights"))
        controls = [
            self._numbers_box,
            self._display_box,
            self._symmetric,
            self._log,
            self._all_targets_box,
            self._full_range_box,
        ]
        self._lay_out(controls, self._plot, [self._pointed, self._excluded])
        self._plot.scene().sigMouseMoved.connect(self._point_at)
        self._plot.view.sigRangeChanged.connect(self._arrange)
        self._plot.view.sigResized.connect(self._arrange)
        self._plot.left.connect(lambda: self._point_at(None))

    @property
    def _is_log(self) -> bool:
        """Whether counts are logarithmic."""
        return bool(self._display_box.value == LOG_COUNTS)

    def _request_picture(self, subject: Subject) -> None:
        self._offer(subject)
        request = self._wish(subject)
        self._symmetric.setVisible(request.signed)
        self._log.setVisible(not request.signed)
        self._all_targets_box.setVisible(shared_step(subject, request.of) is not None)
        session, before = self._workbench.opened, self._data
        if before and before.subject.resolution.checkpoint is not subject.resolution.checkpoint:
            before = None
        work = partial(compute_distribution, subject, request, session.score_histograms, before)
        self._run_picture_job(subject, work, self._show)

    def _offer(self, subject: Subject) -> None:
        """List the available numbers; the chosen one stays chosen if it is still available."""
        items: list[tuple[str, object]] = [(tr("Weights"), "weights")]
        items.append((tr("|Weights|"), "absolute"))
        for step in steps_with_own_scores(subject):
            if step == subject.draft:
                items.append((tr("Scores of the draft"), DRAFT))
            else:
                items.append((tr("Scores of step {number}", number=step), step))
        if items != self._numbers_box.items:
            chosen, shown = self._numbers_box.value, self._data
            if subject.draft is not None and chosen == subject.draft:
                chosen = DRAFT  # the step is being edited
            elif chosen == DRAFT and subject.draft is None and shown is not None:
                chosen = shown.subject.draft  # it was edited, or added
            self._numbers_box.offer(items)
            self._numbers_box.choose(chosen)

    def _wish(self, subject: Subject) -> DistributionRequest:
        chosen = self._numbers_box.value
        of: Of = (subject.draft or 0) if chosen == DRAFT else chosen
        cumulative = self._display_box.value == CUMULATIVE
        signed = of == "weights" and not cumulative
        return DistributionRequest(
            of,
            cumulative,
            log=self._log.isChecked() and not signed,
            symmetric=self._symmetric.isChecked(),
            together=self._all_targets_box.isChecked() and shared_step(subject, of) is not None,
        )

    def _show(self, data: DistributionData) -> None:
        before, self._data = self._data, data
        self._label(data)
        self._draw(data)
        self._show_heights(data)
        if not data.same_axis(before):
            self._show_range(data)
        self._draw_cuts(data)
        self._show_legend(data)
        if self._cursor is not None:
            self._point_at(self._cursor)
        self._excluded.setText(text.describe_excluded(data))

    def _show_all(self) -> None:
        if self._data is not None:
            self._show_range(self._data)
            self._show_heights(self._data)

    def _draw(self, data: DistributionData) -> None:
        """Draw the bars or curves. Moving bars is faster than new ones: a drag draws many."""
        bars = [] if data.curve else self._bars(data)
        if bars and [type(item) for item in self._items] == len(bars) * [CappedBars]:
            for item, options in zip(self._items, bars, strict=True):
                item.setOpts(**options)
            return
        for item in self._items:
            self._plot.removeItem(item)
        self._items = [CappedBars(**options) for options in bars] or self._curves(data)
        for item in self._items:
            self._plot.addItem(item, ignoreBounds=True)

    def _show_legend(self, data: DistributionData) -> None:
        if data.curve:
            shown = text.curve_legend(data.curve, self.colours())
        else:
            shown = legend(data.subject, self.colours())
            if (others := len(data.names) - 1) > 0:
                shown += SEPARATOR + unbroken(tr("faint: {count:,} more", count=others))
        self._legend.setText("<br>".join(filter(None, (shown, escape(text.remark(data))))))

    def _label(self, data: DistributionData) -> None:
        left, bottom = (self._plot.plotItem.getAxis(side) for side in ("left", "bottom"))
        for axis, log in ((left, self._is_log), (bottom, data.request.log)):
            if axis.logMode != log:  # the axis would be drawn again
                axis.setLogMode(log)
        numbers, counts = text.axis_labels(data, log_counts=self._is_log)
        self._plot.label("bottom", numbers)
        self._plot.label("left", counts)

    def _show_range(self, data: DistributionData) -> None:
        request, positions = data.request, data.positions
        min_length = MIN_DECADES if request.log else MIN_LENGTH
        low, high = span(float(positions[0]), float(positions[-1]), min_length)
        symmetric = request.signed and request.symmetric
        inner = span(*inner_range(positions, data.sums, symmetric=symmetric), min_length)
        self._plot.view.setLimits(xMin=low, xMax=high, minXRange=(inner[1] - inner[0]) / 100)
        shown = (low, high) if self._full_range_box.isChecked() else inner
        self._plot.setXRange(*shown, padding=0)

    def _show_heights(self, data: DistributionData) -> None:
        floor, highest = 0.0, max(1, int(data.sums.max()))
        if data.curve is not None:
            top = 100.0
        elif self._is_log:
            floor, top = FLOOR, max(1.0, math.log10(highest))
        else:
            top = highest if self._full_range_box.isChecked() else peak_limit(data.sums)
        self._plot.setYRange(floor, top * HEADROOM, padding=0)

    def _scale(self, data: DistributionData) -> AxisScale:
        return AxisScale(
            float(data.edges[0]) if data.request.log else None,
            data.request.signed,
            tr("score") if isinstance(data.request.of, int) else "|w|",
        )

    def _bars(self, data: DistributionData) -> list[dict[str, object]]:
        colours, codes, edges = self.colours(), data.codes, data.positions
        tops = stacked(np.concatenate([data.counts, data.others]), log=self._is_log)
        bars = []
        for row in range(len(codes) * (2 if len(data.names) > 1 else 1)):
            code = codes[row % len(codes)]
            colour = QColor(colours.of(code, data.subject.draft))
            colour.setAlpha(255 if row < len(codes) else OTHERS_ALPHA)
            nonempty = tops[row + 1] > tops[row]
            sides = {"x0": edges[:-1], "x1": edges[1:], "y0": tops[row], "y1": tops[row + 1]}
            shown = {side: ends[nonempty] for side, ends in sides.items()}
            cap = kept_cap(colours) if code == KEPT else None
            bars.append({**shown, "pen": None, "brush": colour, "cap": cap})
        return bars

    def _curves(self, data: DistributionData) -> list[pg.PlotCurveItem]:
        curve, colours, scale = data.curve, self.colours(), self._scale(data)
        assert curve is not None
        positions = np.array([scale.position(score) for score in curve.scores.tolist()])
        return [
            pg.PlotCurveItem(positions, 100 * shares, pen=pen(colour, width=2), antialias=True)
            for shares, colour in zip(
                (curve.pruned, curve.energy), text.curve_shades(colours), strict=True
            )
        ]

    def _draw_cuts(self, data: DistributionData) -> None:
        draft = data.subject.draft
        with_line = {draft, *data.subject.counts()}  # a step that prunes nothing here has no line
        cuts = {code: cut for code, cut in data.cuts.items() if code in with_line}
        limited = {code: cut for code, cut in cuts.items() if cut.shared is not None}
        limit = float(np.abs(data.edges).max())
        for lines, wanted in ((self._cuts, cuts), (self._own_cuts, limited)):
            for code in [code for code in lines if code not in wanted]:
                lines.pop(code).remove()
            for code, cut in wanted.items():
                if code not in lines:
                    lines[code] = CutLine(self._plot)
                    lines[code].dragged.connect(partial(self._drag, code))
                title = tr("draft") if code == draft else tr("step {number}", number=code)
                look = title, self.colours(), self._scale(data)
                own = lines is self._own_cuts
                lines[code].show_cut(cut, *look, limit=limit, drafted=code == draft, own=own)
        self._arrange()

    def _arrange(self) -> None:
        lines = [cuts[code] for cuts in (self._own_cuts, self._cuts) for code in sorted(cuts)]
        arrange_labels(self._plot, lines)
        data = self._data
        if data is None:
            return
        (low, high), (_, top) = self._plot.view.viewRange()
        beyond = count_beyond(data.positions, data.sums, low, high)
        for mark, count, extreme in zip(self._marks, beyond, data.extremes, strict=True):
            mark.show_count(count, extreme, self.colours())
        peak = int(data.sums.argmax())
        middle, count = float(data.positions[peak : peak + 2].mean()), int(data.sums[peak])
        self._peak_mark.hide()
        if not (data.curve or self._is_log) and count > top and low <= middle <= high:
            self._peak_mark.show_peak(middle, count, self.colours())

    def _drag(self, code: int, value: float) -> None:
        self._arrange()
        if self._data is not None:
            of_step = isinstance(self._data.request.of, int)
            step = None if code == self._data.subject.draft else code
            self._request_draft(CutRequest("score" if of_step else "weight", value, step))

    def _point_at(self, scene: QPointF | None) -> None:
        data, self._cursor = self._data, scene
        described = ""
        if scene is not None and self._plot.view.sceneBoundingRect().contains(scene) and data:
            x = self._plot.view.mapSceneToView(scene).x()
            value = math.pow(10.0, x) if data.request.log else x
            position = int(np.searchsorted(data.edges, value, side="right")) - 1
            if data.curve is not None:
                described = text.describe_cut(data.curve, max(value, 0.0))
            elif 0 <= position < data.counts.shape[1]:
                described = text.describe_bin(data, position)
        self._pointed.say(described)

    def table(self) -> Table | None:
        return text.table_of(self._data) if self._data is not None and self.picture() else None
