"""A map view with profiles of its rows and columns in the margins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from PySide6.QtWidgets import QCheckBox, QWidget

from prune_gui.audit.rendering.tile_render import Painter
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor


class Profiler(Painter, Protocol):
    """A painter that also computes profiles, on the engine's thread.

    Attributes:
        profile_key: equal if all profiles are equal.
    """

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal results."""

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the profiles of a whole layout."""


class ProfiledView(MapView):
    """Shows a parameter, and the profiles of its picture if the user wants them."""

    def __init__(
        self,
        workbench: Workbench,
        controls: Sequence[QWidget],
        viewport: Viewport,
        parent: QWidget | None = None,
    ) -> None:
        self._profiles = QCheckBox(tr("Profiles"))
        self._profiles.setChecked(True)
        self._profiles_key: tuple[Hashable, ParameterLayout] | None = None
        super().__init__(workbench, [*controls, self._profiles], viewport, parent)
        self._profiles.toggled.connect(self._toggle_profiles)
        self._plot.margins.set_visible(visible=True)

    @abstractmethod
    def _painter(self, subject: Subject) -> Profiler:
        """Return a painter of the chosen parameter, set up from the controls."""

    @abstractmethod
    def _titles(self) -> Titles:
        """Return the titles of the profiles, according to the controls."""

    def _request_profiles(self, subject: Subject, layout: ParameterLayout) -> None:
        """Request the profiles."""
        painter, titles = self._painter(subject), self._titles()
        key = (painter.profile_key, layout)
        if not self._profiles.isChecked() or key == self._profiles_key:
            return

        def compute(monitor: Monitor) -> Profiles:
            return painter.profiles(layout, monitor)

        def show(profiles: Profiles) -> None:
            if layout == self._layout:
                self._profiles_key = key
                self._plot.show_profiles(profiles, titles)

        self._run_job(f"{self.lane}.profiles", subject, compute, show)

    def _show_layout(self, subject: Subject, layout: ParameterLayout) -> None:
        super()._show_layout(subject, layout)
        self._profiles_key = None
        self._plot.clear_profiles()

    def _toggle_profiles(self) -> None:
        self._plot.margins.set_visible(visible=self._profiles.isChecked())
        self._complete_picture()
