"""The named states of every checkpoint, kept on disk: what a user gave a name to is there again."""

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


class _Kept(BaseModel):
    """What a file holds.

    Attributes:
        checkpoint: whose states they are, for a person who reads the file.
        states: by name, as YAML.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checkpoint: StatePath = Path()
    states: dict[str, str] = {}


def load(checkpoint: Checkpoint, folder: Path | None = None) -> dict[str, Recipe]:
    """Return the named states of a checkpoint; one that cannot be read now stays where it is."""
    found = {}
    for name, text in _read(checkpoint, folder).items():
        try:
            found[name] = Recipe.from_yaml(text, source=name, folder=checkpoint.path.parent)
        except RecipeError as error:  # a plug-in may be missing
            log.warning("A named state of %s cannot be read: %s", checkpoint.path, error)
    return found


def keep(session: Session, folder: Path | None = None) -> None:
    """Write down what named states were added or taken away since they last were.

    Another window may add some to those of the same checkpoint. What cannot be written down now is
    tried again the next time.
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
        log.warning("The named states of %s cannot be kept: %s", session.checkpoint.path, error)
        return

    def change(kept: _Kept | None) -> _Kept:
        others = kept.states if kept else {}
        stay = {name: text for name, text in others.items() if name in now or name not in before}
        return _Kept(checkpoint=path, states=stay | changed)

    if file.update(change) is not None:
        session.kept_states = dict(now)


def _read(checkpoint: Checkpoint, folder: Path | None) -> dict[str, str]:
    try:
        kept = _file(checkpoint, folder).load()
    except FileNotFoundError as error:
        log.warning("The named states of %s cannot be found: %s", checkpoint.path, error)
        return {}
    return kept.states if kept else {}


def _file(checkpoint: Checkpoint, folder: Path | None) -> StateFile[_Kept]:
    """Return the file with the named states of a checkpoint.

    Raises:
        FileNotFoundError: the path of the checkpoint is relative to a folder that was deleted.
    """
    whose = f"{checkpoint.path.absolute()}\n{checkpoint.state_dict}"
    name = hashlib.sha256(whose.encode(errors="surrogatepass")).hexdigest()[:32]
    folder = folder or user_data_path("prune-gui", appauthor=False) / "states"
    return StateFile(folder / f"{name}.json", _Kept, MAX_STATES_BYTES)
