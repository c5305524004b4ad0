"""The named states of every checkpoint, kept on disk: what a user gave a name to is there again."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from platformdirs import user_data_path
from pydantic import BaseModel, ValidationError

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.atomic import replacing
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.recipe import Recipe
from prune_gui.session.session import Session

log = logging.getLogger(__name__)


class _Kept(BaseModel):
    """What a file holds.

    Attributes:
        checkpoint: whose states they are, for a person who reads the file.
        states: by name, as YAML.
    """

    checkpoint: str
    states: dict[str, str] = {}


def load(checkpoint: Checkpoint, folder: Path | None = None) -> dict[str, Recipe]:
    """Return the named states of a checkpoint; one that cannot be read now stays where it is."""
    found = {}
    for name, text in _read(checkpoint, _path(checkpoint, folder)).states.items():
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
    path = _path(session.checkpoint, folder)
    kept = _read(session.checkpoint, path)
    for name in before.keys() - now.keys():
        kept.states.pop(name, None)
    try:
        kept.states.update(
            (name, recipe.anchored().to_yaml())
            for name, recipe in now.items()
            if before.get(name) != recipe
        )
        text = kept.model_dump_json().encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, nbytes=len(text), overwrite=True) as draft:
            draft.write_bytes(text)
    except (OSError, UnicodeEncodeError, PruneGuiError) as error:
        log.warning("The named states cannot be kept in %s: %s", path, error)
    else:
        session.kept_states = dict(now)


def _read(checkpoint: Checkpoint, path: Path) -> _Kept:
    try:
        return _Kept.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        log.warning("%s cannot be read: %s", path, error)
    name = str(checkpoint.path.absolute()).encode(errors="backslashreplace")
    return _Kept(checkpoint=name.decode())


def _path(checkpoint: Checkpoint, folder: Path | None) -> Path:
    whose = f"{checkpoint.path.absolute()}\n{checkpoint.state_dict}"
    file = hashlib.sha256(whose.encode(errors="surrogatepass")).hexdigest()[:32]
    return (folder or user_data_path("prune-gui", appauthor=False) / "states") / f"{file}.json"
