"""A map with a profile of its rows and one of its columns in its margins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from PySide6.QtWidgets import QCheckBox, QWidget

from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.tile_render import Painter
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.subject import Subject
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor


class Profiler(Painter, Protocol):
    """Makes pictures of a parameter and profiles of them, on the engine's thread.

    Attributes:
        profile_key: equal if all its profiles are.
    """

    @property
    def profile_key(self) -> Hashable:
        """See above."""

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the profiles of a whole picture."""


class ProfiledView(MapView):
    """Looks at a parameter, and at profiles of the picture if the user wants them."""

    def __init__(
        self,
        workbench: Workbench,
        controls: Sequence[QWidget],
        viewport: Viewport,
        parent: QWidget | None = None,
    ) -> None:
        self._profiles = QCheckBox(tr("Profiles"))
        self._profiles.setChecked(True)
        self._profiled: tuple[Hashable, ParameterLayout] | None = None
        super().__init__(workbench, [*controls, self._profiles], viewport, parent)
        self._profiles.toggled.connect(self._toggle_profiles)
        self._plot.margins.set_shown(shown=True)

    @abstractmethod
    def _painter(self, subject: Subject) -> Profiler:
        """Return what paints the chosen parameter as the controls say."""

    @abstractmethod
    def _titles(self) -> Titles:
        """Return what the profiles are, as the controls say."""

    def _look_beside(self, subject: Subject, layout: ParameterLayout) -> None:
        """Have the profiles made."""
        painter, titles = self._painter(subject), self._titles()
        wanted = (painter.profile_key, layout)
        if not self._profiles.isChecked() or wanted == self._profiled:
            return

        def make(monitor: Monitor) -> Profiles:
            return painter.profiles(layout, monitor)

        def show(found: Profiles) -> None:
            if layout == self._layout:
                self._profiled = wanted
                self._plot.show_profiles(found, titles)

        self._ask(f"{self.lane}.profiles", subject, make, show)

    def _take(self, subject: Subject, layout: ParameterLayout) -> None:
        super()._take(subject, layout)
        self._profiled = None
        self._plot.clear_profiles()

    def _toggle_profiles(self) -> None:
        self._plot.margins.set_shown(shown=self._profiles.isChecked())
        self._complete_picture()
