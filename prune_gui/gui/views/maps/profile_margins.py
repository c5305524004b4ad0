"""The profiles of a map view: when they are computed, and the box that shows them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.icon_toggle import IconToggle
from prune_gui.gui.views.maps.map_content import Profiler
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.tile_pipeline import RunJob
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.profiles import Profiles
    from prune_gui.raster.slice_layout import ParameterLayout


class ProfileMargins:
    """Computes the profiles of a picture, and shows them in its margins if the user wants them.

    Attributes:
        box: turns the profiles on and off. While they are off, `request` does nothing.
    """

    def __init__(self, canvas: MapCanvas, lane: str, run_job: RunJob, tip: str) -> None:
        self._canvas = canvas
        self._lane = lane
        self._run_job = run_job
        self._key: tuple[Hashable, ParameterLayout] | None = None
        self.box = IconToggle("profiles", tr("Profiles"), tip)
        self.box.setChecked(True)
        self.box.toggled.connect(lambda on: canvas.margins.set_visible(visible=on))
        canvas.margins.set_visible(visible=True)

    def request(self, painter: Profiler, layout: ParameterLayout, titles: Titles) -> None:
        """Compute and show the profiles of a picture, unless they are shown already."""
        key = (painter.profile_key, layout)
        if not self.box.isChecked() or key == self._key:
            return

        def compute(monitor: Monitor) -> Profiles:
            return painter.profiles(layout, monitor)

        def show(profiles: Profiles) -> None:
            if layout == self._canvas.layout_shown:
                self._key = key
                self._canvas.show_profiles(profiles, titles)

        self._run_job(self._lane, painter.subject, compute, show)

    def clear(self) -> None:
        """Remove the profiles of another picture."""
        self._key = None
        self._canvas.clear_profiles()
