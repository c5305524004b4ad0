"""Stacks of steps that are kept under a name, as recipe files, to be added to any stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from platformdirs import user_data_path

from prune_gui.checkpoint.write.atomic import flush, replacing
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.language import tr
from prune_gui.recipe import Recipe, Step
from prune_gui.regular_files import read_regular
from prune_gui.resources import resource
from prune_gui.session.state_file import files_of

SUFFIX: Final = ".yaml"
MAX_PRESET_BYTES: Final = 1 << 22
LONGEST: Final = 80
"""Characters of a name."""
AWKWARD: Final = re.compile(r'^\.|[%/\\:*?"<>|\x00-\x1f]')
"""What some system does not take in the name of a file; written as in a web address there."""
SHIPPED: Final = (
    "global_magnitude",
    "random_half",
    "lamp_80",
    "two_of_four",
    "convolution_channels",
    "three_rounds",
)
"""The names of the recipes that make sense on most checkpoints."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Steps under a name.

    Attributes:
        name: for a person.
        path: of the recipe file.
        steps: with absolute paths in place of files named beside it.
        problem: why it cannot be used, in one line; "" if it can.
    """

    name: str
    path: Path
    steps: tuple[Step, ...] = ()
    problem: str = ""


def shipped() -> list[Preset]:
    """Return the presets that come with the program, the simplest first."""
    return [_read(resource("recipes", f"{name}{SUFFIX}")) for name in SHIPPED]


class Presets:
    """The presets of the user. They are read anew each time: files may come and go.

    Args:
        folder: where they are; among the data of the user unless it is given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or user_data_path("prune-gui", appauthor=False) / "presets"

    def __iter__(self) -> Iterator[Preset]:
        """Yield them by name, those that cannot be used as well."""
        paths = files_of(self.folder, SUFFIX)
        yield from sorted(map(_read, paths), key=lambda preset: preset.name.casefold())

    def __contains__(self, name: str) -> bool:
        return self._path(name).exists()

    def save(self, name: str, recipe: Recipe) -> None:
        """Keep the steps of a recipe under a name; what has it already is replaced.

        Raises:
            PruneGuiError: it cannot be written, or the name is none.
        """
        steps = recipe.anchored().steps
        text = Recipe(steps=steps).to_yaml().encode()
        path = self._path(name)
        if len(text) > MAX_PRESET_BYTES:
            raise PruneGuiError(tr("A preset has at most {limit:,} bytes.", limit=MAX_PRESET_BYTES))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PruneGuiError(
                tr("{path} cannot be made: {why}.", path=self.folder, why=error.strerror)
            ) from error
        with (
            replacing(path, nbytes=len(text), overwrite=True) as draft,
            draft.open("wb") as file,
        ):
            file.write(text)
            flush(file)

    def rename(self, preset: Preset, name: str) -> None:
        """Give a preset another name; what has that already is replaced.

        Raises:
            PruneGuiError: the file cannot be renamed, or the name is none.
        """
        try:
            preset.path.replace(self._path(name))
        except OSError as error:
            raise PruneGuiError(
                tr("{path} cannot be renamed: {why}.", path=preset.path, why=error.strerror)
            ) from error

    def remove(self, preset: Preset) -> None:
        """Delete the file of a preset.

        Raises:
            PruneGuiError: it cannot be deleted.
        """
        try:
            preset.path.unlink(missing_ok=True)
        except OSError as error:
            raise PruneGuiError(
                tr("{path} cannot be removed: {why}.", path=preset.path, why=error.strerror)
            ) from error

    def _path(self, name: str) -> Path:
        name = name.strip()
        if not name or len(name) > LONGEST or not name.isprintable():
            raise PruneGuiError(
                tr("A preset needs a name of at most {most} characters.", most=LONGEST)
            )
        return self.folder / (AWKWARD.sub(_quoted, name) + SUFFIX)


def _quoted(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


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
    return Preset(
        name, path, problem=tr("{path} cannot be read: {why}.", path=path.name, why=reason)
    )
