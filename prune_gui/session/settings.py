"""What the program remembers between runs: appearance, window layout, recent files."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal, Self

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, ValidationError

RECENT = 10

log = logging.getLogger(__name__)


class Settings(BaseModel):
    """Settings of one user. Changing them makes new ones.

    Attributes:
        theme: of the window.
        recent: checkpoints opened lately, latest first.
        window: place and docks of the window, as Qt encodes them, in base64.
        white_pictures: whether pictures to take away have a white background in the dark too.
    """

    model_config = ConfigDict(frozen=True)

    theme: Literal["system", "light", "dark"] = "system"
    recent: tuple[str, ...] = ()
    window: tuple[str, str] | None = None
    white_pictures: bool = False

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the settings. Unreadable ones never block the start: the defaults are used."""
        path = path or _path()
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValidationError) as error:
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
