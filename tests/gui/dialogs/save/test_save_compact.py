"""The compact form in the save dialog."""

from __future__ import annotations

import json

import torch
from safetensors.torch import save_file
from save_dialog_controls import choose, problem, save_button

from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.gui.saving.save_dialog import SaveDialog


def test_a_network_without_units_cannot_be_saved_compact_and_the_dialog_says_why(
    dialog, shown_sizes
):
    choose(dialog, "compact")
    assert shown_sizes(dialog)["compact"] == "cannot be saved"
    assert "belong together" in problem(dialog)


def test_what_remains_of_a_compact_checkpoint_is_shown_and_saved_to_a_folder(
    make_dialog, shown_sizes, save, tmp_path, make_step, workbench
):
    torch.manual_seed(0)
    folder = tmp_path / "llama"
    folder.mkdir()
    state = {
        f"layers.{layer}.{name}.weight": torch.randn(shape)
        for layer in range(2)
        for name, shape in {
            **{f"self_attn.{each}_proj": (8, 8) for each in "qkvo"},
            "mlp.gate_proj": (12, 8),
            "mlp.up_proj": (12, 8),
            "mlp.down_proj": (8, 12),
        }.items()
    }
    save_file(state, folder / "model.safetensors")
    config = {"model_type": "llama", "intermediate_size": 12, "num_attention_heads": 2}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 8}))
    dialog = make_dialog(folder / "model.safetensors", pruned=False)
    dialog.done(0)
    for name, dim in (("gate_proj", 0), ("up_proj", 0), ("down_proj", 1)):
        step = make_step("channels", f"*.{name}.weight", dim=dim, channels="0-3")
        workbench.edit(lambda session, step=step: session.add(step))
    dialog = SaveDialog(workbench, pruned_path(folder / "model.safetensors"), "compact")
    dialog.show()
    shown_sizes(dialog)
    assert "FFN neurons: 16 of 24" in problem(dialog)
    assert "Needs 896 of 1,088 multiply-adds per token." in problem(dialog)
    assert "change these fields in a copy of it: intermediate_size: 8" in problem(dialog)
    dialog._path.setText(str(tmp_path / "smaller"))
    shown = shown_sizes(dialog)["compact"]
    assert "from_pretrained loads the folder" in problem(dialog)
    save_button(dialog).click()
    written = save(dialog) - (tmp_path / "smaller" / "config.json").stat().st_size
    assert shown == f"{written:,} bytes"


def test_a_folder_is_suggested_for_the_compact_form_unless_the_path_was_edited(
    make_dialog, tmp_path
):
    folder = tmp_path / "small"
    folder.mkdir()
    save_file({"a.weight": torch.randn(4, 4)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    dialog = make_dialog(folder / "model.safetensors")
    suggested = dialog._path.text()
    choose(dialog, "compact")
    assert dialog.path == tmp_path / "small-compact"
    choose(dialog, "finalized")
    assert dialog._path.text() == suggested
    dialog._path.setText(str(tmp_path / "own.safetensors"))
    choose(dialog, "compact")
    assert dialog.path == tmp_path / "own.safetensors"
