"""The compact form in the save dialog."""

from __future__ import annotations

import json

import pytest
import torch
from PySide6.QtWidgets import QCheckBox
from safetensors.torch import save_file
from save_dialog_controls import choose, problem, save_button, split
from sharded_files import write_shards

from prune_gui.gui.saving import output_boxes
from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.location import Location


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
    suggested = pruned_path(folder / "model.safetensors")
    dialog = SaveDialog(workbench, suggested, "compact")
    dialog.show()
    assert dialog.path == tmp_path / "llama-compact"
    dialog._path.setText(str(suggested))
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


def test_a_path_is_suggested_for_each_form_unless_it_was_edited(make_dialog, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    save_file({"a.weight": torch.randn(4, 4)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    dialog = make_dialog(folder / "model.safetensors")
    suggested = dialog._path.text()
    choose(dialog, "compact")
    assert dialog.path == tmp_path / "small-compact"
    choose(dialog, "masks")
    assert dialog.path == folder / "model-masks.safetensors"
    choose(dialog, "finalized")
    assert dialog._path.text() == suggested
    dialog._path.setText(str(tmp_path / "own.safetensors"))
    choose(dialog, "compact")
    assert dialog.path == tmp_path / "own.safetensors"


TENSORS = {"a.weight": torch.randn(4, 4)}
DATA = ["config.json", "generation_config.json", "tokenizer.json", "vocab.txt"]
CODE = ["modeling_x.py"]


@pytest.fixture
def one_file(tmp_path):
    folder = tmp_path / "net"
    folder.mkdir()
    save_file(TENSORS, folder / "model.safetensors")
    return add_files(folder) / "model.safetensors"


@pytest.fixture
def shards(tmp_path):
    write_shards(tmp_path / "net", {"m-1.safetensors": TENSORS})
    return add_files(tmp_path / "net") / "model.safetensors.index.json"


def add_files(folder):
    for name in DATA + CODE:
        (folder / name).write_text('{"auto_map": {}}')
    (folder / "load_model.py").write_text("of the author")
    return folder


def boxes(dialog) -> list[QCheckBox]:
    return dialog.model_files.findChildren(QCheckBox)


def saved_names(dialog, save) -> set[str]:
    save_button(dialog).click()
    save(dialog)
    return {path.name for path in dialog.path.iterdir() if "safetensors" not in path.name}


def test_the_boxes_name_the_files(make_dialog, shards):
    files, code = boxes(make_dialog(shards))
    assert files.text() == (
        "Also save config.json, generation_config.json, tokenizer.json and 1 more"
    )
    assert files.toolTip().split("\n") == DATA
    assert code.text() == "And its code, without which it does not load: modeling_x.py"
    assert code.toolTip() == "modeling_x.py"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [((True, False), DATA), ((True, True), DATA + CODE), ((False, False), [])],
)
def test_a_folder_of_shards_gets_what_is_checked(make_dialog, shards, save, wanted, expected):
    dialog = make_dialog(shards)
    assert dialog._path_label.text() == "Fold&er"
    assert [box.isChecked() for box in boxes(dialog)] == [True, False]
    for box, is_wanted in zip(boxes(dialog), wanted, strict=True):
        if box.isChecked() != is_wanted:
            box.click()
    assert saved_names(dialog, save) == set(expected)


def test_checking_the_box_for_a_single_file_suggests_a_folder(make_dialog, one_file, save):
    dialog = make_dialog(one_file)
    files, code = boxes(dialog)
    assert (dialog.path.name, files.isChecked(), code.isEnabled()) == (
        "model-pruned.safetensors", False, False,
    )  # fmt: skip
    files.click()
    assert dialog.path == one_file.parent.with_name("net-pruned")
    assert (files.isChecked(), code.isEnabled()) == (True, True)
    assert saved_names(dialog, save) == set(DATA)


def test_checking_the_box_keeps_a_folder_that_was_typed(make_dialog, one_file, tmp_path):
    dialog = make_dialog(one_file)
    chosen = tmp_path / "chosen"
    dialog._path.setText(str(chosen / "model.safetensors"))
    boxes(dialog)[0].click()
    assert dialog.path == chosen


def test_masks_get_none_of_them(make_dialog, shards):
    dialog = make_dialog(shards)
    choose(dialog, "masks")
    assert [box.isChecked() or box.isEnabled() for box in boxes(dialog)] == [False, False]
    choose(dialog, "reparametrized")
    assert boxes(dialog)[0].isChecked()


def test_a_file_among_others_has_no_boxes(make_dialog, model):
    (model.parent / "notes.txt").write_text("mine")
    assert not any(box.isVisible() for box in boxes(make_dialog(model)))


URL = "s3://results/net/pruned.safetensors"


@pytest.fixture
def remote(dialog, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dialog._path.setText(URL)
    return dialog


def test_a_url_is_an_output_path(remote):
    assert save_button(remote).isEnabled()
    assert "where files are until they are uploaded" in problem(remote)
    save_button(remote).click()
    assert remote.result()
    assert (remote.path, remote.options.overwrite) == (Location.of(URL).path, False)


def test_a_remote_file_is_replaced_if_the_user_says_so(remote):
    assert remote._replace.isVisible()
    remote._replace.click()
    save_button(remote).click()
    assert remote.options.overwrite


def test_a_remote_folder_is_never_replaced(remote):
    remote._replace.click()
    split(remote, "1 MB")
    assert remote._path.text() == URL.removesuffix(".safetensors")
    assert not remote._replace.isEnabled()
    save_button(remote).click()
    assert not remote.options.overwrite


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://host/net.safetensors", "Save into an object store"),
        ("s3://key:secret@results/net.safetensors", "carries a password"),
        ("s3:///net.safetensors", "is not a valid URL"),
    ],
)
def test_what_cannot_be_written_is_said_while_typing(remote, url, message):
    remote._path.setText(url)
    assert message in problem(remote)
    assert "secret" not in problem(remote)
    assert not save_button(remote).isEnabled()


def test_the_choice_to_replace_is_only_for_remote_files(remote, model):
    remote._path.setText(str(output_boxes.pruned_path(model)))
    assert not remote._replace.isVisible()
