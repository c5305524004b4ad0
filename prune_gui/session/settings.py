"""What the program remembers between runs: appearance, window layout, recent files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar
from zlib import crc32

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from prune_gui.session.state_file import MAX_PATH_LENGTH, StateFile

RECENT = 10
MOST_THREADS: Final = 256
MOST_MEGABYTES: Final = 1 << 16
MAX_SETTINGS_BYTES: Final = 1 << 20

Loaded = TypeVar("Loaded", bound="Settings")
RecentPath = Annotated[str, Field(max_length=MAX_PATH_LENGTH, pattern=r"^[^\x00]+$")]


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

    model_config = ConfigDict(frozen=True, extra="ignore")

    theme: Literal["system", "light", "dark"] = "system"
    language: Literal["system", "en", "zh_CN"] = "system"
    recent: Annotated[tuple[RecentPath, ...], Field(max_length=100)] = ()
    window: tuple[str, str] | None = None
    white_pictures: bool = False
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    picture_memory: Annotated[int, Field(ge=0, le=MOST_MEGABYTES)] = 128
    form: Literal["finalized", "reparametrized", "masks"] = "finalized"
    keep_unsaved: bool = True

    @field_validator("window", mode="before")
    @classmethod
    def _check_window(cls, value: object) -> object:
        """Drop a layout of which any bit is not as it was written: Qt crashes on some of them."""
        match value:
            case [str(geometry), str(docks), int(checksum)]:
                if checksum != _checksum(geometry, docks):
                    raise ValueError("its checksum differs")
                return geometry, docks
            case list():
                return None  # of a version that wrote none
        return value

    @field_serializer("window")
    def _write_window(self, window: tuple[str, str] | None) -> list[str | int] | None:
        return window and [*window, _checksum(*window)]

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the settings. Unreadable ones never block the start: they are as at first."""
        return _file(cls, path).load() or cls()

    @classmethod
    def update(cls, change: Callable[[Self], Self], path: Path | None = None) -> Self | None:
        """Change the settings on disk; what another window wrote there stays.

        Returns:
            The settings as they are now; None if they could not be written, which the log says.
        """
        return _file(cls, path).update(lambda now: change(now or cls()))

    def save(self, path: Path | None = None) -> None:
        """Write the settings in place of those on disk, whole or not at all."""
        self.update(lambda _: self, path)

    def with_recent(self, path: Path) -> Self:
        """Return settings with `path` first among the recent files, if its name is text."""
        try:
            name = str(path.absolute())
            name.encode()
        except (FileNotFoundError, UnicodeEncodeError):  # the former of the working folder
            return self
        others = [other for other in self.recent if other != name]
        return self.model_copy(update={"recent": (name, *others)[:RECENT]})


def _file(model: type[Loaded], path: Path | None) -> StateFile[Loaded]:
    path = path or user_config_path("prune-gui", appauthor=False) / "settings.json"
    return StateFile(path, model, MAX_SETTINGS_BYTES)


def _checksum(*texts: str) -> int:
    return crc32("\n".join(texts).encode())
