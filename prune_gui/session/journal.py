"""The unsaved recipe on disk, so that it survives a crash."""

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
"""1 January 3000, in seconds since 1970: the latest time that Windows supports."""
START_TIME_TOLERANCE_S: Final = 1.0
"""Maximum difference between two readings of the start time of one process."""

Time = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
"""Seconds since 1970."""


class Unsaved(BaseModel):
    """An unsaved recipe and the checkpoint that it belongs to.

    Attributes:
        state: name of its state dict; "" if it has no name.
        process: the writing process: its id, and its start time in seconds since 1970.
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
        """Return the unsaved recipe of a session."""
        import psutil  # not needed to show the window

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
        """Return the recipe."""
        source = tr("The unsaved recipe")
        return Recipe.from_yaml(self.recipe, source=source)

    @property
    def writer_lives(self) -> bool:
        """Whether the writing process still runs. A zombie process does not."""
        import psutil  # not needed to show the window

        pid, start_time = self.process
        try:
            writer = psutil.Process(pid)
            is_same_process = abs(writer.create_time() - start_time) < START_TIME_TOLERANCE_S
            return is_same_process and writer.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Journal:
    """The file that holds the unsaved recipe of one window."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _folder()
        self._path = self._folder / f"{uuid4().hex}{SUFFIX}"

    def keep(self, session: Session) -> None:
        """Write the recipe of a session to the file; delete the file if the recipe is saved."""
        if not session.unsaved:
            self.forget()
            return
        try:
            unsaved = Unsaved.of(session)
        except (ValueError, PruneGuiError) as error:
            log.warning("The unsaved recipe cannot be stored: %s", error)
        else:
            _file(self._path).save(unsaved)

    def forget(self) -> None:
        """Delete the file."""
        remove(self._path)


def left_behind(folder: Path | None = None) -> Iterator[tuple[Path, Unsaved]]:
    """Yield (path, content) of the files of crashed programs, latest first."""
    recoverable = [
        (path, unsaved)
        for path in files_of(folder or _folder(), SUFFIX)
        if (unsaved := _file(path).load()) is not None and not unsaved.writer_lives
    ]
    yield from sorted(recoverable, key=lambda pair: -pair[1].written)


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
