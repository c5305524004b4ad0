"""Where one looks in a parameter, shared by all views of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.slice_layout import SliceLayout

if TYPE_CHECKING:
    from prune_gui.audit.raster.slice_layout import ParameterLayout

LaidOut = SliceLayout | KernelGrid | tuple[int, int] | None
"""A layout that has no choice in it, the dimensions of a section, or None: flattened."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a user wants parameters of a shape laid flat.

    Attributes:
        shape: of the parameters.
        laid_out: what was chosen for them.
        at: where a section lies, an index along every dimension.
    """

    shape: tuple[int, ...]
    laid_out: LaidOut
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in pictures of so many rows and columns.

    Attributes:
        size: the rows and the columns.
        sight: what is in sight, x in columns and y in rows.
        pinned: the row and the column of the entry that is pinned; None if none is.
    """

    size: tuple[int, int]
    sight: QRectF
    pinned: tuple[int, int] | None = None


class Viewport:
    """Where the views look; the one in front says so, and the others follow when they are shown.

    Attributes:
        choice: the last that a user made; None before.
        place: the last that was looked at; None before.
    """

    def __init__(self) -> None:
        self.choice: Choice | None = None
        self.place: Place | None = None

    def within(self, layout: ParameterLayout) -> Place | None:
        """Return the place if it is one in pictures like this."""
        place = self.place
        return place if place is not None and place.size == (layout.rows, layout.columns) else None

    def look(self, layout: ParameterLayout, sight: QRectF) -> None:
        """Look at a part of a picture; what is pinned stays so in pictures of one size."""
        before = self.within(layout)
        pinned = before.pinned if before is not None else None
        self.place = Place((layout.rows, layout.columns), sight, pinned)

    def pin(self, entry: tuple[int, int] | None) -> None:
        """Pin an entry of the picture that is looked at, or none."""
        if self.place is not None:
            self.place = replace(self.place, pinned=entry)
