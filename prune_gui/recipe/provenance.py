"""What a file that this program wrote says about how it was made."""

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


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a file was made.

    Attributes:
        version: of the program.
        form: "finalized", "reparametrized" or "masks".
        recipe: that was carried out; None if this program does not understand it.
        problem: why it does not, in one line; "" if it does, or there is no recipe.
        input: the fingerprint of the checkpoint that was pruned.
        pruned: how many entries of each parameter were pruned, for those a step was for.
    """

    version: str
    form: str
    recipe: Recipe | None
    problem: str
    input: str
    pruned: Mapping[str, int]

    @classmethod
    def of(cls, metadata: Mapping[str, str], folder: Path | None = None) -> Provenance | None:
        """Read the metadata of a file; None if it does not say. What is malformed is left out.

        Args:
            metadata: of the file.
            folder: in which the file is; relative paths in its recipe are looked for there.
        """
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
        return cls(own["version"], form, recipe, problem, made_of, _counts(own))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know about what the file says, one sentence each."""
        if not self.problem:
            return ()
        return (tr("The recipe in the metadata is ignored. {problem}", problem=self.problem),)


def pruned_before(metadata: Mapping[str, str]) -> Mapping[str, int]:
    """Return how many zeros of each parameter are there because this program pruned them."""
    if PREFIX + "version" not in metadata or metadata.get(PREFIX + "form") != "finalized":
        return {}
    return _counts({"pruned": metadata.get(PREFIX + "pruned", "{}")})


def metadata_of(recipe: Recipe, form: str, input: str, pruned: Mapping[str, int]) -> dict[str, str]:  # noqa: A002 - as the field is called
    """Return what a file carries, for `Provenance.of` to read.

    Files that the recipe names are named as the user did, so that absolute paths of this machine
    do not get out.
    """
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
