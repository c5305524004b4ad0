"""Presets: named lists of steps, stored as recipe files, that can be added to any recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from platformdirs import user_data_path

from prune_gui.checkpoint.write.documents import write_documents
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.language import deferred, tr
from prune_gui.recipe import Recipe, Step
from prune_gui.regular_files import read_regular
from prune_gui.resources import resource
from prune_gui.session.state_file import files_of

SUFFIX: Final = ".yaml"
MAX_PRESET_BYTES: Final = 1 << 22
MAX_NAME_CHARS: Final = 80
"""Maximum length of a name, in characters."""
UNSAFE_CHARACTERS: Final = re.compile(r'^\.|[%/\\:*?"<>|\x00-\x1f]')
"""Characters that some system does not allow in a file name; they are percent-encoded."""
SHIPPED: Final = (
    "global_magnitude",
    "random_half",
    "lamp_80",
    "two_of_four",
    "convolution_channels",
    "three_rounds",
)
"""Names of the shipped recipes, which suit most checkpoints."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named list of steps."""

    name: str
    path: Path
    steps: tuple[Step, ...] = ()
    problem: str = ""


def shipped() -> list[Preset]:
    """Return the presets that come with the program, the simplest first."""
    return [_read(resource("recipes", f"{name}{SUFFIX}")) for name in SHIPPED]


class Presets:
    """The presets of the user. Each iteration reads the files again, since they may change."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or user_data_path("prune-gui", appauthor=False) / "presets"

    def __iter__(self) -> Iterator[Preset]:
        """Yield the presets sorted by name, including those that cannot be used."""
        paths = files_of(self.folder, SUFFIX)
        yield from sorted(map(_read, paths), key=lambda preset: preset.name.casefold())

    def __contains__(self, name: str) -> bool:
        return self._path(name).exists()

    def save(self, name: str, recipe: Recipe) -> None:
        """Save the steps of a recipe under a name; replace a preset of that name."""
        text = Recipe(steps=recipe.anchored().steps).to_yaml().encode()
        path = self._path(name)
        if len(text) > MAX_PRESET_BYTES:
            raise PruneGuiError("A preset has at most {limit:,} bytes.", limit=MAX_PRESET_BYTES)
        with _saying(deferred("{path} cannot be created: {why}."), self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_documents({path: text})

    def rename(self, preset: Preset, name: str) -> None:
        """Rename a preset; replace a preset of the new name."""
        with _saying(deferred("{path} cannot be renamed: {why}."), preset.path):
            preset.path.replace(self._path(name))

    def remove(self, preset: Preset) -> None:
        with _saying(deferred("{path} cannot be removed: {why}."), preset.path):
            preset.path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        name = name.strip()
        if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise PruneGuiError(
                "A preset needs a name of at most {most} characters.", most=MAX_NAME_CHARS
            )
        encoded = UNSAFE_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", name)
        return self.folder / f"{encoded}{SUFFIX}"


@contextmanager
def _saying(message: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PruneGuiError(message, path=path, why=error.strerror) from error


def _read(path: Path) -> Preset:
    name = unquote(path.stem)
    try:
        text = read_regular(path, MAX_PRESET_BYTES).decode()
        recipe = Recipe.from_yaml(text, source=path.name, folder=path.parent)
        return Preset(name, path, recipe.anchored().steps)
    except RecipeError as error:
        return Preset(name, path, problem=str(error))
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError:
        reason = tr("it is not UTF-8 text")
    problem = tr("{path} cannot be read: {why}.", path=path.name, why=reason)
    return Preset(name, path, problem=problem)
