"""The check boxes for the files beside the weights, such as the tokenizer."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtWidgets import QCheckBox
from safetensors.torch import save_file
from save_dialog_controls import choose, save_button
from sharded_files import write_shards

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


def test_masks_get_none_of_them(make_dialog, shards):
    dialog = make_dialog(shards)
    choose(dialog, "masks")
    assert [box.isChecked() or box.isEnabled() for box in boxes(dialog)] == [False, False]
    choose(dialog, "reparametrized")
    assert boxes(dialog)[0].isChecked()


def test_a_file_among_others_has_no_boxes(make_dialog, model):
    (model.parent / "notes.txt").write_text("mine")
    assert not any(box.isVisible() for box in boxes(make_dialog(model)))
