"""Descriptions of two elements of a map: the one under the cursor, and the pinned one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prune_gui.audit.rendering.tile_pipeline import RunJob
from prune_gui.audit.view_data.element_text import describe, describe_pinned
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.audit.statistics.element import Element
    from prune_gui.monitor import Monitor
    from prune_gui.recipe.explanation import Explanation


class ElementLabels:
    """Describes the element under the cursor, and the one that the user pinned by a click.

    Args:
        canvas: shows the picture; a click pins an element, and Escape releases it.
        viewport: has the pinned element, which all views of a parameter share.
        lane: lane of the jobs of the view.
        run_job: runs the jobs.
        current_subject: returns the parameter that the view shows; None if there is none.

    Attributes:
        hovered: describes the element under the cursor.
        pinned: describes the pinned element; hidden if there is none.
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
        self.hovered = ElidedLabel(tr("Weight under the cursor"), wrapped=False)
        self.pinned = ElidedLabel(tr("Pinned weight"), wrapped=True)
        self.pinned.setContentsMargins(8, 4, 8, 0)
        self.pinned.hide()
        canvas.pointed.connect(self._set_cursor)
        canvas.clicked.connect(self._set_pin)
        canvas.escaped.connect(lambda: self._set_pin(None))

    def update(self) -> None:
        """Describe both elements of a new picture."""
        self._describe_hovered()
        self.update_pinned()

    def forget_cursor(self) -> None:
        """Forget the position of the cursor, which another layout does not have."""
        self._cursor = None

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            self._describe_hovered()

    def _describe_hovered(self) -> None:
        shown, cursor = self._shown(), self._cursor
        if shown is None or cursor is None:
            self.hovered.say("")
            return
        subject, layout = shown

        def read(_: Monitor) -> Element:
            from prune_gui.audit.statistics.element import element_at  # torch: slow to import

            return element_at(subject.resolution, subject.name, layout, *cursor)

        def show(weight: Element) -> None:
            if cursor == self._cursor:
                self.hovered.say(describe(subject, weight))

        self._run_job(f"{self._lane}.entry", subject, read, show)

    def _set_pin(self, cell: tuple[int, int] | None) -> None:
        self._viewport.pin(None if cell == self._pin else cell)
        self.update_pinned()

    @property
    def _pin(self) -> tuple[int, int] | None:
        layout = self._canvas.layout_shown
        view_state = self._viewport.within(layout) if layout is not None else None
        return view_state.pinned if view_state is not None else None

    def update_pinned(self) -> None:
        """Describe the pinned element, which another view may have changed."""
        shown, pin = self._shown(), self._pin
        self._canvas.pin(pin)
        self.pinned.setVisible(pin is not None)
        if shown is None or pin is None:
            return
        subject, layout = shown
        index = layout.index(*pin)

        def show(explanation: Explanation) -> None:
            if pin == self._pin:
                self.pinned.say(describe_pinned(subject, explanation))

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
