"""The entries of the command palette: actions, views, recent files and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.gui.actions.palette import PaletteEntry, listed
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.views.registry import VIEWS
from prune_gui.language import tr
from prune_gui.location import Location

if TYPE_CHECKING:
    from PySide6.QtGui import QAction

    from prune_gui.gui.actions.menus import Actions
    from prune_gui.gui.views import ViewTabs
    from prune_gui.gui.workbench import Workbench

MAX_PARAMETERS: Final = 50
"""Limit of the parameters that are shown."""


def of_actions(
    actions: Actions, presets: Iterable[QAction], docks: Iterable[QAction]
) -> Iterator[PaletteEntry]:
    """Yield the enabled actions of the menus, the presets and the switches of the docks."""
    preset, view = tr("Preset"), without_mnemonics(tr("&View"))
    more = [*((preset, action) for action in presets), *((view, action) for action in docks)]
    for menu, action in (*listed(actions), *more):
        if action.isEnabled():
            yield PaletteEntry.of(menu, action)


def of_views(workbench: Workbench, views: ViewTabs) -> Iterator[PaletteEntry]:
    """Yield the views, unless no checkpoint is open."""
    menu = without_mnemonics(tr("&View"))
    for spec in VIEWS if workbench.session is not None else ():
        text = tr("{menu}: {command}", menu=menu, command=without_mnemonics(tr(spec.title)))
        yield PaletteEntry(text, partial(views.bring_forward, spec.key))


def of_files(recent: Iterable[str], open_path: Callable[[Path], None]) -> Iterator[PaletteEntry]:
    """Yield the recent files; `open_path` opens one."""
    for path in recent:
        text = tr("Recent: {path}", path=one_line(str(Location.at(Path(path)))))
        yield PaletteEntry(text, partial(open_path, Path(path)))


def of_parameters(workbench: Workbench, words: Sequence[str]) -> list[PaletteEntry]:
    """Return the first `MAX_PARAMETERS` parameters whose names contain all words."""
    names = workbench.session.checkpoint.tensors if workbench.session is not None else ()
    matches = (name for name in names if all(word in name.lower() for word in words))
    return [
        PaletteEntry(tr("Parameter: {name}", name=one_line(name)), partial(workbench.choose, name))
        for name in islice(matches, MAX_PARAMETERS)
    ]
