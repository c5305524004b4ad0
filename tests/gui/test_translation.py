"""Every text in a window comes from the catalogue, but for names and numbers."""

from __future__ import annotations

import calendar
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from gettext import NullTranslations
from pathlib import Path

import pytest
import translate
from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractListModel,
    QModelIndex,
    QObject,
    Qt,
    QTranslator,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QDockWidget,
    QFileDialog,
    QGraphicsTextItem,
    QGraphicsView,
    QLabel,
    QLineEdit,
    QMessageBox,
    QTabWidget,
)

from prune_gui import language
from prune_gui.errors import PruneGuiError
from prune_gui.gui import dialogs, recovery, save_dialog
from prune_gui.gui.batch_dialog import BatchDialog
from prune_gui.gui.fit_dialog import FitDialog
from prune_gui.gui.log_feed import Entry
from prune_gui.gui.panels import wording
from prune_gui.gui.panels.draft_panel import DraftPanel
from prune_gui.gui.panels.history_panel import HistoryPanel
from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.panels.stack_panel import StackPanel
from prune_gui.gui.panels.tree_panel import TreePanel
from prune_gui.gui.save_dialog import SaveDialog
from prune_gui.gui.sweep_dialog import SweepDialog
from prune_gui.gui.views import ViewTabs
from prune_gui.recipe import Recipe, loader_path
from prune_gui.session import Crash
from prune_gui.session.journal import Unsaved
from prune_gui.session.presets import shipped
from prune_gui.worker import Event, Started

LEFT_OUT: tuple[type[QObject], ...] = (
    TreePanel,
    DraftPanel,
    StackPanel,
    HistoryPanel,
    LogPanel,
    ViewTabs,
)
"""What is not looked into."""
UNSEEN = {
    *("objectName", "styleSheet", "windowIconText", "windowRole", "windowFilePath"),
    *("html", "markdown", "plainText"),
}
"""Properties that no person reads, or that are documents, code and what else is typed."""
TYPED: dict[type[QObject], set[str]] = {
    QLineEdit: {"text", "displayText", "selectedText"},
    QMessageBox: {"detailedText"},
}
"""Further ones, of these: what somebody typed, and the log."""
NAMES = ("Prune GUI", *calendar.month_name[1:])
"""What is the same in every language, and what a language writes as it likes."""
UNITS = re.compile(r"(?<=\d )(?:[kMGT]|[kMGTP]?B)\b|^ MB$")
KEYS = re.compile(
    r"\s*\(?(?:(?:Ctrl|Shift|Alt)\+)*(?:[A-Z,]|F\d+|Esc|Del|Return|Up|Down|PgUp|PgDown)\)?"
)
MARKED = re.compile("⟦[^⟦⟧]*⟧")
TAG = re.compile(r"</?[a-z][^<>]*>")
LETTER = re.compile(r"[^\W\d_]")
ROLES = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.AccessibleTextRole,
)


def marked(message: str) -> str:
    """Return a message between brackets, with whatever fills it in outside of them."""
    return "⟦" + re.sub(r"{[^{}]*}", r"⟧\g<0>⟦", message) + "⟧"


class Catalogue(NullTranslations):
    """A language in which every message is itself, marked."""

    def gettext(self, message: str) -> str:
        return marked(message)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return marked(one if count == 1 else many)


class QtCatalogue(QTranslator):
    """The same for Qt's own texts; those of keys stay as they are."""

    def isEmpty(self) -> bool:  # noqa: N802 - as Qt has it
        return False

    def translate(self, context, text, disambiguation=None, n=-1) -> str:
        return text if context == "QShortcut" else f"⟦{text}⟧"


@pytest.fixture(autouse=True)
def _another_language(monkeypatch, qapp) -> Iterator[None]:
    monkeypatch.setattr(language, "_messages", Catalogue())
    translator = QtCatalogue()
    qapp.installTranslator(translator)
    yield
    qapp.removeTranslator(translator)


def untranslated(
    root: QObject, names: Sequence[str] = (), left_out: tuple[type[QObject], ...] = LEFT_OUT
) -> set[str]:
    """Return the texts in and below an object that do not come from a catalogue.

    Args:
        root: a window.
        names: of parameters, files and the like, which may be in a text.
        left_out: widgets that are not looked into.
    """
    found = {text for thing in walk(root, left_out) for text in texts(thing)}
    return {text for text in found if LETTER.search(rest(text, names))}


def rest(text: str, names: Sequence[str]) -> str:
    """Return what is left of a text without what is translated, and what need not be."""
    text = TAG.sub("", text)
    while (shorter := MARKED.sub(" ", text)) != text:
        text = shorter
    for name in sorted((*NAMES, *names), key=len, reverse=True):
        text = text.replace(name, "")
    return "" if KEYS.fullmatch(text) else UNITS.sub("", text)


def walk(thing: QObject, left_out: tuple[type[QObject], ...]) -> Iterator[QObject]:
    if not isinstance(thing, left_out):
        yield thing
        for child in thing.children():
            yield from walk(child, left_out)


def texts(thing: QObject) -> Iterator[str]:
    """Yield every text of an object, whether it can be seen now or not."""
    unseen = UNSEEN.union(*(names for kind, names in TYPED.items() if isinstance(thing, kind)))
    described = thing.metaObject()
    for index in range(described.propertyCount()):
        known = described.property(index)
        if known.typeName() == "QString" and known.name() not in unseen:
            yield known.read(thing)
    if isinstance(thing, QAbstractItemView | QComboBox) and thing.model() is not None:
        yield from texts_of_model(thing.model())
    elif isinstance(thing, QTabWidget):
        for index in range(thing.count()):
            yield from (thing.tabText(index), thing.tabToolTip(index))
    elif isinstance(thing, QGraphicsView) and thing.scene() is not None:
        items = thing.scene().items()
        yield from (item.toPlainText() for item in items if isinstance(item, QGraphicsTextItem))


def texts_of_model(model: QAbstractItemModel, parent: QModelIndex | None = None) -> Iterator[str]:
    parent = parent or QModelIndex()
    rows = model.rowCount(parent)
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)
    heads = [
        model.headerData(section, way, role)
        for way, count in ((Qt.Orientation.Horizontal, columns), (Qt.Orientation.Vertical, rows))
        for section in range(count)
        for role in ROLES
    ]
    places = [model.index(row, column, parent) for row in range(rows) for column in range(columns)]
    cells = [place.data(role) for place in places for role in ROLES]
    yield from (text for text in (*heads, *cells) if isinstance(text, str))
    for place in places:
        if model.rowCount(place):
            yield from texts_of_model(model, place)


@pytest.fixture
def names(demo_window, workbench, make_step, settle) -> list[str]:
    """Add two steps; return names that texts hold, and words of the other layers, as they come."""
    assert workbench.session is not None
    path = workbench.session.checkpoint.path.absolute()
    folder = path.parent
    tensors = workbench.session.checkpoint.tensors
    known = [*tensors, *{info.dtype for info in tensors.values()}]
    known += [str(path), path.name, str(folder), f"{folder.name}/{path.name}"]

    def note_edit() -> None:
        session = workbench.session
        known.extend(wording.title(step) for step in session.steps)
        known.extend(pattern for step in session.steps for pattern in step.targets)
        known.extend(moment.label for moment in session.history.moments[1:])

    def note_job(event: Event) -> None:
        if isinstance(event, Started):
            known.append(event.job.title)

    known.extend(glob for preset in shipped() for step in preset.steps for glob in step.targets)
    workbench.edited.connect(note_edit)
    workbench.bridge.happened.connect(note_job)
    for targets in (("*.conv*.weight",), ("*hidden.weight", "*.none.weight")):
        workbench.edit(lambda s, targets=targets: s.add(make_step("l1_unstructured", *targets)))
    settle()
    return known


@pytest.fixture
def boxes(monkeypatch) -> list[set[str]]:
    """Have no message box and no file dialog shown; return what would be untranslated in each."""
    shown: list[set[str]] = []
    names = ("/tmp/a.pt", "a.pt", "b.pt", "/tmp", *dialogs._versions())

    def look(box: QMessageBox) -> int:
        shown.append(untranslated(box, names))
        return QMessageBox.StandardButton.Cancel.value

    def ask(_parent, title, _folder, *kinds, **_options):
        shown.append({text for text in (title, *kinds) if LETTER.search(rest(text, names))})
        return ([] if "Add" in title else ""), ""

    def save(dialog: QFileDialog) -> int:
        ask(None, dialog.windowTitle(), "", *dialog.nameFilters())
        return 0

    monkeypatch.setattr(QMessageBox, "exec", look)
    for name in ("getOpenFileName", "getOpenFileNames", "getSaveFileName"):
        monkeypatch.setattr(QFileDialog, name, ask)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *said: ask(*said)[1])
    monkeypatch.setattr(QFileDialog, "exec", save)
    return shown


def test_a_word_that_is_not_translated_is_found(qtbot):
    label = QLabel(language.tr("Saved {path}", path="in vain"))
    label.setToolTip("Plain")
    label.setAccessibleName(language.tr("Saved {path}", path="a.pt"))
    assert untranslated(label, ["a.pt"]) == {label.text(), "Plain"}
    label.deleteLater()


def test_the_window_before_anything_is_open(window):
    window.commands.preferences.remember(Path("/models/a.pt"))
    window._refresh()
    assert untranslated(window, ["a.pt", "/models"]) == set()


def test_the_window_with_the_demo(demo_window, workbench, names):
    seen = untranslated(demo_window, names)
    workbench.show_before(on=True)
    for undone in (True, False):
        workbench.edit(lambda session, back=undone: session.undo() if back else session.redo())
        seen |= untranslated(demo_window, names)
    assert seen == set()


def test_what_the_window_says_once_something_is_done(demo_window, workbench, names, qtbot):
    seen = set()
    for act in ("copy_recipe", "copy_command", "copy_script"):
        with qtbot.waitSignal(workbench.copied, timeout=60_000):
            demo_window.acts[act].trigger()
        seen |= untranslated(demo_window.status, names)
    workbench.saved.emit(Path("/models/a.pt"))
    seen |= untranslated(demo_window.status, ["/models/a.pt", *names])
    workbench.failed.emit(language.tr("Opening the recipe"), PruneGuiError("⟦No.⟧"))
    workbench.failed.emit(language.tr("Opening the recipe"), ZeroDivisionError())
    (box,) = demo_window.findChildren(QMessageBox)
    seen |= untranslated(box, ["prune-gui.log"])
    box.close()
    assert seen == set()


@pytest.mark.parametrize("act", ["palette", "shortcuts", "guide", "settings", "sweep", "batch"])
def test_what_an_action_opens(demo_window, names, act):
    before = set(demo_window.children())
    demo_window.acts[act].trigger()
    (opened,) = set(demo_window.children()) - before
    own = [*names, *language.LANGUAGES.values()]
    assert untranslated(opened, own) == set()
    opened.close()


def test_the_results_of_a_sweep(demo_window, workbench, names, qtbot):
    demo_window.acts["sweep"].trigger()
    dialog = demo_window.findChild(SweepDialog)
    dialog.amounts.setText("10%, 99.999%, 3")
    dialog.run.click()
    seen = untranslated(dialog, names)
    with qtbot.waitSignal(dialog._series.ended, timeout=60_000):
        pass
    assert len(dialog.model.rows) == 3
    seen |= untranslated(dialog, names)
    dialog.results.activated.emit(dialog.model.index(0, 0))
    seen |= untranslated(dialog, names)
    workbench.edit(lambda session: session.remove(0))
    dialog.results.activated.emit(dialog.model.index(0, 0))
    seen |= untranslated(dialog, names)
    workbench.edit(lambda session: session.remove(0))
    assert seen | untranslated(dialog, names) == set()
    dialog.close()


def test_the_results_of_a_batch(demo_window, workbench, names, qtbot, tmp_path):
    demo_window.acts["batch"].trigger()
    dialog = demo_window.findChild(BatchDialog)
    dialog.write.setChecked(True)
    dialog.add([workbench.session.checkpoint.path])
    seen = untranslated(dialog, names)
    dialog.folder.setText(str(tmp_path))
    dialog.run.click()
    seen |= untranslated(dialog, names)
    with qtbot.waitSignal(dialog._series.ended, timeout=60_000):
        pass
    (row,) = dialog.model.rows
    own = [*names, *row.unmatched, *([row.out.name] if row.out else [row.error])]
    assert seen | untranslated(dialog, own) == set()
    dialog.close()


@pytest.mark.parametrize("form", save_dialog.FORMS)
def test_the_dialog_that_saves(demo_window, workbench, names, qtbot, tmp_path, form):
    path = tmp_path / "pruned.safetensors"
    dialog = SaveDialog(workbench, path, form, demo_window)
    dialog.show()
    own = [*names, str(tmp_path), loader_path(dialog._target).name]
    seen = untranslated(dialog, own)
    qtbot.waitUntil(lambda: bool(dialog._sizes), timeout=60_000)
    seen |= untranslated(dialog, own)
    dialog._path.clear()
    assert seen | untranslated(dialog, own) == set()
    dialog.close()
    dialog.deleteLater()


def test_how_a_recipe_fits_another_checkpoint(demo_window, workbench, names, make_step):
    steps = (*workbench.session.steps, *(make_step("l1_unstructured", "none") for _ in range(3)))
    for recipe in (Recipe(steps=steps), Recipe(steps=steps[:1]), Recipe()):
        dialog = FitDialog(recipe, workbench.session.checkpoint, demo_window)
        assert untranslated(dialog, [*names, "none"]) == set()
        dialog.deleteLater()


def test_the_notice_of_a_change_on_disk(window, open_file, demo_checkpoint, tmp_path):
    path = tmp_path / "model.safetensors"
    shutil.copyfile(demo_checkpoint, path)
    open_file(path)
    os.utime(path, ns=(0, 0))
    window.reload_notice._look()
    assert window.reload_notice.text
    assert untranslated(window.reload_notice, [path.name]) == set()


def test_a_layout_that_was_kept_fits_in_another_language(window):
    names = {dock.objectName() for dock in window.findChildren(QDockWidget)}
    assert names == {"Modules", "Pruning", "History", "Log"}


def test_the_questions_and_the_remarks(window, boxes):
    folder, file = Path("/tmp"), Path("/tmp/a.pt")
    dialogs.ask_checkpoint(window, folder)
    dialogs.ask_checkpoints(window, folder)
    dialogs.ask_folder(window, folder)
    dialogs.ask_recipe(window, folder)
    dialogs.ask_methods(window, folder)
    dialogs.ask_recipe_target(window, file)
    dialogs.ask_table_target(window, file)
    dialogs.ask_picture_target(window, file)
    dialogs.agree_to_run(window, file)
    dialogs.ask_unsaved(window, "a.pt")
    dialogs.ask_cancel_saving(window)
    dialogs.show_about(window)
    dialogs.show_crash(window, Crash("Where.", datetime(2026, 11, 21, 18, 5)))
    save_dialog._sure_to_replace(window, [file])
    save_dialog._sure_to_replace(window, [file, Path("/tmp/b.pt")])
    unsaved = Unsaved(checkpoint=file, recipe="", folder=folder, written=0.0, process=(1, 0.0))
    recovery._ask(window, unsaved)
    assert boxes == [set()] * 16


def test_a_level_of_the_log_is_a_word_of_the_language():
    assert Entry.of_error("Opening", PruneGuiError("No.")).level_name == "⟦Warning⟧"
    assert Entry.of_error("Opening", ZeroDivisionError()).level_name == "⟦Error⟧"


@pytest.mark.parametrize("code", [code for code in language.LANGUAGES if code != language.SOURCE])
def test_a_kind_of_files_has_the_same_patterns_in_every_language(code):
    kinds = 0
    for message in translate.read(translate.TRANSLATIONS / f"{code}.po"):
        if isinstance(message.id, str) and "(*" in message.id:
            kinds += 1
            patterns = re.compile(r" (\(\*[^()]*\))(?:;;|$)")
            assert patterns.findall(message.string) == patterns.findall(message.id) != []
    assert kinds
