"""What the program remembers between runs: appearance, window layout, recent files."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

RECENT = 10
MOST_THREADS: Final = 256
MOST_MEGABYTES: Final = 1 << 16

log = logging.getLogger(__name__)


class Settings(BaseModel):
    """Settings of one user. Changing them makes new ones.

    Attributes:
        theme: of the window.
        language: a code of `LANGUAGES`, or "system"; for the next start.
        recent: checkpoints opened lately, latest first.
        window: place and docks of the window, as Qt encodes them, in base64.
        white_pictures: whether pictures to take away have a white background in the dark too.
        threads: on which the engine works; None for as many as torch takes by itself.
        picture_memory: for parts of pictures that are kept, in MB (2**20 bytes).
        form: of a pruned checkpoint, chosen at first in the dialog that saves it.
        keep_unsaved: whether unsaved steps are kept on disk, in case the program ends badly.
    """

    model_config = ConfigDict(frozen=True)

    theme: Literal["system", "light", "dark"] = "system"
    language: Literal["system", "en", "zh_CN"] = "system"
    recent: tuple[str, ...] = ()
    window: tuple[str, str] | None = None
    white_pictures: bool = False
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    picture_memory: Annotated[int, Field(ge=0, le=MOST_MEGABYTES)] = 128
    form: Literal["finalized", "reparametrized", "masks"] = "finalized"
    keep_unsaved: bool = True

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the settings. Unreadable ones never block the start: they are as at first."""
        path = path or _path()
        try:
            text = path.read_bytes()
            return cls.model_validate_json(text)
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
            log.warning("Some settings in %s cannot be read, using the defaults: %s", path, error)
            if not wrong:  # it is no JSON, or no object
                return cls()
            kept = {name: value for name, value in from_json(text).items() if name not in wrong}
            return cls.model_validate(kept)
        except OSError as error:
            log.warning("The settings in %s cannot be read, using the defaults: %s", path, error)
            return cls()

    def save(self, path: Path | None = None) -> None:
        """Write the settings, whole or not at all."""
        path = path or _path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(self.model_dump_json(indent=2), encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            log.warning("The settings cannot be written to %s: %s", path, error)

    def with_recent(self, path: Path) -> Self:
        """Return settings with `path` first among the recent files, if its name is text."""
        name = str(path.absolute())
        try:
            name.encode()
        except UnicodeEncodeError:
            return self
        others = [other for other in self.recent if other != name]
        return self.model_copy(update={"recent": (name, *others)[:RECENT]})


def _path() -> Path:
    return user_config_path("prune-gui", appauthor=False) / "settings.json"
