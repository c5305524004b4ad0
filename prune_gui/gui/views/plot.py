"""A plot in the colours of the theme, its axes and bars, and marks of what is beyond it."""

from __future__ import annotations

import math
from html import escape
from typing import Any, Final, Literal

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from pyqtgraph.Qt.internals import PrimitiveArray
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Signal
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication

from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.gui.widgets import theme
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, WIDE_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, format_number, join_clauses, tr
from prune_gui.number_formats import SHAPE_SEPARATOR
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.raster.colours import Colours, mixed
from prune_gui.raster.parameter_layouts import KernelLayout, ParameterLayout
from prune_gui.session.subjects import Subject

Ends = NDArray[Any] | float  # the position of a side of each bar
Side = Literal["left", "right", "top", "peak"]
ANCHORS: Final[dict[Side, tuple[float, float]]] = {
    "left": (0.0, 0.5),
    "right": (1.0, 0.5),
    "top": (1.0, 0.0),
    "peak": (0.0, 0.5),
}
MARK_Z: Final = 102  # stacking order: above the lines of cuts


class PaperPainter(QPainter):
    """Draws the lines of plots as wide as on the screen, at any resolution and in any file.

    Cosmetic pens would be as wide as pixels of the device, and few programs draw those of an SVG
    file. Here, shapes have the coordinates of the widget, in which pens are not cosmetic.
    """

    def drawPath(self, path: QPainterPath) -> None:  # noqa: N802
        line = self.pen()
        if not line.isCosmetic():
            super().drawPath(path)
            return
        line.setCosmetic(False)
        self.save()
        in_widget = self.worldTransform().map(path)
        self.resetTransform()
        self.setPen(line)
        super().drawPath(in_widget)
        self.restore()

    def drawLine(self, start: QPointF, end: QPointF) -> None:  # type: ignore[override]  # noqa: N802
        path = QPainterPath(start)
        path.lineTo(end)
        self.drawPath(path)


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """A plot without pyqtgraph's menu and buttons."""

    left = Signal()  # the cursor left the plot
    on_paper = False  # whether it is drawn into a figure

    def __init__(
        self, axes: dict[str, pg.AxisItem] | None = None, view: pg.ViewBox | None = None
    ) -> None:
        colours = theme.colours(QApplication.palette())
        pg.setConfigOptions(
            imageAxisOrder="row-major", background=colours.background, foreground=colours.foreground
        )
        items = dict(axes or {})
        items |= {side: ValueAxis(side) for side in ("left", "bottom") if side not in items}
        super().__init__(viewBox=view or pg.ViewBox(enableMenu=False), axisItems=items)
        self.plotItem.hideButtons()
        self.plotItem.setMenuEnabled(False)
        # pyqtgraph creates the menu nevertheless, without a parent: let the plot own it.
        menu = self.plotItem.ctrlMenu
        menu.setParent(self, menu.windowFlags())
        self.setFrameShape(self.Shape.NoFrame)
        # The background is plain. A cached pixmap would end up as a bitmap in vector exports.
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.plotItem.layout.setContentsMargins(TIGHT_PX, GAP_PX, WIDE_PX, TIGHT_PX)
        for side in ("left", "bottom"):
            self.plotItem.getAxis(side).enableAutoSIPrefix(False)
        Plot.recolour(self, colours)  # what a subclass draws does not exist yet

    @property
    def view(self) -> pg.ViewBox:
        return self.plotItem.vb

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.left.emit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        is_made = self.plotItem is not None
        if event.type() == QEvent.Type.PaletteChange and is_made:
            self.recolour(theme.colours(self.palette()))

    def draw_on_paper(self, *, on: bool) -> None:
        """Draw lines and points for figures from now on, or for the screen again."""
        self.on_paper = on
        for item in self.scene().items():
            if isinstance(item, pg.ScatterPlotItem):
                item.setExportMode(on)  # as shapes instead of copies of a bitmap

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if not self.on_paper:
            super().paintEvent(event)
            return
        with PaperPainter(self.viewport()) as painter:
            painter.fillRect(self.viewport().rect(), self.backgroundBrush())
            self.scene().render(painter, self.viewport().rect(), self.sceneRect())

    def show_positions(self, size: int, min_visible: int) -> None:
        """Show the positions 0 ... size - 1, and limit panning and zooming to them."""
        self.view.setLimits(xMin=-0.5, xMax=size - 0.5, minXRange=min(min_visible, size))
        self.setXRange(-0.5, size - 0.5, padding=0)

    def position_at(self, scene: QPointF, size: int) -> int | None:
        """Return the position of 0 ... size - 1 at a point of the scene; None if none is there."""
        position = round(self.view.mapSceneToView(scene).x())
        inside = self.view.sceneBoundingRect().contains(scene)
        return position if inside and 0 <= position < size else None

    def label(self, side: str, text: str) -> None:
        axis, html = self.plotItem.getAxis(side), escape(text)
        if html == axis.labelText:  # the axis would be laid out again
            return
        axis.setLabel(html)
        axis.showLabel(bool(text))
        axis.resizeEvent()  # centres the new text; otherwise it keeps the start of the old one

    def recolour(self, colours: Colours) -> None:
        """Use other colours; pyqtgraph ignores the palette."""
        self.setBackground(colours.background)
        for side in ("left", "bottom"):
            axis = self.plotItem.getAxis(side)
            axis.setPen(colours.foreground, cosmetic=False)
            axis.setTextPen(colours.foreground)


def pen(colour: str, *, width: float = 1.0, dashed: bool = False) -> pg.QtGui.QPen:
    """Return a pen whose width is in screen pixels at any zoom."""
    style = pg.QtCore.Qt.PenStyle.DashLine if dashed else pg.QtCore.Qt.PenStyle.SolidLine
    return pg.mkPen(colour, width=width, style=style)


class CappedBars(pg.BarGraphItem):  # type: ignore[misc]
    """Bars with a line along their tops, in the pen of the option `cap` if it is given.

    The pale colour of kept elements needs it on a background that is pale, too. Outlines of narrow
    bars would cover them.
    """

    def paint(self, painter: QPainter, *options: object) -> None:
        """Draw the bars; for a figure only their visible parts, because its file may not clip."""
        if isinstance(painter, PaperPainter):
            self._paint_visible(painter)
            return
        super().paint(painter, *options)
        if (cap := self.opts.get("cap")) is None:
            return
        ends = np.stack([self.opts[end] for end in ("x0", "y1", "x1", "y1")], 1)
        painter.setPen(cap)
        lines = PrimitiveArray(QLineF, 4)
        lines.resize(len(ends))
        lines.ndarray()[:] = ends
        painter.drawLines(*lines.drawargs())

    def _paint_visible(self, painter: PaperPainter) -> None:
        sight = self.getViewBox().viewRect()
        x0, x1 = (np.clip(self.opts[end], sight.left(), sight.right()) for end in ("x0", "x1"))
        y0, y1 = (np.clip(self.opts[end], sight.top(), sight.bottom()) for end in ("y0", "y1"))
        brush = pg.mkBrush(self.opts["brush"])
        for left, bottom, right, top in np.broadcast(x0, y0, x1, y1):
            if left < right and bottom < top:
                area = QRectF(QPointF(left, bottom), QPointF(right, top))
                painter.fillRect(area, brush)
        if (cap := self.opts.get("cap")) is not None:
            shown = (x0 < x1) & (y1 == self.opts["y1"])
            across, up = np.stack([x0, y1, x1, y1], 1)[shown].reshape(-1, 2).T
            painter.setPen(cap)
            painter.drawPath(pg.arrayToQPath(across, up, connect="pairs"))


def bar_item(
    x0: Ends,
    x1: Ends,
    y0: Ends,
    y1: Ends,
    colour: str | QColor | QBrush,
    cap: QPen | None = None,
) -> CappedBars:
    """Return plain bars, given their sides, and the pen of a line along their tops."""
    return CappedBars(x0=x0, x1=x1, y0=y0, y1=y1, pen=None, brush=colour, cap=cap)


def kept_cap(colours: Colours) -> pg.QtGui.QPen:
    """Return the pen of the tops of bars, and of the outlines of points, of kept elements."""
    return pen(mixed(colours.grid, colours.foreground, 0.4))


class OverflowMark(pg.TextItem):  # type: ignore[misc]
    """A labelled arrow inside a plot: "▴ 12 beyond, up to 3.4"."""

    def __init__(self, plot: Plot, side: Side) -> None:
        super().__init__(anchor=ANCHORS[side])
        self._plot, self._side = plot, side
        self.setZValue(MARK_Z)
        self.hide()
        plot.addItem(self, ignoreBounds=True)

    def show_count(self, count: int, extreme: float, colours: Colours) -> None:
        self.setVisible(count > 0)
        if not count:
            return
        self._write(overflow_text(count, extreme, self._side), colours)
        (left, right), (bottom, top) = self._plot.view.viewRange()
        x = left if self._side == "left" else right
        self.setPos(x, top if self._side == "top" else bottom + 0.6 * (top - bottom))

    def show_peak(self, x: float, count: int, colours: Colours) -> None:
        self.show()
        self._write("▴ " + tr("{count:,} weights in this bin", count=count), colours)
        bottom, top = self._plot.view.viewRange()[1]
        self.setPos(x, bottom + 0.85 * (top - bottom))

    def _write(self, text: str, colours: Colours) -> None:
        self.fill = pg.mkBrush(colours.background)
        self.setText(text, colours.foreground)


def overflow_text(count: int, extreme: float, side: Side) -> str:
    """Return the text of a mark: in two lines at the side of a plot, where space is narrow."""
    beyond = tr("{count:,} beyond", count=count)
    if side == "left":
        return f"◂ {beyond}\n" + tr("down to {value:.3g}", value=extreme)
    up_to = tr("up to {value:.3g}", value=extreme)
    return f"▴ {join_clauses([beyond, up_to])}" if side == "top" else f"{beyond} ▸\n{up_to}"


LABEL_OVERHANG_PX: Final = 8
"""Pixels by which a tick text may extend beyond the ends of its axis: half a "0" under index 0."""
EXPONENT_FORM_FROM: Final = 5
"""Exponent from which powers of ten are written as 10⁵; pyqtgraph does so below 0.0001."""


KERNEL_DIMS: Final = {
    "1d": (deferred("kernel position"),),
    "2d": (deferred("kernel row"), deferred("kernel column")),
    "3d": (deferred("kernel plane"), deferred("kernel row"), deferred("kernel column")),
}


def dim_names(
    module_type: str, name: str, shape: tuple[int, ...], layout: WeightLayout = USUAL
) -> tuple[str, ...]:
    """Return the name of each dimension of a parameter."""
    dims = tuple(tr("dim {dim}", dim=dim) for dim in range(len(shape)))
    is_convolution = module_type.startswith("Conv")
    kernel = tuple(map(tr, KERNEL_DIMS.get(module_type[-2:], ()) if is_convolution else ()))
    if not layout.is_usual:
        kernel = tuple(map(tr, KERNEL_DIMS.get(f"{len(shape) - 2}d", ())))
    if not layout.is_usual or (kernel and len(shape) == 2 + len(kernel)):
        channels = {layout.output_dim: tr("output channel"), layout.input_dim: tr("input channel")}
        others = iter(kernel)
        return tuple(channels.get(dim) or next(others, dims[dim]) for dim in range(len(shape)))
    if len(shape) == 2:
        return _matrix(module_type, name) or dims
    if len(shape) == 1 and (module_type == "Linear" or kernel):
        return (tr("output channel"),)
    if len(shape) == 1 and "Norm" in module_type:
        return (tr("feature"),) if module_type in ("LayerNorm", "RMSNorm") else (tr("channel"),)
    return dims if len(shape) > 1 else (tr("element"),) * len(shape)


def dim_names_of(workbench: Workbench, subject: Subject) -> tuple[str, ...]:
    """Return the name of each dimension of the parameter that a view shows."""
    name, module_index = subject.name, workbench.opened.module_index
    layout = weight_layout(subject.resolution.checkpoint, name)
    return dim_names(module_index.module_type_of(name), name, subject.info.shape, layout)


def dim_labels(names: tuple[str, ...]) -> list[str]:
    """Return the number and the name of each dimension: "dim 0: output channel"."""
    return [
        name if name == tr("dim {dim}", dim=dim) else tr("dim {dim}: {name}", dim=dim, name=name)
        for dim, name in enumerate(names)
    ]


def _matrix(module_type: str, name: str) -> tuple[str, str] | None:
    """Return the names of the rows and the columns of a matrix; None if they are not known."""
    leaf = name.rpartition(".")[2]
    if module_type == "Embedding":
        return tr("position") if "pos" in name.lower() else tr("token"), tr("feature")
    if module_type.startswith(("LSTM", "GRU", "RNN")):
        unit = tr("hidden unit")
        gates = tr("gate \N{MULTIPLICATION SIGN} hidden unit")
        down = unit if module_type.startswith("RNN") else gates
        return down, tr("input") if "_ih" in leaf else unit
    if "embed" in name.lower():
        return None
    return tr("output channel"), tr("input channel")


def layout_labels(
    names: tuple[str, ...], layout: ParameterLayout, dims: tuple[int, int] | None
) -> tuple[str, str]:
    """Return the labels of the vertical and the horizontal axis of a picture."""
    if dims is not None:
        return names[dims[0]], names[dims[1]]
    if isinstance(layout, KernelLayout):
        if layout.across != layout.shape[1]:
            across = tr("{dim} within a row of {count}", dim=names[0], count=layout.across)
            return names[0], across
        down, across = (tr("{dim}, one kernel per cell", dim=name) for name in names[:2])
        return down, across
    if len(names) < 2:
        what = names[0] if names else tr("element")
        return "" if layout.rows == 1 else tr("row of {count:,}", count=layout.columns), what
    return names[0], f" {SHAPE_SEPARATOR} ".join(names[1:])


def axis_scales(layout: ParameterLayout) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return for both axes the index units per line, and the index after the last.

    The axes of a kernel grid count channels. One of its rows may hold several channels.
    """
    if isinstance(layout, KernelLayout):
        per_row = layout.shape[0] // layout.down
        down = per_row / layout.pitch[0], layout.shape[0]
        return down, (1 / layout.pitch[1], layout.across)
    return (1.0, layout.rows), (1.0, layout.columns)


def axis_shifts(layout: ParameterLayout) -> tuple[float, float]:
    """Return for both axes the lines from the first line of an index to the middle of its lines."""
    if not isinstance(layout, KernelLayout):
        return 0.0, 0.0
    return (layout.height - 1) / 2, (layout.width - 1) / 2


class ValueAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of numbers written as by pyqtgraph, but with the decimal sign of the locale."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        point = format_number(0.5, ".1f").strip("05")
        return [text.replace(".", point) for text in super().tickStrings(values, scale, spacing)]

    def logTickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Return the text of each tick: 10 next to 0.1 and 1, where pyqtgraph writes 10¹."""
        texts = super().logTickStrings(values, scale, spacing)
        return [
            f"{10**value:g}" if 1 <= value < EXPONENT_FORM_FROM else text
            for value, text in zip(values, texts, strict=True)
        ]


MIN_GROUP_PX: Final = 16
MIN_LABEL_DISTANCE_PX: Final = 48


class IndexAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis of indices from 0, with digits grouped: 12,288."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.end: int | None = None  # the index after the last; None if there is no limit
        self.group = 1  # number of indices between ticks, if there is room for all of them
        self.shift = 0.0  # of the ticks, to the middle of the lines of an index
        self.setStyle(maxTextLevel=0)
        if orientation == "bottom":
            self.setStyle(hideOverlappingLabels=LABEL_OVERHANG_PX)

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:  # noqa: N802
        """Return a tick for each group, or the spacings of pyqtgraph, raised to at least 1."""
        group_px = self.group * size / max(abs(high - low), 1e-9)
        if self.group > 1 and group_px >= MIN_GROUP_PX:
            labelled = self.group * math.ceil(MIN_LABEL_DISTANCE_PX / group_px)
            return [(labelled, 0), (self.group, 0)]
        return [(max(1.0, spacing), at) for spacing, at in super().tickSpacing(low, high, size)]

    def tickValues(  # noqa: N802
        self, low: float, high: float, size: float
    ) -> list[tuple[float, list[float]]]:
        low, high = sorted((low, high))
        levels = super().tickValues(low - self.shift, high - self.shift, size)
        return [(spacing, [value + self.shift for value in ticks]) for spacing, ticks in levels]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        end = math.inf if self.end is None else self.end
        indices = [round((value - self.shift) * scale) for value in values]
        return [format_number(index) if 0 <= index < end else "" for index in indices]


class CountAxis(IndexAxis):
    """An axis of counts; if it is logarithmic, only the powers of ten have texts."""

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        if not self.logMode:
            return super().tickStrings(values, scale, spacing)
        return [format_number(10 ** round(v)) if v >= 0 and v == round(v) else "" for v in values]
