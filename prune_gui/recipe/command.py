"""A recipe as a command line for a POSIX shell."""

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

HERE_DOCUMENT_END = "END_OF_RECIPE"


def command_line(
    recipe: Recipe, checkpoint: Checkpoint, out: Path, recipe_path: Path | None
) -> str:
    """Return a shell command that writes what `export` writes for the recipe.

    Args:
        recipe: the recipe to apply.
        checkpoint: the checkpoint to prune.
        out: the file to write, in the finalized form.
        recipe_path: a file that contains exactly this recipe; None: the command contains the
            recipe as a here document.
    """
    words = ["prune-gui", "apply", *_options(recipe, checkpoint)]
    words += [str(recipe_path.absolute()) if recipe_path else "-"]
    words += [checkpoint.url or str(checkpoint.path.absolute()), "-o", str(out.absolute())]
    line = " ".join(map(_quoted, words))
    if recipe_path is not None:
        return f"{line}\n"
    return f"{line} <<'{HERE_DOCUMENT_END}'\n{recipe.anchored().to_yaml()}{HERE_DOCUMENT_END}\n"


def _quoted(word: str) -> str:
    """Return a word quoted for a POSIX shell, with control characters as octal escapes.

    A terminal acts on control characters in pasted text: Ctrl-C in a file name would end the line
    there, and the shell would run the rest as a command.
    """
    if one_line(word, len(word)) == word:
        return shlex.quote(word)
    octets = (
        chr(o) if chr(o).isascii() and chr(o).isalnum() else f"\\{o:03o}" for o in os.fsencode(word)
    )
    return f"\"$(printf '{''.join(octets)}')\""


def _options(recipe: Recipe, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the options for plug-in files and for the choice of a state dict."""
    sources = dict.fromkeys(step.method.source for step in recipe.steps)
    for source in sources:
        if source.endswith(".py"):
            yield from ("--methods", source)
    if checkpoint.candidates:
        yield from ("--state", checkpoint.state_dict)
