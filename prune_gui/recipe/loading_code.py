"""Python code that loads a saved checkpoint, to paste into a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import CONFIG_NAME, read_hf_config
from prune_gui.checkpoint.formats import format_named
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.recipe.extra_files import reading_without_code, script_beside
from prune_gui.recipe.recipe import Provenance

OF_TRANSFORMERS: Final = frozenset(
    f"{name}{end}"
    for name in ("model.safetensors", "pytorch_model.bin")
    for end in ("", ".index.json")
)
"""The names of the files that from_pretrained loads from a folder."""
GIVEN: Final = "# model is your network as it was before pruning, just built"
OF_TORCH: Final = (SAFETENSORS.name, TORCH.name)


def loading_code(checkpoint: Checkpoint, changes: Mapping[str, object] | None = None) -> str:
    """Return code that loads a checkpoint into a model, whatever its form.

    It builds that of a folder, or a compact one, with transformers if config.json names its class;
    else `model` is the network before pruning, just built. A compact file needs these `changes` of
    the config.json beside it.
    """
    made = Provenance.of(checkpoint.metadata)
    form, folder = made.form if made else "", checkpoint.path.absolute().parent
    config = {} if checkpoint.url else read_hf_config(folder)[0] or {}
    fields = {key: value for key, value in (changes or {}).items() if config.get(key) != value}
    names = config.get("architectures") if fields.keys() <= config.keys() else None
    network = str(names[0]) if isinstance(names, list) and names else ""
    if "auto_map" in config or not network.isidentifier() or checkpoint.format not in OF_TORCH:
        network = ""  # it needs other code
    script = script_beside(checkpoint) if form in ("reparametrized", "compact") else None
    lines = list(reading_code(checkpoint, folder))
    if script is not None:
        built = "" if network and form == "compact" else "model"
        run = f'model = run_path({str(script)!a})["load"]({built})'
        lines = ["from runpy import run_path\n", *([GIVEN] if built else []), run]
    elif form == "masks":
        if "import torch" not in lines:
            lines.insert(0, "import torch")
        lines += [
            GIVEN,
            "for name, mask in state.items():",
            '    path, _, name = name.rpartition(".")',
            "    torch.nn.utils.prune.custom_from_mask(model.get_submodule(path), name, mask)",
        ]
    elif network and checkpoint.path.name in OF_TRANSFORMERS and not fields:
        load = f"model = {network}.from_pretrained({str(folder)!a})"
        lines = [f"from transformers import {network}\n", load]
    elif network and form != "reparametrized":
        values = "".join(f", {key}={value!r}" for key, value in fields.items())
        lines = [
            f"from transformers import AutoConfig, {network}",
            *lines,
            f"config = AutoConfig.from_pretrained({str(folder / CONFIG_NAME)!a}{values})",
            f"model = {network}.from_pretrained(None, config=config, state_dict=state)",
        ]
    elif checkpoint.format in OF_TORCH:
        lines += [GIVEN, "model.load_state_dict(state)"]
    return "\n".join(lines) + "\n"


def reading_code(checkpoint: Checkpoint, folder: Path) -> Iterator[str]:
    """Yield lines of Python that read the tensors of a checkpoint in a folder, as `state`."""
    file_format, path = format_named(checkpoint.format), folder / checkpoint.path.name
    load = file_format.load_code
    if checkpoint.url or not checkpoint.loads_without_code:
        yield from reading_without_code(checkpoint, ascii(checkpoint.url or str(path)))
        return
    if "torch." in load:
        yield "import torch"
    if file_format.load_import:
        yield file_format.load_import
    if checkpoint.files == (checkpoint.path,):
        yield f"\nstate = {checkpoint.state_code(load.format(path=ascii(str(path))))}"
        return
    yield f"from pathlib import Path\n\nfolder, state = Path({str(folder)!a}), {{}}"
    names = {file.name for file in checkpoint.files} - {checkpoint.path.name}
    yield f"for shard in {sorted(names)!r}:"
    yield f"    state |= {load.format(path='folder / shard')}"
