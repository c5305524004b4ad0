"""The metadata that this program writes into a file: version, form, recipe, input and counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.recipe.recipe import Recipe

PREFIX: Final = "prune_gui."
INPUT_KEY: Final = f"{PREFIX}input"  # metadata: the fingerprint of the checkpoint that was pruned


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a file was made.

    Attributes:
        form: "finalized", "reparametrized", "masks" or "compact".
        problem: why the recipe cannot be parsed, in one line; "" if it can or is missing.
    """

    version: str
    form: str
    recipe: Recipe | None
    problem: str
    input: str
    pruned: Mapping[str, int]

    @classmethod
    def of(cls, metadata: Mapping[str, str], folder: Path | None = None) -> Provenance | None:
        """Read the metadata of a file in a folder; None if this program did not write it."""
        own = {key.removeprefix(PREFIX): text for key, text in metadata.items()}
        if PREFIX + "version" not in metadata:
            return None
        recipe, problem = None, ""
        try:
            if "recipe" in own:
                recipe = Recipe.from_yaml(own["recipe"], folder=folder)
        except RecipeError as error:
            problem = str(error)
        form, made_of = own.get("form", ""), own.get("input", "")
        return cls(own["version"], form, recipe, problem, made_of, _counts(own, "pruned"))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the metadata for the user, one sentence each."""
        if not self.problem:
            return ()
        return (tr("The recipe in the metadata is ignored. {problem}", problem=self.problem),)


def pruned_before(metadata: Mapping[str, str]) -> Mapping[str, int]:
    """Return the number of zeros that this program wrote into each parameter of a file."""
    form = metadata.get(PREFIX + "form")
    if PREFIX + "version" not in metadata or form not in ("finalized", "masks", "compact"):
        return {}
    return _counts(metadata, PREFIX + "pruned")


def metadata_of(
    recipe: Recipe,
    form: str,
    input: str,  # noqa: A002 - as the field is called
    pruned: Mapping[str, int],
    folded: Mapping[str, int],
    recordings: Mapping[str, str],
) -> dict[str, str]:
    """Return the metadata to write into a file; `Provenance.of` reads them.

    Paths stay as the user wrote them, so that the file does not reveal those of this machine.
    """
    metadata = {
        PREFIX + "version": own_version(),
        PREFIX + "form": form,
        PREFIX + "recipe": recipe.to_yaml(),
        INPUT_KEY: input,
        PREFIX + "pruned": json.dumps(dict(pruned)),
    }
    optional = {"folded": folded, "recordings": recordings}
    return metadata | {
        PREFIX + key: json.dumps(dict(values)) for key, values in optional.items() if values
    }


@cache
def own_version() -> str:
    """Return the version of this program, cached so that later saves do not read it again."""
    try:
        return version("prune-gui")
    except PackageNotFoundError:  # it runs from a source folder, or the package is unreadable
        return "unknown"


def _counts(metadata: Mapping[str, str], key: str) -> dict[str, int]:
    try:
        counts = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if type(count) is int and count > 0}
