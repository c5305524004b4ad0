"""The attention heads in a map: how many there are, and when their shares are computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSignalBlocker
from PySide6.QtWidgets import QToolTip

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.heads_box import AUTO, OFF, HeadsBox
from prune_gui.gui.views.maps.tile_pipeline import RunJob
from prune_gui.gui.views.maps.viewport import Viewport, head_key
from prune_gui.language import tr
from prune_gui.number_formats import sparsity
from prune_gui.raster.head_bands import HeadBands, head_bands, head_shares
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.slice_layout import ParameterLayout


class HeadReader:
    """Shows the heads of a parameter, as many as the file states or the user chose.

    Attributes:
        box: the number of heads; hidden if the parameter is no matrix.
    """

    def __init__(self, canvas: MapCanvas, viewport: Viewport, lane: str, run_job: RunJob) -> None:
        self._canvas = canvas
        self._viewport = viewport
        self._lane = lane
        self._run_job = run_job
        self._subject: Subject | None = None
        self._shown: Subject | None = None
        self._bands: HeadBands | None = None
        self._layout: ParameterLayout | None = None
        self._key: Hashable = None
        self.box = HeadsBox()
        self.box.valueChanged.connect(self._choose)

    def show(self, subject: Subject, layout: ParameterLayout) -> None:
        """Show the heads of the parameter on the screen; their shares follow with `request`."""
        self._subject = subject
        count = self._viewport.head_counts.get(head_key(subject.name), AUTO)
        with QSignalBlocker(self.box):
            self.box.setValue(count)
        self.box.setVisible(len(layout.shape) == 2)
        bands = self._bands_of(subject, layout, count)
        if (bands, layout) != (self._bands, self._layout) or not subject.same_parameter(
            self._shown
        ):
            self._bands, self._layout, self._key, self._shown = bands, layout, None, subject
            self._canvas.heads.show_bands(bands, (layout.rows, layout.columns))

    def request(self) -> None:
        """Compute the shares of the heads on the screen, unless they are shown already."""
        subject, layout, bands = self._subject, self._layout, self._bands
        if subject is None or layout is None or bands is None:
            return
        key = (subject.marked_key, layout, bands)
        if key == self._key:
            return
        size = subject.info.numel // len(bands.labels)

        def compute(monitor: Monitor) -> list[str]:
            shares = head_shares(subject.marked, subject.name, layout, bands, monitor)
            return [sparsity(round(float(share) * size), size) for share in shares]

        def show(shares: list[str]) -> None:
            if (layout, bands) == (self._layout, self._bands):
                self._key = key
                self._canvas.heads.show_bands(bands, (layout.rows, layout.columns), shares)

        self._run_job(self._lane, subject, compute, show)

    def _choose(self, count: int) -> None:
        subject, layout = self._subject, self._layout
        if subject is None or layout is None:
            return
        self._viewport.head_counts[head_key(subject.name)] = count
        self.show(subject, layout)
        self.request()
        if count > 0 and self._bands is None:
            message = tr("{count:,} heads do not divide this weight evenly.", count=count)
            QToolTip.showText(self.box.mapToGlobal(QPoint(0, self.box.height())), message, self.box)

    @staticmethod
    def _bands_of(subject: Subject, layout: ParameterLayout, count: int) -> HeadBands | None:
        from prune_gui.architecture.heads import (  # torch: slow to import
            attention_heads,
            split_evenly,
        )

        if count == OFF:
            return None
        checkpoint = subject.resolution.checkpoint
        heads = (
            attention_heads(checkpoint, subject.name)
            if count == AUTO
            else split_evenly(checkpoint, subject.name, count)
        )
        return head_bands(heads, layout)
