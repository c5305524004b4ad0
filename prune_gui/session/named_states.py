"""Named states on disk: recipes that the user named, per checkpoint."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Final

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.recipe import Recipe
from prune_gui.session.session import Session
from prune_gui.session.state_file import StateFile, StatePath

MAX_STATES_BYTES: Final = 1 << 24

log = logging.getLogger(__name__)


class _StatesFile(BaseModel):
    """The content of a file of named states.

    Attributes:
        checkpoint: path of the checkpoint, for a person who reads the file.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checkpoint: StatePath = Path()
    states: dict[str, str] = {}


def load(checkpoint: Checkpoint, folder: Path | None = None) -> dict[str, Recipe]:
    """Return the named states of a checkpoint. Unreadable ones are skipped and stay on disk."""
    recipes = {}
    for name, text in _read(checkpoint, folder).items():
        try:
            recipes[name] = Recipe.from_yaml(text, source=name, folder=checkpoint.path.parent)
        except RecipeError as error:  # a plug-in may be missing
            log.warning("A named state of %s cannot be read: %s", checkpoint.path, error)
    return recipes


def keep(session: Session, folder: Path | None = None) -> None:
    """Write the named states that were added, changed or removed since the last call.

    States that another window adds for the same checkpoint are kept. After a failure, the next call
    tries again.
    """
    now, before = session.named_states, session.kept_states
    if now == before:
        return
    try:
        path = session.checkpoint.path.absolute()
        file = _file(session.checkpoint, folder)
        changed = {
            name: recipe.anchored().to_yaml()
            for name, recipe in now.items()
            if before.get(name) != recipe
        }
    except (OSError, ValueError, PruneGuiError) as error:
        log.warning("The named states of %s cannot be stored: %s", session.checkpoint.path, error)
        return

    def change(kept: _StatesFile | None) -> _StatesFile:
        on_disk = kept.states if kept else {}
        unchanged = {
            name: text for name, text in on_disk.items() if name in now or name not in before
        }
        return _StatesFile(checkpoint=path, states=unchanged | changed)

    if file.update(change) is not None:
        session.kept_states = dict(now)


def _read(checkpoint: Checkpoint, folder: Path | None) -> dict[str, str]:
    try:
        kept = _file(checkpoint, folder).load()
    except FileNotFoundError as error:
        log.warning("The named states of %s cannot be found: %s", checkpoint.path, error)
        return {}
    return kept.states if kept else {}


def _file(checkpoint: Checkpoint, folder: Path | None) -> StateFile[_StatesFile]:
    """Return the state file of the named states of a checkpoint."""
    identity = f"{checkpoint.path.absolute()}\n{checkpoint.state_dict}"
    name = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]
    folder = folder or user_data_path("prune-gui", appauthor=False) / "states"
    return StateFile(folder / f"{name}.json", _StatesFile, MAX_STATES_BYTES)
