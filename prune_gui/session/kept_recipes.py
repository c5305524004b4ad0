"""What is kept on disk: the unsaved recipe, and named states and reference of a checkpoint."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Self
from uuid import uuid4

from platformdirs import user_data_path, user_state_path
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.language import tr
from prune_gui.recipe import Recipe
from prune_gui.session.history import DraftState
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
        draft: the draft, if it is unfinished.
        process: the writing process: its id, and its start time in seconds since 1970.
    """

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", ser_json_inf_nan="constants"
    )

    checkpoint: StatePath
    state: str = ""
    recipe: str
    draft: DraftState | None = None
    recipe_path: StatePath | None = None
    written: Time
    process: tuple[PositiveInt, Time]

    @classmethod
    def of(cls, session: Session) -> Self:
        import psutil  # not needed to show the window

        checkpoint, recipe, draft = session.checkpoint, session.recipe, session.draft
        return cls(
            checkpoint=_absolute(checkpoint.path),
            state=checkpoint.state_dict,
            recipe=recipe.anchored().to_yaml(),
            draft=draft.anchored() if draft is not None and session.has_unfinished_draft else None,
            recipe_path=session.recipe_path,
            written=time.time(),
            process=(os.getpid(), psutil.Process().create_time()),
        )

    def parsed(self) -> Recipe:
        return Recipe.from_yaml(self.recipe, source=tr("The unsaved recipe"))

    @property
    def is_draft_alone(self) -> bool:
        """Whether there is a draft, and a recipe without steps."""
        try:
            return self.draft is not None and not self.parsed().steps
        except RecipeError:
            return False

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
        """Write the recipe and the draft of a session; delete the file if nothing is unsaved."""
        if not session.unsaved and not session.has_unfinished_draft:
            self.forget()
            return
        try:
            _unsaved_file(self._path).save(Unsaved.of(session))
        except (ValueError, PruneGuiError) as error:
            log.warning("The unsaved recipe cannot be stored: %s", error)

    def forget(self) -> None:
        remove(self._path)


def left_behind(folder: Path | None = None) -> Iterator[tuple[Path, Unsaved]]:
    """Yield (path, content) of the files of crashed programs, latest first."""
    found = [(path, _unsaved_file(path).load()) for path in files_of(folder or _folder(), SUFFIX)]
    left = [(path, unsaved) for path, unsaved in found if unsaved and not unsaved.writer_lives]
    yield from sorted(left, key=lambda pair: -pair[1].written)


def _unsaved_file(path: Path) -> StateFile[Unsaved]:
    return StateFile(path, Unsaved, MAX_UNSAVED_BYTES)


def _folder() -> Path:
    return user_state_path("prune-gui", appauthor=False) / "unsaved"


def _absolute(path: Path) -> Path:
    """Return the absolute path; the path itself if the working folder was deleted."""
    try:
        return path.absolute()
    except FileNotFoundError:
        return path


MAX_STATES_BYTES: Final = 1 << 24


class _StatesFile(BaseModel):
    """What is kept of a checkpoint."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    checkpoint: StatePath = Path()  # for a person who reads the file
    states: dict[str, str] = {}
    reference: StatePath | None = None


def load_kept(
    checkpoint: Checkpoint, folder: Path | None = None
) -> tuple[dict[str, Recipe], Path | None]:
    """Return the named states of a checkpoint, and its reference if that still exists.

    Unreadable states are skipped and stay on disk.
    """
    try:
        kept = _states_file(checkpoint, folder).load() or _StatesFile()
    except FileNotFoundError as error:
        log.warning("The named states of %s cannot be found: %s", checkpoint.path, error)
        return {}, None
    recipes = {}
    for name, text in kept.states.items():
        try:
            recipes[name] = Recipe.from_yaml(text, source=name, folder=checkpoint.path.parent)
        except RecipeError as error:  # a plug-in may be missing
            log.warning("A named state of %s cannot be read: %s", checkpoint.path, error)
    reference = kept.reference
    return recipes, reference if reference and os.access(reference, os.R_OK) else None


def keep_states(session: Session, folder: Path | None = None) -> None:
    """Write the named states that were added, changed or removed since the last call.

    States that another window adds for the same checkpoint are kept. After a failure, the next call
    tries again.
    """
    now, before = session.named_states, session.kept_states
    if now == before:
        return
    new = {name: recipe for name, recipe in now.items() if before.get(name) != recipe}
    try:
        path = session.checkpoint.path.absolute()
        file = _states_file(session.checkpoint, folder)
        changed = {name: recipe.anchored().to_yaml() for name, recipe in new.items()}
    except (OSError, ValueError, PruneGuiError) as error:
        log.warning("The named states of %s cannot be stored: %s", session.checkpoint.path, error)
        return

    def change(kept: _StatesFile | None) -> _StatesFile:
        kept = kept or _StatesFile()
        removed = before.keys() - now.keys()
        unchanged = {name: text for name, text in kept.states.items() if name not in removed}
        return kept.model_copy(update={"checkpoint": path, "states": unchanged | changed})

    if file.update(change) is not None:
        session.kept_states = dict(now)


def keep_reference(session: Session, folder: Path | None = None) -> None:
    """Write the reference of a checkpoint."""
    with suppress(OSError):  # the working folder was deleted
        path = session.checkpoint.path.absolute()
        update = {"checkpoint": path, "reference": session.reference_path}
        file = _states_file(session.checkpoint, folder)
        file.update(lambda kept: (kept or _StatesFile()).model_copy(update=update))


def _states_file(checkpoint: Checkpoint, folder: Path | None) -> StateFile[_StatesFile]:
    identity = f"{checkpoint.path.absolute()}\n{checkpoint.state_dict}"
    name = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]
    folder = folder or user_data_path("prune-gui", appauthor=False) / "states"
    return StateFile(folder / f"{name}.json", _StatesFile, MAX_STATES_BYTES)
