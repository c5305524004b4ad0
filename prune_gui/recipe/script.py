"""A resolution as a Python script with calls of torch, and a recipe as a command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Final

from prune_gui.architecture.weight_layouts import weight_layouts
from prune_gui.checkpoint.formats import format_named
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.write.writing import check_nothing_special
from prune_gui.errors import RecipeError, one_line
from prune_gui.recipe.amounts import grouped_by_amount
from prune_gui.recipe.correction.corrected_values import check_uncorrected
from prune_gui.recipe.exporting import metadata_for
from prune_gui.recipe.extra_files import reading_without_code, shipped_script
from prune_gui.recipe.output import DEFAULTS
from prune_gui.recipe.recipe import IN_FILE, Recipe, Step
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.selector import Pattern, select

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint


LINE_LENGTH: Final = 96

IMPORT_TORCH: Final = "\nimport torch\n"
IMPORTS: Final = """
import torch
from safetensors.torch import load_file, save_file
"""

HERE_DOCUMENT_END = "END_OF_RECIPE"


def python_script(resolution: Resolution, out: Path) -> str:
    """Return a script that prunes the same elements of the same file, and writes them to `out`.

    A step that torch.nn.utils.prune can express is a call of it. Any other step calls this
    package, and a comment states that. For a safetensors input, the script writes the same bytes
    as `export`.
    """
    check_uncorrected(resolution.corrections)
    check_nothing_special(out, (), resolution.checkpoint, SAFETENSORS.special_refusal)
    if resolution.checkpoint.url is not None:
        raise RecipeError(
            "{url} is remote, and the program would need a local file. Download it, and open "
            "that file.",
            url=resolution.checkpoint.url,
        )
    steps = list(_steps(resolution))
    checkpoint = resolution.checkpoint
    _, future, own = shipped_script("prelude.py").partition("from __future__ import annotations\n")
    name = ascii(checkpoint.path.name).replace('"', r"\"")  # a quote would end the docstring
    load_import = format_named(checkpoint.format).load_import
    imports = IMPORTS if load_import in IMPORTS else f"{IMPORTS}{load_import}\n"
    title = f'"""Prune {name} as Prune GUI does."""'
    parts = [f"{title}\n\n{future}{own.replace(IMPORT_TORCH, imports)}"]
    if any("as_prune_gui_does" in line for line in steps):
        parts.append(f"\n\n{shipped_script('as_prune_gui_does.py.template')}")
    parts.append(f"\nCHECKPOINT = {str(checkpoint.path.absolute())!r}")
    if len(parts) > 2:
        parts.append(f"RECIPE = {resolution.recipe.anchored().to_yaml()!r}")
    parts += [*_loading(resolution), *steps, f"\n{shipped_script('set_state.py.template')}"]
    parts += [
        f"state[{alias!r}] = state[{name!r}]"
        for name in resolution.layers
        for alias in checkpoint.tensors[name].aliases
    ]
    parts += _saving(resolution, out)
    return "\n".join(parts)


def _loading(resolution: Resolution) -> Iterator[str]:
    """Yield the lines that read the file, and prune what is pruned in it."""
    checkpoint = resolution.checkpoint
    load = format_named(checkpoint.format).load_code
    if not checkpoint.loads_without_code:
        yield from reading_without_code(checkpoint, "CHECKPOINT")
    elif checkpoint.files == (checkpoint.path,):
        yield f"state = dict({checkpoint.state_code(load.format(path='CHECKPOINT'))})"
    else:
        yield f"files = {_text([str(path.absolute()) for path in checkpoint.files])}"
        items = f"{load.format(path='file')}.items()"
        yield f"state = {{name: t for file in files for name, t in {items}}}"
    pairs = [info.name for info in checkpoint.tensors.values() if info.pair]
    if pairs:
        yield f"pairs = {_text(pairs)}"
        yield 'masks = {name: state.pop(f"{name}_mask") for name in pairs}'
        yield 'state |= {name: state.pop(f"{name}_orig") for name in pairs}'
    yield "state = {name: t for name, t in state.items() if isinstance(t, torch.Tensor)}"
    yield "parameters |= {name: held(t) for name, t in state.items() if t.is_floating_point()}"
    if pairs:
        yield "for name in pairs:"
        yield "    prune.custom_from_mask(*parameters[name], mask=masks[name])"
    zeros = [
        name
        for name, applied in resolution.layers.items()
        if applied[:1] and applied[0].step == IN_FILE and name not in pairs
    ]
    if zeros:
        yield f"for name in {_text(zeros)}:"
        yield "    prune.custom_from_mask(*parameters[name], mask=state[name] != 0)"


def _steps(resolution: Resolution) -> Iterator[str]:
    outcomes = resolution.outcomes
    for number, (step, outcome) in enumerate(zip(resolution.recipe.steps, outcomes, strict=True)):
        if not step.enabled:
            continue
        names = _names(step, list(outcome.pruned), resolution.checkpoint)
        yield f"\n# Step {number + 1}: {one_line(step.method.title)}"
        by_kind = isinstance(getattr(step.method, "dim", None), str)
        is_usual = weight_layouts(resolution.checkpoint).keys().isdisjoint(outcome.pruned)
        scaled = any(resolution.checkpoint.tensors[name].scale for name in outcome.pruned)
        as_torch = not scaled and (is_usual or not by_kind)
        lines = step.method.torch_lines(names) if as_torch and not outcome.amounts else []
        if as_torch and outcome.amounts:
            for own, members in grouped_by_amount(step.method, outcome.pruned, outcome.amounts):
                lines += own.torch_lines(_text(members))
        if not lines:
            yield "# Not available in torch.nn.utils.prune; Prune GUI computed the masks."
            yield f"as_prune_gui_does({number + 1}, {names})"
        yield from lines


def _names(step: Step, targets: Sequence[str], checkpoint: Checkpoint) -> str:
    """Return an expression for the names of the targets: its globs if they match exactly those."""
    floating = [
        info._replace(aliases=())
        for info in checkpoint.tensors.values()
        if "float" in info.dtype and info.special is None
    ]
    tied = any(info.aliases for info in checkpoint.tensors.values())
    if tied or any(Pattern.parse(text).conditions for text in step.targets):
        return _text(targets)
    found = select(step.targets, floating, every_kind=True)  # `matching` knows no kinds
    if [info.name for info in found] == targets:
        return f"matching({', '.join(map(repr, step.targets))})"
    return _text(targets)


def _saving(resolution: Resolution, out: Path) -> Iterator[str]:
    checkpoint = resolution.checkpoint
    pairs = any(info.pair for info in checkpoint.tensors.values())
    is_one_file = checkpoint.files == (checkpoint.path,)
    if checkpoint.format == SAFETENSORS.name and is_one_file and not pairs:
        yield f"metadata = {_text(metadata_for(resolution, DEFAULTS, ''))}"
        yield f"save_like(CHECKPOINT, state, metadata, {str(out)!r})\n"
    else:
        yield f"save_file({{name: t.clone() for name, t in state.items()}}, {str(out)!r})\n"


def _text(value: object) -> str:
    return pformat(value, width=LINE_LENGTH, compact=True, sort_dicts=False)


def command_line(
    recipe: Recipe, checkpoint: Checkpoint, out: Path, recipe_path: Path | None
) -> str:
    """Return a shell command that writes what `export` does; without a path, it has the recipe."""
    words = ["prune-gui", "apply"]
    for source in dict.fromkeys(step.method.source for step in recipe.steps):
        if source.endswith(".py"):
            words += ["--methods", source]
    if checkpoint.candidates:
        words += ["--state", checkpoint.state_dict]
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
