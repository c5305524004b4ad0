"""Remote checkpoints in the window: opening a URL, the limit of what is fetched."""

from __future__ import annotations

import pytest
import torch
from file_server import serving
from pages import is_idle
from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QMessageBox
from safetensors.torch import save_file
from waiting import change

from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES
from prune_gui.gui.remote_files import LocationDialog
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.views.maps.map_view import BACKGROUND_DELAY_MS
from prune_gui.location import Location

ROWS = 2000


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Return a server of two parameters of 8 MB each, and one of 16 MB."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "served"
    folder.mkdir()
    tensors = {name: torch.randn(ROWS, 1000) for name in ("a.weight", "b.weight")}
    tensors["c.weight"] = torch.randn(2 * ROWS, 1000)
    save_file(tensors, folder / "model.safetensors")
    with serving(folder) as server:
        yield server


def open_url(window, url, answer):
    """Open a URL as a user does."""

    def fill(dialog):
        dialog.url.setText(url)
        assert dialog.open_button.isEnabled()
        dialog.accept()

    answer(LocationDialog, fill)
    window.menu_actions["open_location"].trigger()


@pytest.fixture
def answer(qtbot, monkeypatch):
    """Return a function that answers the dialogs of a class."""

    def answer_all(kind, act):
        def run(dialog):
            act(dialog)
            return dialog.result()

        monkeypatch.setattr(kind, "exec", run)

    return answer_all


@pytest.fixture
def remote(window, workbench, qtbot, settle, server, answer):
    """Return a window with the remote checkpoint."""
    with change(qtbot, workbench, "file"):
        open_url(window, f"{server.url}/model.safetensors", answer)
    settle()
    return window


def click(text, clicked):
    """Return an answer to a message box: its button with this text."""

    def act(box):
        button = next(
            each for each in box.buttons() if without_mnemonics(each.text()).startswith(text)
        )
        clicked.append((box.text(), without_mnemonics(button.text())))
        button.click()

    return act


def test_the_title_and_the_recent_files_have_the_url(remote, server):
    assert server.url in remote.windowTitle()
    remote._recent.aboutToShow.emit()
    assert f"{server.url}/model.safetensors" in remote._recent.actions()[0].text()
    assert remote.commands.folder == remote.commands.folder.home()


def test_opening_fetches_no_parameter_but_the_chosen_one(remote, server, workbench, qtbot):
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=20_000)
    assert server.fetched() <= 9_000_000


def test_a_step_beyond_the_limit_is_applied_after_the_user_agrees(
    remote, server, workbench, qtbot, settle, answer, make_step
):
    remote.commands.preferences.change("fetch_limit", 10)
    clicked = []
    answer(QMessageBox, click("Fetch", clicked))
    with change(qtbot, workbench, "file"):
        workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*")))
    settle()
    assert "would be fetched" in clicked[0][0]
    assert f"{server.url}/model.safetensors" in clicked[0][0]
    assert workbench.resolved.error is None
    assert workbench.resolved.resolution.total == (4_000_000, 8_000_000)


def test_nothing_is_fetched_if_the_user_declines(
    remote, server, workbench, qtbot, answer, make_step
):
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=20_000)
    remote.commands.preferences.change("fetch_limit", 1)
    fetched, clicked = server.fetched(), []
    answer(QMessageBox, click("Cancel", clicked))
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*")))
    qtbot.waitUntil(lambda: bool(clicked), timeout=20_000)
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=20_000)
    assert server.fetched() == fetched


def test_saving_asks_before_it_fetches_and_then_goes_on(
    remote, server, workbench, qtbot, answer, tmp_path
):
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=20_000)
    remote.commands.preferences.change("fetch_limit", 1)
    clicked, saved = [], []
    answer(QMessageBox, click("Fetch", clicked))

    def fill(dialog):
        dialog._path.setText(str(tmp_path / "saved.safetensors"))
        dialog.accept()

    answer(SaveDialog, fill)
    workbench.files.saved.connect(saved.append)
    remote.commands.save_checkpoint()
    qtbot.waitUntil(lambda: bool(saved), timeout=20_000)
    assert len(clicked) == 1
    assert saved == [tmp_path / "saved.safetensors"]
    assert workbench.session.checkpoint.is_fetched


def test_all_is_fetched_on_demand_and_then_zeros_are_counted(
    remote, server, workbench, qtbot, settle, answer
):
    assert not workbench.session.file_zeros.is_complete
    clicked = []
    answer(QMessageBox, click("Fetch", clicked))
    with change(qtbot, workbench, "file"):
        remote.menu_actions["fetch_all"].trigger()
    settle()
    qtbot.waitUntil(lambda: workbench.session.file_zeros.is_complete, timeout=20_000)
    assert workbench.session.checkpoint.is_fetched


def test_zoomed_in_views_fetch_what_they_show(remote, server, workbench, qtbot, monkeypatch):
    monkeypatch.setattr("prune_gui.gui.views.weights.data.UNASKED_FETCH_BYTES", 4_000_000)
    mask, weights = (remote.views.view(name) for name in ("mask", "weights"))

    def show(view, first_row=None):
        remote.views.bring_forward(view.lane)
        if first_row is not None:
            view.canvas.setRange(QRectF(100, first_row, 20, 20), padding=0)
        qtbot.wait(BACKGROUND_DELAY_MS + 50)
        qtbot.waitUntil(lambda: is_idle(workbench), timeout=20_000)
        assert view._pipeline.is_current

    workbench.choose("a.weight")
    show(mask)
    show(mask, 1900)
    assert server.fetched() <= 3 * BLOCK_BYTES
    show(weights)
    assert not weights._pipeline.shown.tile_grid.is_whole
    before = server.fetched()
    assert before <= 6_000_000
    show(weights, 700)
    assert 0 < server.fetched() - before <= 256 * 1000 * 4 + 2 * BLOCK_BYTES
    weights.canvas.fit()
    qtbot.waitUntil(lambda: weights._pipeline.shown.tile_grid.is_whole, timeout=20_000)
    assert workbench.session.checkpoint.missing_nbytes(["a.weight"]) == 0


def test_only_urls_can_be_opened(qtbot):
    dialog = LocationDialog()
    qtbot.addWidget(dialog)
    for text, problem in (
        ("", ""),
        ("/home/me/model.pt", "A URL begins as in the examples."),
        ("https://me:secret@host/a", "carries a password or a signature"),
    ):
        dialog.url.setText(text)
        assert problem in dialog.problem.text()
        assert not dialog.open_button.isEnabled()
        assert dialog.path is None
    dialog.url.setText(" hf://owner/name ")
    assert dialog.open_button.isEnabled()
    assert dialog.path == Location.of("hf://owner/name").path
