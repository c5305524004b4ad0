"""What a file that this program wrote says about how it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prune_gui.errors import RecipeError
from prune_gui.recipe.recipe import Recipe

PREFIX: Final = "prune_gui."


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a file was made.

    Attributes:
        version: of the program.
        form: "finalized", "reparametrized" or "masks".
        recipe: that was carried out; None if this program does not understand it.
        input: the fingerprint of the checkpoint that was pruned.
        pruned: how many entries of each parameter were pruned, for those a step was for.
    """

    version: str
    form: str
    recipe: Recipe | None
    input: str
    pruned: Mapping[str, int]

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Provenance | None:
        """Read the metadata of a file; None if it does not say. What is malformed is left out."""
        own = {key.removeprefix(PREFIX): text for key, text in metadata.items()}
        if PREFIX + "version" not in metadata:
            return None
        try:
            recipe = Recipe.from_yaml(own.get("recipe", ""))
        except RecipeError:
            recipe = None
        return cls(own["version"], own.get("form", ""), recipe, own.get("input", ""), _counts(own))


def metadata_of(recipe: Recipe, form: str, input: str, pruned: Mapping[str, int]) -> dict[str, str]:  # noqa: A002 - as the field is called
    """Return what a file carries, for `Provenance.of` to read."""
    return {
        PREFIX + "version": own_version(),
        PREFIX + "form": form,
        PREFIX + "recipe": recipe.to_yaml(),
        PREFIX + "input": input,
        PREFIX + "pruned": json.dumps(dict(pruned)),
    }


@cache
def own_version() -> str:
    """Return the version of this program; it is read once, so that no later save depends on it."""
    try:
        return version("prune-gui")
    except PackageNotFoundError:  # run from a folder, or its installation cannot be read
        return "unknown"


def _counts(own: Mapping[str, str]) -> dict[str, int]:
    try:
        counts = json.loads(own.get("pruned", "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if type(count) is int and count > 0}
