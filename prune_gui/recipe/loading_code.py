"""Python code that loads a saved checkpoint, to paste into a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import CONFIG_NAME
from prune_gui.checkpoint.formats import format_named
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.recipe.compaction.network import read_config
from prune_gui.recipe.extra_files import reading_without_code, script_beside
from prune_gui.recipe.recipe import Provenance

INDEX: Final = ".index.json"
OF_TRANSFORMERS: Final = frozenset(
    name + end for name in ("model.safetensors", "pytorch_model.bin") for end in ("", INDEX)
)
"""The names of the files that from_pretrained loads from a folder."""


def loading_code(checkpoint: Checkpoint, changes: Mapping[str, object] | None = None) -> str:
    """Return code that loads a checkpoint into a model, whatever its form.

    It builds the model with transformers if config.json names its class; else `model` is the
    network before pruning, just built.

    Args:
        changes: the fields of config.json that differ in a compact file; None if none do.
    """
    made = Provenance.of(checkpoint.metadata)
    form, folder = made.form if made else "", checkpoint.path.absolute().parent
    config = {} if checkpoint.url else read_config(folder) or {}
    fields = {key: value for key, value in (changes or {}).items() if config.get(key) != value}
    script = script_beside(checkpoint)
    network = _transformers_class(checkpoint, config) if fields.keys() <= config.keys() else ""
    if form in ("reparametrized", "compact") and script is not None:
        built = "" if network and form == "compact" else "model"
        lines = [
            "from runpy import run_path\n",
            f'load = run_path({str(script)!a})["load"]',
            f"model = load({built})",
        ]
    elif network and form != "masks":
        lines = list(_with_transformers(checkpoint, network, fields))
    else:
        lines = list(reading_code(checkpoint, folder))
        if form == "masks":
            lines += [
                "for name, mask in state.items():",
                '    module, _, parameter = name.rpartition(".")',
                "    torch.nn.utils.prune.custom_from_mask(",
                "        model.get_submodule(module), parameter, mask",
                "    )",
            ]
        elif checkpoint.format in (SAFETENSORS.name, TORCH.name):
            lines.append("model.load_state_dict(state)")
    return "\n".join(lines) + "\n"


def reading_code(checkpoint: Checkpoint, folder: Path) -> Iterator[str]:
    """Yield lines of Python that read the tensors of a checkpoint in a folder, as `state`."""
    file_format, path = format_named(checkpoint.format), folder / checkpoint.path.name
    if checkpoint.url or not checkpoint.loads_without_code:
        yield from reading_without_code(checkpoint, ascii(checkpoint.url or str(path)))
        return
    yield "import torch"
    if file_format.load_import:
        yield file_format.load_import
    if checkpoint.files == (checkpoint.path,):
        loaded = file_format.load_code.format(path=ascii(str(path)))
        yield f"\nstate = {checkpoint.state_code(loaded)}"
        return
    yield f"from pathlib import Path\n\nfolder, state = Path({str(folder)!a}), {{}}"
    names = sorted({file.name for file in checkpoint.files} - {checkpoint.path.name})
    yield f"for shard in {names!r}:"
    yield f"    state |= {file_format.load_code.format(path='folder / shard')}"


def _transformers_class(checkpoint: Checkpoint, config: Mapping[str, object]) -> str:
    """Return the class of transformers that config.json names; "" if it needs other code."""
    names = config.get("architectures")
    is_own = "auto_map" not in config and checkpoint.format in (SAFETENSORS.name, TORCH.name)
    if not is_own or not isinstance(names, list) or not names:
        return ""
    return str(names[0]) if str(names[0]).isidentifier() else ""


def _with_transformers(
    checkpoint: Checkpoint, network: str, fields: Mapping[str, object]
) -> Iterator[str]:
    folder = checkpoint.path.absolute().parent
    if checkpoint.path.name in OF_TRANSFORMERS and not fields:
        yield f"from transformers import {network}\n"
        yield f"model = {network}.from_pretrained({str(folder)!a})"
        return
    yield f"from transformers import AutoConfig, {network}"
    yield from reading_code(checkpoint, folder)
    others = "".join(f", {key}={value!r}" for key, value in fields.items())
    yield f"config = AutoConfig.from_pretrained({str(folder / CONFIG_NAME)!a}{others})"
    yield f"model = {network}.from_pretrained(None, config=config, state_dict=state)"
