"""Settings kept between runs: appearance, window layout, recent files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar
from zlib import crc32

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from prune_gui.evaluation.spec import EvaluatorChoice
from prune_gui.location import Location
from prune_gui.session.state_file import MAX_PATH_LENGTH, StateFile

MAX_RECENT = 10
MAX_THREADS: Final = 256
MAX_PICTURE_MEMORY_MB: Final = 1 << 16
MAX_FETCH_LIMIT_MB: Final = 10_000_000
MAX_ADDRESS_LENGTH: Final = 300
MAX_SETTINGS_BYTES: Final = 1 << 20

Loaded = TypeVar("Loaded", bound="Settings")
RecentPath = Annotated[str, Field(max_length=MAX_PATH_LENGTH, pattern=r"^[^\x00]+$")]


class FigureSettings(BaseModel):
    """How figures are exported; immutable. A height of 0 follows from the content."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    layout: Literal["picture", "blocks", "layers", "curves", "mask", "page"] = "picture"
    width: Annotated[float, Field(ge=1, le=20_000)] = 85.0
    height: Annotated[float, Field(ge=0, le=20_000)] = 0.0
    unit: Literal["mm", "px"] = "mm"
    dpi: Annotated[int, Field(ge=50, le=1200)] = 300
    format: Literal["png", "svg", "pdf"] = "pdf"
    dark: bool = False
    text_pt: Annotated[int, Field(ge=6, le=32)] = 8
    title: bool = True
    legend: bool = True

    @property
    def per_inch(self) -> float:
        return 25.4 if self.unit == "mm" else self.dpi


class Settings(BaseModel):
    """Settings of one user; immutable.

    Attributes:
        language: a code of `LANGUAGES`, or "system"; takes effect at the next start.
        window: geometry and dock state of the window, as Qt encodes them, in base64.
        threads: number of worker threads; None for torch's default.
        device: where corrections are computed; see `prune_gui.pruning.devices.find_device`.
        run_on: the cluster on which jobs run, as in `open_cluster`; "" for this machine.
        picture_memory: limit of the cache of picture tiles, in MB (10**6 bytes).
        fetch_limit: what may be fetched of remote checkpoints without asking, in MB (10**6 bytes).
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    theme: Literal["system", "light", "dark"] = "system"
    density: Literal["compact", "standard", "large"] = "standard"
    language: Literal["system", "en", "zh_CN"] = "system"
    recent: Annotated[tuple[RecentPath, ...], Field(max_length=100)] = ()
    window: tuple[str, str] | None = None
    figure: FigureSettings = FigureSettings()
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None = None
    device: Literal["automatic", "cpu", "gpu"] = "automatic"
    run_on: Annotated[str, Field(max_length=MAX_ADDRESS_LENGTH)] = ""
    picture_memory: Annotated[int, Field(ge=0, le=MAX_PICTURE_MEMORY_MB)] = 128
    fetch_limit: Annotated[int, Field(ge=0, le=MAX_FETCH_LIMIT_MB)] = 1000
    form: Literal["finalized", "reparametrized", "masks", "compact"] = "finalized"
    square_cells: bool | None = None
    more_fields: bool = False
    group_by: Literal["module", "space"] = "module"
    list_biases: bool = False
    keep_unsaved: bool = True
    evaluators: Annotated[tuple[EvaluatorChoice, ...], Field(max_length=100)] = ()

    @field_validator("window", mode="before")
    @classmethod
    def _check_window(cls, value: object) -> object:
        """Reject a layout whose checksum differs: Qt crashes on some damaged layouts."""
        match value:
            case [str(geometry), str(docks), int(checksum)]:
                if checksum != _checksum(geometry, docks):
                    raise ValueError("its checksum differs")
                return geometry, docks
            case list():
                return None  # written by a version without checksums
        return value

    @field_serializer("window")
    def _write_window(self, window: tuple[str, str] | None) -> list[str | int] | None:
        return window and [*window, _checksum(*window)]

    def with_evaluator(self, choice: EvaluatorChoice) -> Self:
        """Return settings with an evaluator first, in place of an earlier one of the same text."""
        others = [other for other in self.evaluators if other.text != choice.text]
        return self.model_copy(update={"evaluators": (choice, *others)[:MAX_RECENT]})

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the settings; return the defaults if they cannot be read."""
        return _file(cls, path).load() or cls()

    @classmethod
    def update(cls, change: Callable[[Self], Self], path: Path | None = None) -> Self | None:
        """Change the settings on disk; other settings that another window wrote are kept.

        Returns:
            The new settings; None if they could not be written, which is logged.
        """
        return _file(cls, path).update(lambda now: change(now or cls()))

    def save(self, path: Path | None = None) -> None:
        """Replace the settings on disk atomically."""
        self.update(lambda _: self, path)

    def gone(self) -> frozenset[str]:
        """Return the recent files of this machine that do not exist. Slow on a lost network."""
        places = {path: Location.at(Path(path)) for path in self.recent}
        local = (path for path, place in places.items() if place.url is None)
        return frozenset(path for path in local if not os.path.lexists(path))

    def with_recent(self, path: Path) -> Self:
        """Return settings with `path` first among the recent files, if it is valid Unicode."""
        try:
            name, folder = str(path.absolute()), str(path.absolute().parent)
            name.encode()
        except (FileNotFoundError, UnicodeEncodeError):  # FileNotFoundError: no working folder
            return self
        # A folder that was saved gives way to the file in it that is opened.
        others = [other for other in self.recent if other not in (name, folder)]
        return self.model_copy(update={"recent": (name, *others)[:MAX_RECENT]})


def _file(model: type[Loaded], path: Path | None) -> StateFile[Loaded]:
    path = path or user_config_path("prune-gui", appauthor=False) / "settings.json"
    return StateFile(path, model, MAX_SETTINGS_BYTES)


def _checksum(*texts: str) -> int:
    return crc32("\n".join(texts).encode())
