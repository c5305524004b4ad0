"""The dialog that saves a pruned checkpoint."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialog,
    QLineEdit,
    QMessageBox,
    QRadioButton,
)
from safetensors.torch import save_file
from save_dialog_controls import choose, problem, save_button, split
from waiting import change, draft_step

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.saving import output_boxes
from prune_gui.gui.saving import save_dialog as save_dialog
from prune_gui.gui.saving.checkpoint_saving import CheckpointSaving
from prune_gui.gui.saving.output_boxes import pruned_path, suggested_path
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.widgets.message import Message
from prune_gui.recipe import FORMS


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize("shard_size", [None, "6 kB"])
def test_the_shown_size_is_that_of_the_written_files(dialog, shown_sizes, save, form, shard_size):
    choose(dialog, form)
    if shard_size is not None:
        split(dialog, shard_size)
    shown = shown_sizes(dialog)[form]
    save_button(dialog).click()
    assert shown == f"{save(dialog):,} bytes"


def test_a_name_without_a_folder_is_in_that_of_the_suggestion(dialog, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    suggested = dialog.path
    for typed, path in (
        (" mine.safetensors", suggested.parent / "mine.safetensors"),
        ("~/mine.safetensors", Path.home() / "mine.safetensors"),
        (str(tmp_path / "mine.pt"), tmp_path / "mine.pt"),
    ):
        dialog._path.setText(typed)
        assert dialog.path == dialog._target.path == path


def test_shards_are_those_of_the_input_unless_a_size_is_given(
    make_dialog, shown_sizes, save, model, tmp_path
):
    folder = tmp_path / "shards"
    folder.mkdir()
    weight_map = {}
    with open_checkpoint(model) as opened:
        for i, key in enumerate(opened.keys):
            weight_map[key] = f"m-{i}.safetensors"
            save_file({key: opened.read_key(key).clone()}, folder / weight_map[key])
    index = folder / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    dialog = make_dialog(index)
    assert dialog.path == tmp_path / "shards-pruned"
    mirrored = shown_sizes(dialog)["finalized"]
    split(dialog, "1 GB")
    assert shown_sizes(dialog)["finalized"] != mirrored
    dialog.findChild(QCheckBox).click()
    assert shown_sizes(dialog)["finalized"] == mirrored
    save_button(dialog).click()
    assert f"{save(dialog):,} bytes" == mirrored
    assert {path.name for path in dialog.path.iterdir()} == {index.name, *weight_map.values()}


def test_unknown_sizes_are_marked_and_then_shown_with_their_zip_sizes(
    make_dialog, model, shown_sizes, workbench, monkeypatch
):
    asked, run = [], workbench.bridge.run

    def hold_sizes(job, *callbacks):
        return asked.append((job, *callbacks)) if job.lane == "sizes" else run(job, *callbacks)

    with monkeypatch.context() as patch:
        patch.setattr(workbench.bridge, "run", hold_sizes)
        dialog = make_dialog(model)
    figure = dialog._figures["masks"]
    assert figure.text() == save_dialog.UNKNOWN
    [request] = asked
    run(*request)
    shown_sizes(dialog)
    assert figure.text().endswith(" with zip")


def test_a_torch_file_is_compressed_to_about_the_size_that_is_shown(dialog, shown_sizes, workbench):
    [compressed] = [box for box in dialog.findChildren(QCheckBox) if "deflate" in box.text()]
    exact = shown_sizes(dialog)["finalized"]
    assert not compressed.isEnabled()
    dialog._path.setText(str(dialog.path.with_suffix(".pt")))
    compressed.click()
    assert dialog.options.compressed
    assert shown_sizes(dialog)["finalized"].startswith("about ")
    dialog._path.setText(str(dialog.path.with_suffix(".safetensors")))
    assert not dialog.options.compressed
    assert shown_sizes(dialog)["finalized"] == exact
    dialog._path.setText(str(dialog.path.with_suffix(".pt")))
    split(dialog, "1 GB")
    assert not dialog.options.compressed


@pytest.fixture
def training(tmp_path) -> Path:
    """Return the path of a whole module beside the state of its optimizer."""
    torch.manual_seed(0)
    network = torch.nn.Linear(40, 30)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.randn(5, 40)).square().sum().backward()
    optimizer.step()
    path = tmp_path / "train.pt"
    torch.save({"model": torch.nn.Sequential(network), "optimizer": optimizer.state_dict()}, path)
    return path


def test_the_dialog_says_what_is_kept_of_a_file_with_code(make_dialog, training, shown_sizes):
    dialog = make_dialog(training)
    shown_sizes(dialog)
    assert "byte for byte" in problem(dialog)
    choose(dialog, "reparametrized")
    assert "plain state dict" in problem(dialog)
    dialog._path.setText(str(training.with_suffix(".safetensors")))
    shown_sizes(dialog)
    assert "only the tensors" in problem(dialog)
    choose(dialog, "masks")
    assert "tensors" not in problem(dialog)


class RunsProgram:
    def __reduce__(self):
        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("extra", "box_state"), [(None, None), (Namespace(), False), (RunsProgram(), True)]
)
def test_tensors_only_is_offered_for_code_and_checked_if_it_runs_programs(
    make_dialog, shown_sizes, tmp_path, extra, box_state
):
    torch.save({"w.weight": torch.ones(4, 4), "extra": extra}, tmp_path / "model.pth.tar")
    dialog = make_dialog(tmp_path / "model.pth.tar")
    assert dialog.path == tmp_path / "model-pruned.pth.tar"
    [box] = [
        box
        for box in dialog.findChildren(QCheckBox)
        if "Tensors only" in box.text().replace("&", "")
    ]
    assert box.isVisible() == (box_state is not None)
    assert dialog.options.tensors_only is box_state
    for is_checked in (box_state, not box_state) if box_state is not None else ():
        box.setChecked(is_checked)
        shown_sizes(dialog)
        assert ("only the tensors" in problem(dialog)) is is_checked
        assert ("Prune GUI runs none of it" in problem(dialog)) is not is_checked
    split(dialog, "1 GB")
    assert dialog.path == tmp_path / "model-pruned"
    dialog.findChild(QCheckBox).click()
    assert dialog.path == tmp_path / "model-pruned.pth.tar"


def test_the_size_in_the_notice_is_that_of_the_weights_as_in_the_dialog(
    qtbot, make_dialog, training, workbench, tmp_path
):
    make_dialog(training)
    saving = CheckpointSaving(None, workbench, None)
    qtbot.addWidget(saving.notice)
    folder = tmp_path / "saved"
    folder.mkdir()
    for name, size in (("model-1.safetensors", 3000), ("config.json", 500)):
        (folder / name).write_bytes(bytes(size))
    (folder / "model.safetensors.index.json").write_bytes(bytes(40))
    saving._tell(folder)
    assert saving.notice.text == "Saved saved, 3.04 kB, verified"


def test_moments_are_zeroed_only_on_request(qtbot, make_dialog, training, workbench):
    make_dialog(training).accept()
    saving = CheckpointSaving(None, workbench, None)
    qtbot.addWidget(saving.notice)
    for wanted in (False, True):
        QTimer.singleShot(0, lambda wanted=wanted: _accept(saving._dialog, zero_moments=wanted))
        with qtbot.waitSignal(workbench.saved, timeout=60_000) as saved:
            saving.ask("finalized")
        [out] = saved.args
        content = torch.load(out, weights_only=False)
        is_pruned = content["model"][0].weight == 0
        moments = content["optimizer"]["state"][0]["exp_avg"]
        assert is_pruned.sum() == 600
        assert bool(moments[~is_pruned].all())
        assert bool(moments[is_pruned].any()) is not wanted
        out.unlink()


def _accept(dialog: SaveDialog, *, zero_moments: bool) -> None:
    [box] = [box for box in dialog.findChildren(QCheckBox) if "moments" in box.text()]
    assert box.isVisible()
    assert not box.isChecked()
    choose(dialog, "masks")
    assert not box.isEnabled()
    choose(dialog, "finalized")
    if zero_moments:
        box.click()
    save_button(dialog).click()


def test_a_file_without_an_optimizer_does_not_offer_its_moments(dialog):
    assert not any(b.isVisible() for b in dialog.findChildren(QCheckBox) if "moments" in b.text())


def test_sizes_are_not_computed_again_for_another_name_of_the_same_format(
    dialog, shown_sizes, workbench, monkeypatch
):
    shown_sizes(dialog)
    monkeypatch.setattr(workbench.bridge, "run", lambda *_: pytest.fail("measured again"))
    dialog._path.setText(str(dialog.path.with_name("other.safetensors")))
    assert shown_sizes(dialog)["finalized"].endswith(" bytes")


def test_every_form_has_a_key_and_an_accessible_description(dialog, shown_sizes, qtbot):
    sizes = shown_sizes(dialog)
    buttons = dialog.findChildren(QRadioButton)
    buttons[0].setFocus()
    for button, form in zip(buttons, FORMS, strict=True):
        assert dialog.form == form
        described = sizes[form] != "cannot be saved"
        assert (save_dialog.FORMS[form][1] in button.accessibleDescription()) is described
        assert dialog._figures[form].text() in button.accessibleDescription()
        qtbot.keyClick(button, Qt.Key.Key_Down)
    assert all(line.accessibleName() for line in dialog.findChildren(QLineEdit))


@pytest.mark.parametrize(
    ("path", "size", "reason"),
    [
        ("", None, "Enter a file name"),
        ("/nowhere/model", None, "no suffix of a known format"),
        ("/nowhere/a.pt", "6 kB", "the name of a single file"),
        *((None, size, f"{size!r} is not a size") for size in ("5 apples", "", "0GB")),
    ],
)
def test_invalid_input_is_explained_and_cannot_be_saved(dialog, path, size, reason):
    if size is not None:
        split(dialog, size)
    if path is not None:
        dialog._path.setText(path)
    assert reason in problem(dialog)
    assert not save_button(dialog).isEnabled()
    dialog._confirm()
    assert dialog.isVisible()


def test_splitting_removes_the_suffix_from_the_path_and_restores_it(dialog, tmp_path):
    split(dialog, "6 kB")
    assert dialog.path == tmp_path / "model-pruned"
    assert dialog.options.shard_size == 6000
    dialog._path.setText(str(tmp_path / "b"))
    dialog.findChild(QCheckBox).click()
    assert dialog.path == tmp_path / "b.safetensors"
    assert dialog.options.shard_size is None


def test_the_reason_is_shown_for_a_form_that_cannot_be_written(make_dialog, model, shown_sizes):
    dialog = make_dialog(model, pruned=False)
    assert shown_sizes(dialog)["masks"] == "cannot be saved"
    assert "There are no masks to write" in problem(dialog)
    assert save_button(dialog).isEnabled()
    choose(dialog, "masks")
    assert not save_button(dialog).isEnabled()


def test_the_reason_is_shown_for_a_recipe_that_cannot_be_resolved(
    make_dialog, model, workbench, make_step, qtbot
):
    failed = []
    workbench.failed.connect(lambda *error: failed.append(error))
    dialog = make_dialog(model, pruned=False)
    dialog.reject()
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "nothing.here")))
    dialog.show()
    qtbot.waitUntil(lambda: "no parameter matches nothing.here" in problem(dialog))
    assert not failed  # no error box over the dialog


def test_too_little_space_on_disk_is_shown(dialog, shown_sizes, monkeypatch):
    shown_sizes(dialog)
    message = "Not enough disk space: 14 kB free in"
    for free, is_short in [(10**9, False), (14_000, True)]:
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(output_boxes.shutil, "disk_usage", lambda _, usage=usage: usage)
        choose(dialog, "masks")
        choose(dialog, "finalized")
        assert (message in problem(dialog)) is is_short


def test_a_missing_folder_is_made_unless_the_user_declines(dialog, shown_sizes, save, tmp_path):
    shown_sizes(dialog)
    out = tmp_path / "new" / "deep" / "out.safetensors"
    dialog._path.setText(str(out))
    [box] = [box for box in dialog.findChildren(QCheckBox) if str(out.parent) in box.text()]
    assert box.isVisible()
    box.click()
    assert not save_button(dialog).isEnabled()
    box.click()
    assert not out.parent.exists()
    save_button(dialog).click()
    save(dialog)
    assert out.is_file()


def test_a_folder_that_cannot_be_made_is_explained_in_the_dialog(dialog, shown_sizes, tmp_path):
    shown_sizes(dialog)
    (tmp_path / "file").touch()
    dialog._path.setText(str(tmp_path / "file" / "new" / "out.safetensors"))
    save_button(dialog).click()
    assert dialog.isVisible()
    assert "The folder cannot be created: Not a directory" in problem(dialog)


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("model.pt", "model-pruned.pt"),
        ("model-pruned.pt", "model-pruned-2.pt"),
        ("model-pruned-9.pt", "model-pruned-10.pt"),
        ("a-pruned/model.safetensors.index.json", "a-pruned-2"),
    ],
)
def test_what_was_pruned_before_gets_the_next_number(tmp_path, name, suggested):
    assert pruned_path(tmp_path / name) == tmp_path / suggested


def test_a_path_is_suggested_where_nothing_was_saved_before(tmp_path):
    model = tmp_path / "net" / "model.safetensors"
    for taken in ("model-pruned.safetensors", "model-pruned-2.safetensors"):
        model.parent.mkdir(exist_ok=True)
        model.with_name(taken).touch()
    assert pruned_path(model) == model.with_name("model-pruned-3.safetensors")
    (tmp_path / "net-pruned").mkdir()
    index = model.with_name("model.safetensors.index.json")
    assert pruned_path(index) == tmp_path / "net-pruned"
    (tmp_path / "net-pruned" / "config.json").touch()
    assert pruned_path(index) == tmp_path / "net-pruned-2"


def test_a_pipeline_is_to_be_saved_whole_and_its_model_alone(tmp_path):
    weights = tmp_path / "sd" / "unet" / "diffusion_pytorch_model.safetensors"
    weights.parent.mkdir(parents=True)
    save_file({"w": torch.ones(2, 2)}, weights)
    (tmp_path / "sd" / "model_index.json").write_text('{"_class_name": "Pipeline"}')
    with open_checkpoint(tmp_path / "sd") as checkpoint:
        assert suggested_path(checkpoint) == tmp_path / "sd-pruned"
    with open_checkpoint(weights) as checkpoint:
        assert suggested_path(checkpoint) == pruned_path(weights)


def test_a_new_file_is_saved_without_a_question(dialog, tmp_path, answer_box):
    asked = answer_box("Cancel")
    save_button(dialog).click()
    assert dialog.result() == QDialog.DialogCode.Accepted
    assert dialog.path == tmp_path / "model-pruned.safetensors"
    assert not dialog.options.overwrite
    assert not asked


@pytest.mark.parametrize(("button", "result"), [("Replace", 1), ("Cancel", 0)])
def test_replacing_a_file_is_confirmed_once(dialog, tmp_path, answer_box, button, result):
    (tmp_path / "model-pruned.safetensors").touch()
    asked = answer_box(button)
    dialog._confirm()
    assert dialog.result() == result
    assert dialog.options.overwrite == bool(result)
    assert asked == ["model-pruned.safetensors already exists. Replace it?"]


def test_replacing_the_open_checkpoint_shows_a_warning(dialog, tmp_path, model, monkeypatch):
    texts = []
    monkeypatch.setattr(QMessageBox, "exec", lambda box: texts.append(box.informativeText()))
    for path in (model, tmp_path / "model-pruned.safetensors"):
        path.touch()
        dialog._path.setText(str(path))
        dialog._confirm()
    warnings = ["This file is the open checkpoint" in text for text in texts]
    assert warnings == [True, False]


def test_replacing_the_loader_script_is_confirmed(dialog, tmp_path, answer_box):
    (tmp_path / "load_model_pruned_safetensors.py").write_text("mine")
    asked = answer_box("Cancel")
    choose(dialog, "reparametrized")
    dialog._confirm()
    assert asked == ["load_model_pruned_safetensors.py already exists. Replace it?"]
    choose(dialog, "finalized")
    dialog._confirm()
    assert len(asked) == 1


def test_replacing_a_folder_that_is_not_empty_is_confirmed(dialog, tmp_path, answer_box):
    split(dialog, "6 kB")
    folder = tmp_path / "model-pruned"
    folder.mkdir()
    asked = answer_box("Cancel")
    (folder / "model.safetensors").touch()
    dialog._confirm()
    assert dialog.isVisible()
    (folder / "model.safetensors").unlink()
    dialog._confirm()
    assert dialog.result() == QDialog.DialogCode.Accepted
    assert len(asked) == 1


def test_the_input_itself_may_be_the_output(dialog, shown_sizes, save, model, answer_box):
    answer_box("Replace")
    dialog._path.setText(str(model))
    shown = shown_sizes(dialog)["finalized"]
    dialog._confirm()
    assert f"{save(dialog):,} bytes" == shown
    with open_checkpoint(model) as pruned:
        assert int((pruned.read("a.weight") == 0).sum()) == 600


def test_cancel_writes_nothing_and_stops_the_computation_of_sizes(
    qtbot, workbench, open_file, model, tmp_path
):
    open_file(model)
    before = {path.name for path in tmp_path.iterdir()}
    dialog = SaveDialog(workbench, pruned_path(model))
    dialog.show()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert dialog.result() == QDialog.DialogCode.Rejected
    dialog.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    with change(qtbot, workbench, "resolution"):
        workbench.resolve()  # runs after any pending computation of sizes
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("drafted", [True, False])
def test_a_note_says_that_a_draft_is_not_saved(
    make_dialog, model, workbench, make_step, qtbot, drafted
):
    dialog = make_dialog(model)
    if drafted:
        draft_step(workbench, make_step("l1_unstructured", "*.weight", amount=0.9))
        dialog.close()
        dialog = SaveDialog(workbench, pruned_path(model))
        qtbot.addWidget(dialog)
        dialog.show()
    texts = [message.text() for message in dialog.findChildren(Message)]
    assert any("previewed step is not saved" in text for text in texts) is drafted


def test_the_dialog_grows_for_messages_which_squeeze_nothing(dialog, shown_sizes, qtbot):
    shown_sizes(dialog)
    radio, height = dialog.findChildren(QRadioButton)[0], dialog.height()
    needed = radio.height()
    dialog.explain("The disk is full. " * 20)
    qtbot.waitUntil(lambda: dialog.height() > height)
    assert radio.height() == needed
    height = dialog.height()
    dialog.explain("")
    qtbot.wait(10)
    assert dialog.height() == height  # no button moves again
