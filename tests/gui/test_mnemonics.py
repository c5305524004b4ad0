"""In every language, mnemonics are unique within a menu, within a dialog, and within the window."""

from __future__ import annotations

from collections import Counter

import pytest
import scenes
from pages import choose, is_idle
from PySide6.QtCore import QTranslator
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QMenu,
    QMessageBox,
    QTabWidget,
    QWidget,
)

from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog
from prune_gui.gui.runtime.locale import set_language
from prune_gui.gui.saving import save_dialog as save_dialog
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.language import LANGUAGES, SOURCE, use_language
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe


@pytest.fixture(params=LANGUAGES, autouse=True)
def language(request, qapp):
    """Set each language of the program, for Qt too."""
    before = qapp.findChildren(QTranslator)
    set_language(qapp, request.param)
    yield
    for translator in set(qapp.findChildren(QTranslator)).difference(before):
        qapp.removeTranslator(translator)
        translator.deleteLater()
    use_language(SOURCE)


def duplicate_mnemonics(texts) -> list[str]:
    """Return the mnemonics that several texts have."""
    keys = Counter(QKeySequence.mnemonic(text).toString() for text in texts)
    del keys[""]
    assert keys, "no text has a key"
    return [key for key, times in keys.items() if times > 1]


def texts_of(widget: QWidget) -> list[str]:
    """Return the visible texts in a widget that can have a mnemonic."""
    labels = [label for label in widget.findChildren(QLabel) if label.buddy()]
    shown = [*labels, *widget.findChildren(QAbstractButton)]
    return [each.text() for each in shown if each.isVisibleTo(widget)]


def test_mnemonics_are_unique_in_a_menu(demo_window):
    menus = [action.menu() for action in demo_window.menuBar().actions()]
    action_lists = [menu.actions() for menu in menus]
    action_lists += [demo_window.stack.list.actions(), demo_window.views.view("mask").actions()]
    demo_window.tree.tree.selectAll()
    menu = QMenu(demo_window)
    demo_window.tree._offer_selected(menu, demo_window.tree.tree.selection.rows())
    action_lists.append([*menu.actions(), *demo_window.tree.tree.actions()])
    duplicates = [
        duplicate_mnemonics(action.text() for action in actions) for actions in action_lists
    ]
    assert duplicates == [[]] * 8


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_mnemonics_are_unique_in_the_window(demo_window, workbench, settle, qtbot, method):
    settle()
    draft = demo_window.draft
    choose(draft.method, method)
    tabs = demo_window.views.findChild(QTabWidget)
    always = [action.text() for action in demo_window.menuBar().actions()]
    always += [tabs.tabText(index) for index in range(tabs.count())]
    duplicates = {}
    for index in range(tabs.count()):
        tabs.setCurrentIndex(index)
        QApplication.processEvents()  # shows new widgets
        qtbot.waitUntil(lambda: is_idle(workbench), timeout=60_000)
        duplicates[tabs.tabText(index)] = duplicate_mnemonics([*always, *texts_of(demo_window)])
    assert not any(duplicates.values()), duplicates


@pytest.mark.parametrize("act", scenes.DIALOGS)
def test_mnemonics_are_unique_in_what_an_action_opens(demo_window, act):
    with scenes.opened(demo_window, act) as dialog:
        assert duplicate_mnemonics(texts_of(dialog)) == []


@pytest.mark.parametrize("form", save_dialog.FORMS)
def test_mnemonics_are_unique_in_the_save_dialog(demo_window, workbench, tmp_path, form):
    dialog = SaveDialog(workbench, tmp_path / "pruned.safetensors", form, demo_window)
    assert duplicate_mnemonics(texts_of(dialog)) == []
    dialog.deleteLater()


def test_mnemonics_are_unique_in_the_recipe_match_dialog(demo_window, workbench):
    dialog = RecipeMatchDialog(Recipe(), workbench.session.checkpoint, demo_window)
    assert duplicate_mnemonics(texts_of(dialog)) == []
    dialog.deleteLater()


def test_mnemonics_are_unique_in_a_question(window, monkeypatch, tmp_path):
    asked = []
    look = scenes.answer(lambda box: asked.append(texts_of(box)))
    monkeypatch.setattr(QMessageBox, "exec", look)
    scenes.ask_all(window, tmp_path)
    with_keys = [texts for texts in asked if any("&" in text for text in texts)]
    assert len(with_keys) > 5
    assert not any(map(duplicate_mnemonics, with_keys))
