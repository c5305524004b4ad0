"""The unsaved recipe, kept on disk while it is made, so that a crash loses nothing."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Self
from uuid import uuid4

from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from prune_gui.errors import PruneGuiError
from prune_gui.language import tr
from prune_gui.recipe import Recipe
from prune_gui.session.session import Session
from prune_gui.session.state_file import StateFile, StatePath, files_of, remove

log = logging.getLogger(__name__)

SUFFIX: Final = ".unsaved.json"
MAX_UNSAVED_BYTES: Final = 1 << 24
MAX_TIME_S: Final = 32_503_680_000
"""The beginning of the year 3000; Windows has no later times."""
ONE_SECOND: Final = 1.0
"""By which the clocks that say when a process began may differ."""

Time = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
"""In seconds since 1970."""


class Unsaved(BaseModel):
    """A recipe that was not saved, and what it is for.

    Attributes:
        checkpoint: the path of the file that was open.
        state: the name of its state dict; "" if it has no name.
        recipe: as YAML.
        recipe_path: the file of the recipe, if it has one.
        written: when, in seconds since 1970.
        process: who wrote it: its number, and when it began.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checkpoint: StatePath
    state: str = ""
    recipe: str
    recipe_path: StatePath | None = None
    written: Time
    process: tuple[PositiveInt, Time]

    @classmethod
    def of(cls, session: Session) -> Self:
        """Return what there is to keep of a session."""
        import psutil

        checkpoint, recipe = session.checkpoint, session.recipe
        return cls(
            checkpoint=_absolute(checkpoint.path),
            state=checkpoint.state_dict,
            recipe=recipe.anchored().to_yaml(),
            recipe_path=session.recipe_path,
            written=time.time(),
            process=(os.getpid(), psutil.Process().create_time()),
        )

    def parsed(self) -> Recipe:
        """Return the recipe.

        Raises:
            RecipeError: it cannot be read any more, for example because a plug-in is missing.
        """
        source = tr("The unsaved recipe")
        return Recipe.from_yaml(self.recipe, source=source)

    @property
    def writer_lives(self) -> bool:
        """Whether the process that wrote it still runs. One that nobody waited for does not."""
        import psutil

        number, began = self.process
        try:
            writer = psutil.Process(number)
            same = abs(writer.create_time() - began) < ONE_SECOND
            return same and writer.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Journal:
    """The file in which one window keeps its unsaved recipe."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _folder()
        self._path = self._folder / f"{uuid4().hex}{SUFFIX}"

    def keep(self, session: Session) -> None:
        """Write down the recipe of a session, or forget it if it is saved."""
        if not session.unsaved:
            self.forget()
            return
        try:
            unsaved = Unsaved.of(session)
        except (ValueError, PruneGuiError) as error:
            log.warning("The unsaved recipe cannot be kept: %s", error)
        else:
            _file(self._path).save(unsaved)

    def forget(self) -> None:
        """Keep nothing: all is saved, or the user does not want it."""
        remove(self._path)


def left_behind(folder: Path | None = None) -> Iterator[tuple[Path, Unsaved]]:
    """Yield the files of programs that ended without a word, the latest first."""
    found = [
        (path, unsaved)
        for path in files_of(folder or _folder(), SUFFIX)
        if (unsaved := _file(path).load()) is not None and not unsaved.writer_lives
    ]
    yield from sorted(found, key=lambda pair: -pair[1].written)


def _file(path: Path) -> StateFile[Unsaved]:
    return StateFile(path, Unsaved, MAX_UNSAVED_BYTES)


def _folder() -> Path:
    return user_state_path("prune-gui", appauthor=False) / "unsaved"


def _absolute(path: Path) -> Path:
    """Return the absolute path; the path itself if the working folder was deleted."""
    try:
        return path.absolute()
    except FileNotFoundError:
        return path
