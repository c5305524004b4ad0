"""A stack as a line for a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.errors import one_line
from prune_gui.recipe.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint

END = "END_OF_RECIPE"


def command_line(
    recipe: Recipe, checkpoint: Checkpoint, out: Path, recipe_path: Path | None
) -> str:
    """Return what does on a command line what `export` does with the recipe.

    Args:
        recipe: to carry out.
        checkpoint: on which.
        out: what to write, finalized.
        recipe_path: a file that holds just this recipe; None: the line holds it itself, as a here
            document for a POSIX shell.
    """
    words = ["prune-gui", "apply", *_options(recipe, checkpoint)]
    words += [str(recipe_path.absolute()) if recipe_path else "-"]
    words += [str(checkpoint.path.absolute()), "-o", str(out.absolute())]
    line = " ".join(map(_quoted, words))
    if recipe_path is not None:
        return f"{line}\n"
    return f"{line} <<'{END}'\n{recipe.anchored().to_yaml()}{END}\n"


def _quoted(word: str) -> str:
    """Return a word as a POSIX shell reads it, without what a terminal obeys when it is pasted.

    Ctrl-C in the name of a file would end the line there, and what follows would be run.
    """
    if one_line(word, len(word)) == word:
        return shlex.quote(word)
    octets = (
        chr(o) if chr(o).isascii() and chr(o).isalnum() else f"\\{o:03o}" for o in os.fsencode(word)
    )
    return f"\"$(printf '{''.join(octets)}')\""


def _options(recipe: Recipe, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what else the program has to be told."""
    sources = dict.fromkeys(step.method.source for step in recipe.steps)
    for source in sources:
        if source.endswith(".py"):
            yield from ("--methods", source)
    if checkpoint.candidates:
        yield from ("--state", checkpoint.state_dict)
