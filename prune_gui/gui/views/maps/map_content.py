"""What a map view shows of a parameter: a painter, and the controls that set it up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from prune_gui.audit.rendering.colours import Colours
from prune_gui.audit.rendering.tile_render import RenderedView, TextPainter
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.ramp_bar import RampBar

if TYPE_CHECKING:
    from prune_gui.audit.raster.profiles import Profiles
    from prune_gui.audit.raster.slice_layout import ParameterLayout
    from prune_gui.monitor import Monitor


class Profiler(TextPainter, Protocol):
    """A painter that also computes profiles, on the engine's thread."""

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal profiles."""

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the profiles of a whole layout."""


class MapContent(QObject):
    """What a map view shows. Subclasses set the attributes.

    Attributes:
        lane: lane of the jobs that compute the picture.
        name: accessible name of the view.
        picture_name: accessible name of the picture.
        profiles_tip: tool tip of the box that shows the profiles.
        controls: widgets above the picture, before those that all map views have.
        bar: colour bar before the legend; None if there is none.

    Signals:
        changed: the user has chosen something else to show.
    """

    lane: ClassVar[str]
    name: str
    picture_name: str
    profiles_tip: str
    controls: Sequence[QWidget]
    bar: RampBar | None = None
    changed = Signal()

    def prepare(self, subject: Subject) -> None:
        """Fit the controls to a parameter, before it is painted."""

    @abstractmethod
    def painter(self, subject: Subject, colours: Colours) -> Profiler:
        """Return a painter of a parameter, set up from the controls."""

    @abstractmethod
    def legend(self, subject: Subject, colours: Colours, rendered: RenderedView) -> str:
        """Return the legend of a picture as rich text, without the colour bar."""

    def update_bar(self, subject: Subject, colours: Colours) -> None:
        """Show the colours of a new picture in the colour bar, if there is one."""

    def clear_caches(self) -> None:
        """Forget what was computed for the previous file."""

    @abstractmethod
    def profile_titles(self) -> Titles:
        """Return the titles of the profiles, according to the controls."""
