"""Reads the element of a map that the inspector describes: the pinned one, or the hovered one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QTimer

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.element_inspector import ElementInspector
from prune_gui.gui.views.maps.text import describe, describe_ranks
from prune_gui.gui.views.maps.tile_pipeline import RunJob
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.element import Element
    from prune_gui.raster.slice_layout import ParameterLayout
    from prune_gui.recipe.explanation import Explanation

REST_MS: Final = 200
"""Time for which the cursor must rest on an element before its ranks are computed."""
MAX_RESTED_ELEMENTS: Final = 1 << 26
"""Limit of the parameters whose ranks are computed when the cursor rests: ranks read all elements.
In larger parameters, only the pinned element has ranks."""


class ElementReader:
    """Reads the element that the user pinned by a click; if there is none, the hovered one.

    Attributes:
        inspector: describes the element.
    """

    def __init__(
        self,
        canvas: MapCanvas,
        viewport: Viewport,
        lane: str,
        run_job: RunJob,
        current_subject: Callable[[], Subject | None],
    ) -> None:
        self._canvas = canvas
        self._viewport = viewport
        self._lane = lane
        self._run_job = run_job
        self._current_subject = current_subject
        self._cursor: tuple[int, int] | None = None
        self.inspector = ElementInspector()
        self._rest_timer = QTimer(self.inspector, singleShot=True, interval=REST_MS)
        self._rest_timer.timeout.connect(self._read_ranks)
        canvas.pointed.connect(self._set_cursor)
        canvas.clicked.connect(self._set_pin)
        canvas.escaped.connect(lambda: self._set_pin(None))

    def update(self) -> None:
        """Describe the element again: in a new picture, or after another view pinned one."""
        self._canvas.pin(self._pin)
        self._rest_timer.stop()
        if self._pin is not None:
            self._read_ranks()
        else:
            self._read_hovered()

    def stop(self) -> None:
        """Compute no ranks of the hovered element."""
        self._rest_timer.stop()

    def forget_cursor(self) -> None:
        """Forget the position of the cursor, which another layout does not have."""
        self._cursor = None

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            if self._pin is None:
                self._read_hovered()

    def _set_pin(self, cell: tuple[int, int] | None) -> None:
        self._viewport.pin(None if cell == self._pin else cell)
        self.update()

    @property
    def _pin(self) -> tuple[int, int] | None:
        layout = self._canvas.layout_shown
        view_state = self._viewport.within(layout) if layout is not None else None
        return view_state.pinned if view_state is not None else None

    def _read_hovered(self) -> None:
        """Describe the element under the cursor, and its ranks when the cursor rests."""
        shown, cursor = self._shown(), self._cursor
        if shown is None or cursor is None:
            self._rest_timer.stop()
            self.inspector.clear()
            return
        subject, layout = shown
        if subject.info.numel <= MAX_RESTED_ELEMENTS:
            self._rest_timer.start()

        def read(_: Monitor) -> Element:
            from prune_gui.raster.element import element_at  # torch: slow to import

            return element_at(subject.resolution, subject.name, layout, *cursor)

        def show(weight: Element) -> None:
            if cursor == self._cursor and self._pin is None:
                self.inspector.show_element(describe(subject, weight), pinned=False)

        self._run_job(f"{self._lane}.entry", subject, read, show)

    def _read_ranks(self) -> None:
        """Describe the element with its ranks."""
        shown, pin = self._shown(), self._pin
        cell = pin or self._cursor
        if shown is None or cell is None:
            self.inspector.clear()
            return
        subject, layout = shown
        index = layout.index(*cell)

        def show(explanation: Explanation) -> None:
            if (pin, cell) == (self._pin, self._pin or self._cursor):
                text = describe_ranks(subject, explanation)
                self.inspector.show_element(text, pinned=pin is not None)

        self._run_job(
            f"{self._lane}.pin",
            subject,
            lambda _: subject.resolution.explain(subject.name, index),
            show,
        )

    def _shown(self) -> tuple[Subject, ParameterLayout] | None:
        """Return the parameter and its layout; None while the picture is of another parameter."""
        subject, layout = self._current_subject(), self._canvas.layout_shown
        if subject is None or layout is None or layout.shape != subject.info.shape:
            return None
        return subject, layout
