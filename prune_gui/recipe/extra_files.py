"""The files that are written beside the weights, so that programs load the folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from pprint import pformat
from string import Template
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import CONFIG_NAME
from prune_gui.checkpoint.model_files import ModelFiles, find_model_files
from prune_gui.checkpoint.remote.access import exists
from prune_gui.errors import CheckpointError, valid_text
from prune_gui.language import listed, tr
from prune_gui.location import Location
from prune_gui.recipe.compaction.network import Json
from prune_gui.recipe.compaction.plan import Attributes, CompactPlan
from prune_gui.recipe.output import Form, OutputOptions, OutputPath
from prune_gui.resources import resource


def model_files_of(checkpoint: Checkpoint) -> ModelFiles:
    """Return the files beside the weights of a checkpoint; those of a remote one are fetched."""
    return find_model_files(checkpoint.model_files_folder / checkpoint.path.name)


def copied_files(
    checkpoint: Checkpoint, target: OutputPath, options: OutputOptions
) -> dict[str, bytes]:
    """Return the contents of the files to copy unchanged into the folder `target`, by name."""
    if not options.model_files or not has_model_files(target, options.form):
        return {}
    files = model_files_of(checkpoint)
    code = files.code if options.copy_code else ()
    return files.contents([*files.names, *free_names(code, target)])


def has_model_files(target: OutputPath, form: Form) -> bool:
    """Return whether an output is the folder of a model, which masks alone are not."""
    return target.is_folder and form != "masks"


def free_names(code: Sequence[str], target: OutputPath) -> list[str]:
    """Return the names without those that Python would import as the loader script of a folder."""
    loader = loader_path(target).stem.casefold()
    return [name for name in code if Path(name).parts[0].partition(".")[0].casefold() != loader]


def model_files_note(
    checkpoint: Checkpoint, target: OutputPath, form: Form, options: OutputOptions | None
) -> str:
    """Return which files beside the weights are copied; without options, which never are."""
    if not target.is_folder:
        return ""
    files = ModelFiles(checkpoint.path.parent)
    with suppress(OSError, CheckpointError):  # saving says why they cannot be fetched
        files = model_files_of(checkpoint)
    if not has_model_files(target, form):
        masks_note = tr("Masks are no model: config and tokenizer files are not copied.")
        return masks_note if files.names else ""
    free = free_names(files.code, target)
    never = [*files.left_out, *(name for name in files.code if name not in free)]
    left_out = tr("Files and folders that are not copied: {names}.", names=listed(never))
    notes = [left_out] if never else []
    if options is None:
        return " ".join(notes)
    if files.names and options.model_files:
        notes = [tr("Also saved: {names}.", names=listed(files.names)), *notes]
    elif files.names:
        notes = [tr("Not copied as chosen: {names}.", names=listed(files.names))]
    with_code = options.copy_code and options.model_files
    if free and with_code:
        notes.append(tr("Code of the input, which programs run: {names}.", names=listed(free)))
    elif free:
        notes.append(tr("Code is not copied: {names}.", names=listed(free)))
    if files.code and files.needs_code and options.model_files and not with_code:
        notes.append(
            tr(
                "The model loads only with its code, which its config names: copy it if you trust "
                "it (--copy-code, or the check box in the dialog)."
            )
        )
    return " ".join(notes)


def adapted_files(copies: Mapping[str, bytes], plan: CompactPlan) -> dict[str, bytes]:
    """Return the files to write into the folder of the compact form, adapted to it, by name."""
    files = {name: content for name, content in copies.items() if name != CONFIG_NAME}
    if tokens := plan.tokens:
        files = {name: octets for name, octets in files.items() if not tokens.is_left_out(name)}
        files |= {name: octets for name, octets in tokens.files.items() if octets is not None}
    return files if plan.config is None else {**files, CONFIG_NAME: _config_bytes(plan.config)}


def config_beside(plan: CompactPlan, file: Path) -> dict[str, bytes]:
    """Return the config.json to write beside a single file, by name; {} if one is there already."""
    if plan.config is None or exists(Location.at(file.parent / CONFIG_NAME)):
        return {}
    return {CONFIG_NAME: _config_bytes(plan.config)}


def _config_bytes(config: Json) -> bytes:
    return valid_text(f"{json.dumps(config, indent=2, ensure_ascii=False)}\n").encode()


LOADER_START: Final = '"""Written by Prune GUI.'
NOT_IDENTIFIER: Final = re.compile(r"\W")  # a character that a Python identifier cannot contain


def loader_path(target: OutputPath) -> Path:
    """Return the path of the loader script, a module; a folder may have one for each suffix."""
    stem = target.main.partition(".")[0] if target.is_folder else target.path.name
    return _folder(target) / _loader_name(stem)


def _loader_name(stem: str) -> str:
    return f"load_{NOT_IDENTIFIER.sub('_', stem)}.py"


def script_beside(checkpoint: Checkpoint) -> Path | None:
    """Return the loader script that was saved with a checkpoint; None if there is none."""
    name, folder = checkpoint.path.name, checkpoint.path.absolute().parent
    for path in (folder / _loader_name(stem) for stem in (name, name.partition(".")[0])):
        with suppress(OSError, ValueError):
            if path.read_text(encoding="utf-8").startswith(LOADER_START):
                return path
    return None


def loader_text(
    checkpoint: Checkpoint,
    target: OutputPath,
    *,
    compact: bool = False,
    attributes: Attributes | None = None,
    fields: Json | None = None,
) -> str:
    """Return a script whose `load(model)` loads the checkpoint that is written to `target`.

    `attributes` and `fields` are those of the plan of the compact form.
    """
    main, load_code = ascii(target.main), target.format.load_code
    reader = [target.format.load_import] if target.format.load_import else []
    imports = ["import warnings", "from pathlib import Path", "", "import torch", *reader]
    if compact:
        imports.insert(0, "import copy")
    if target.is_sharded:
        imports.insert(1 if compact else 0, "import json")
        reading = [
            f"index = json.loads((folder / {main}).read_text(encoding='utf-8'))",
            "state = {}",
            'for shard in sorted(set(index["weight_map"].values())):',
            f"    state |= {load_code.format(path='folder / shard')}",
        ]
    else:
        # The objects around a state dict are not written in another format, or if they need code.
        is_plain = target.is_tensors_only or bool(checkpoint.foreign)
        is_nested = checkpoint.format == target.format.name and not is_plain
        keys = "".join(f"[{key!a}]" for key in (checkpoint.root if is_nested else ()))
        reading = [f"state = {load_code.format(path=f'folder / {main}')}{keys}"]
    return Template(
        shipped_script("load_compact.py.template" if compact else "load.py.template")
    ).substitute(
        imports="\n".join(imports),
        reading="\n".join(f"    {line}" for line in reading),
        filling=shipped_script("fill.py.template"),
        attributes=pformat(attributes, width=96),
        fields=pformat(fields or {}, width=96, sort_dicts=False),
    )


@cache
def shipped_script(name: str) -> str:
    """Return a part of scripts that are written for users."""
    return resource("scripts", name).read_text(encoding="utf-8")


def _folder(target: OutputPath) -> Path:
    return target.path if target.is_folder else target.path.parent


def reading_without_code(checkpoint: Checkpoint, path: str) -> Iterator[str]:
    """Yield the lines that build the dictionary `state` of a file that torch.load refuses."""
    state = f", {checkpoint.state_dict!a}" if len(checkpoint.candidates) > 1 else ""
    if not checkpoint.loads_without_code:
        yield "# torch.load refuses this file with weights_only=True, or runs the code in it."
        yield "# Prune GUI reads the tensors, and runs no code of the file."
    yield "import prune_gui\n"
    yield f"with prune_gui.open_checkpoint({path}{state}) as checkpoint:"
    yield "    state = {key: checkpoint.read_key(key) for key in checkpoint.keys}"
