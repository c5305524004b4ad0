"""What a map view shows of a parameter: a painter, and the controls that set it up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.tile_pipeline import RenderedView, TextPainter
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.raster.colours import Colours
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.profiles import Profiles
    from prune_gui.raster.slice_layout import ParameterLayout


class Profiler(TextPainter, Protocol):
    """A painter that also computes profiles, on the engine's thread."""

    @property
    def is_part(self) -> bool:
        """Whether no more of the parameter is to be read than what is shown."""

    @property
    def profile_key(self) -> Hashable:
        """A key that is equal for equal profiles."""

    def profiles(self, layout: ParameterLayout, monitor: Monitor) -> Profiles:
        """Return the profiles of a whole layout."""


class ColourBar(Protocol):
    """The colours of a picture and their numbers, below it."""

    @property
    def html(self) -> str:
        """The bar as rich text; "" if the picture does not have its colours."""


class MapContent(QObject):
    """What a map view shows. Subclasses set the attributes.

    Attributes:
        lane: lane of the jobs that compute the picture.
        name: accessible name of the view.
        picture_name: accessible name of the picture.
        profiles_tip: tool tip of the box that shows the profiles.
        controls: widgets above the picture, before those that all map views have.
        bar: colour bar, which is before the legend in an exported picture.
        scale: widgets below the picture: the bar, and what sets it up.

    Signals:
        changed: the user has chosen something else to show.
        recoloured: the user has chosen other colours for the same picture.
    """

    lane: ClassVar[str]
    name: str
    picture_name: str
    profiles_tip: str
    controls: Sequence[QWidget]
    bar: ColourBar
    scale: Sequence[QWidget]
    changed = Signal()
    recoloured = Signal()

    def prepare(self, subject: Subject, *, is_whole: bool) -> None:
        """Fit the controls to a parameter, before all of it or a part is painted."""

    @abstractmethod
    def painter(self, subject: Subject, colours: Colours) -> Profiler:
        """Return a painter of a parameter, set up from the controls."""

    @abstractmethod
    def legend(self, subject: Subject, colours: Colours, rendered: RenderedView) -> str:
        """Return the legend of a picture as rich text, without the colour bar."""

    def update_bar(self, subject: Subject, colours: Colours) -> None:
        """Show the colours of a new picture in the colour bar."""

    def fit_colours(self, _visible: Pixels, _cell: tuple[int, int], _colours: Colours) -> bool:
        """Fit the colours to the visible cells; return whether they have changed."""
        return False

    def pixels(self, picture: Pixels, _cell: tuple[int, int], _colours: Colours) -> Pixels:
        """Return the red, green, blue and opacity of a picture whose cells have a size."""
        return picture

    def clear_caches(self) -> None:
        """Forget what was computed for the previous file."""

    @abstractmethod
    def profile_titles(self, subject: Subject) -> Titles:
        """Return the titles of the profiles of a parameter, according to the controls."""
