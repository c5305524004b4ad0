from fnmatch import fnmatch

import numpy as np
import pytest
import torch
from pages import errors
from safetensors.torch import save_file

from prune_gui import open_checkpoint
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.reconstruct import ReconstructDialog
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import theme_palette
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.running import BlockError


@pytest.fixture
def dialog(demo_window, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    demo_window.menu_actions["reconstruct"].trigger()
    return demo_window.findChild(ReconstructDialog)


def test_it_begins_when_the_data_and_the_output_are_named(dialog, tmp_path, monkeypatch):
    assert dialog.message.text() == "Choose a file with calibration data."
    assert not dialog.run.isEnabled()
    assert dialog.out.text().endswith("-pruned")
    monkeypatch.setattr(questions, "ask_file", lambda *_: tmp_path / "texts.txt")
    dialog._ask_calibration()
    assert dialog.run.isEnabled()
    dialog.out.clear()
    assert not dialog.run.isEnabled()


def test_a_folder_without_a_model_is_told_in_the_dialog(dialog, qtbot, tmp_path):
    tokens = tmp_path / "tokens.safetensors"
    save_file({"calibration": torch.zeros(2, 4, dtype=torch.int64)}, tokens)
    dialog.calibration.setText(str(tokens))
    dialog.out.setText(str(tmp_path / "out"))
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()
    assert "no model that transformers" in dialog.message.text()
    assert dialog.run.isEnabled()
    assert not dialog.show_result.isEnabled()
    assert not (tmp_path / "out").exists()


def test_an_internal_error_names_the_log(dialog, demo_window):
    dialog._fail("Reconstructing", ZeroDivisionError("zero"))
    assert dialog.message.text() == ""
    box = errors(demo_window)
    assert box.text().endswith("because of an internal error. See the log at prune-gui.log.")
    box.accept()


def test_the_errors_are_drawn_in_the_colours_of_another_theme(dialog, qtbot):
    qtbot.waitUntil(lambda: dialog.grid.painter is not None)
    dialog._take(BlockError(0, (LayerError("decoder.weight", 0.1, 1, 2),), 0.1, 0.1))
    dialog._show()
    assert (dialog.grid.painter.colours, dialog.plot.shades) == (LIGHT, {"block": LIGHT.curves[0]})
    dialog.setPalette(theme_palette(dark=True))
    assert (dialog.grid.painter.colours, dialog.plot.shades) == (DARK, {"block": DARK.curves[0]})
    assert DARK.curves[0] in dialog.legend.text()


@pytest.fixture
def of_llama(window, workbench, qtbot, small_llama, make_step, tmp_path):
    """The dialog for a small language model, ready to begin."""
    with qtbot.waitSignal(workbench.files.opened, timeout=60_000):
        window.commands.open_path(small_llama)
    step = make_step("l1_unstructured", "*_proj.weight", amount=0.5)
    workbench.edit(lambda session: session.add(step))
    window.menu_actions["reconstruct"].trigger()
    dialog = window.findChild(ReconstructDialog)
    tokens, out = tmp_path / "tokens.safetensors", tmp_path / "out"
    save_file({"calibration": torch.randint(256, (4, 16))}, tokens)
    dialog.calibration.setText(str(tokens))
    dialog.out.setText(str(out))
    return dialog


@pytest.mark.slow
def test_the_errors_come_in_and_the_result_can_be_opened(of_llama, qtbot, tmp_path, monkeypatch):
    dialog, out, said = of_llama, tmp_path / "out", []
    assert dialog._curves.isHidden()

    def say(text, *, warning):
        said.append((text, dialog.plot.view.viewRange()[0]))
        Message.say(dialog.message, text, warning=warning)

    monkeypatch.setattr(dialog.message, "say", say)
    dialog.spread.setValue(20)
    with qtbot.waitSignal(dialog.ended, timeout=100_000):
        dialog.run.click()
    _, (begun, _), (first, _), (second, (low, high)) = said[:4]
    assert begun == "Block 1 of 3"
    assert first == "Block 1 of 3: model.layers.0.self_attn.q_proj.weight"
    assert second.startswith("Block 1 of 3: model.layers.0.self_attn.k_proj")
    assert -1 < low < 0 < 2 < high < 3  # all blocks, from the first error on
    assert dialog.message.text().startswith("Saved out. Largest error: model.layers.")
    assert [curve.label for curve in dialog.plot.curves][:3] == ["block", "q", "k"]
    assert [curve.sparsity.tolist() for curve in dialog.plot.curves[:2]] == [[0, 1, 2]] * 2
    assert dialog.grid.painter is not None
    with qtbot.waitSignal(dialog.open_wanted) as wanted:
        dialog.show_result.click()
    assert wanted.args == [out]
    with qtbot.waitSignal(dialog.compare_wanted) as wanted:
        dialog.compare_result.click()
    assert wanted.args == [out]
    with open_checkpoint(out) as pruned:
        names = [one for one in pruned.tensors if fnmatch(one, "model.layers.0.*_proj.weight")]
        shares = {name: float((pruned.read(name) == 0).float().mean()) for name in names}
        sizes = [pruned.tensors[name].numel for name in names]
    assert np.average([*shares.values()], weights=sizes) == pytest.approx(0.5, abs=1e-3)
    assert 0.29 < min(shares.values()) < 0.4 < 0.6 < max(shares.values()) < 0.71


@pytest.mark.slow
def test_a_stopped_run_says_how_to_go_on(of_llama, window, qtbot, tmp_path, monkeypatch):
    def has_block():
        assert of_llama._blocks

    asked = []
    monkeypatch.setattr(questions, "ask_cancel_saving", lambda _: asked.append(1))  # to go on
    of_llama.tuning.setValue(20)  # so that it is not over before it is cancelled
    of_llama.run.click()
    qtbot.waitUntil(has_block, timeout=60_000)
    assert not window.close()
    assert asked
    assert of_llama.running
    of_llama.cancel.click()
    assert of_llama.message.text().startswith("Stopped after")
    with qtbot.waitSignal(of_llama.ended, timeout=60_000):
        of_llama.run.click()
    assert (tmp_path / "out").is_dir()
