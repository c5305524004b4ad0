import csv
import threading

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices

from prune_gui.gui.dialogs.report import ReportDialog
from prune_gui.report import collecting


@pytest.fixture
def dialog(demo_window, workbench, make_step, tmp_path):
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    demo_window.menu_actions["report"].trigger()
    dialog = demo_window.findChild(ReportDialog)
    dialog.path.setText(str(tmp_path / "report.html"))
    return dialog


def write(dialog, qtbot):
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        qtbot.mouseClick(dialog.run, Qt.MouseButton.LeftButton)


def test_the_report_has_the_steps_of_the_stack_and_opens(
    dialog, qtbot, workbench, tmp_path, monkeypatch
):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: not opened.append(url))
    assert not dialog.open_button.isEnabled()
    dialog.table.click()
    write(dialog, qtbot)
    page = (tmp_path / "report.html").read_text()
    assert "L1 unstructured" in page
    assert str(workbench.session.checkpoint.path.parent) not in page
    with (tmp_path / "report.csv").open(newline="") as table:
        zeros = {row["Name"]: int(row["Zeros by step 1"]) for row in csv.DictReader(table)}
    assert sum(zeros.values()) == workbench.resolved.resolution.total[0]
    qtbot.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    assert [url.toLocalFile() for url in opened] == [str(tmp_path / "report.html")]


def test_a_name_without_a_folder_is_in_the_suggested_one(dialog, qtbot, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    dialog._folder = folder
    dialog.path.setText("mine.html")
    write(dialog, qtbot)
    assert [path.name for path in folder.iterdir()] == ["mine.html"]


def test_folders_are_named_if_asked_for(dialog, qtbot, workbench, tmp_path):
    dialog.folders.click()
    write(dialog, qtbot)
    assert str(workbench.session.checkpoint.path.parent) in (tmp_path / "report.html").read_text()


def test_an_existing_file_is_replaced_only_if_asked_for(dialog, qtbot, tmp_path):
    (tmp_path / "report.html").write_text("old")
    write(dialog, qtbot)
    assert "already exists" in dialog.note.text()
    assert (tmp_path / "report.html").read_text() == "old"
    assert not dialog.open_button.isEnabled()
    dialog.overwrite.click()
    write(dialog, qtbot)
    assert (tmp_path / "report.html").read_text() != "old"


def test_without_a_file_name_nothing_can_be_written(dialog):
    dialog.path.clear()
    assert not dialog.run.isEnabled()


def test_a_report_can_be_cancelled_in_the_status_bar(dialog, qtbot, demo_window, monkeypatch):
    began = threading.Event()

    def wait(_resolution, _reference, monitor, **_options):
        while True:
            began.set()
            monitor.advance()

    monkeypatch.setattr(collecting, "report_on_stack", wait)
    dialog.run.click()
    qtbot.waitUntil(began.is_set, timeout=60_000)
    status = demo_window.status
    qtbot.waitUntil(lambda: status.busy and status._shown.job.long, timeout=60_000)
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        demo_window.status.cancel()
    assert dialog.note.text() == "Cancelled; nothing was changed."
    assert dialog.run.isEnabled()
    assert not dialog.open_button.isEnabled()


def test_closing_the_dialog_cancels_the_report(dialog, qtbot, workbench, tmp_path):
    dialog.run.click()
    dialog.close()
    with qtbot.waitSignal(workbench.bridge.happened, timeout=60_000):
        workbench.bridge.run_job("last", lambda _: None, lambda _: None)
    assert list(tmp_path.iterdir()) == []
