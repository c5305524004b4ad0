"""Hostile names from files are shown without markup, forged lines or invisible characters."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
import scenes
import torch
from pages import is_idle
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import (
    QApplication,
    QCommandLinkButton,
    QDialog,
    QLabel,
    QMessageBox,
    QToolTip,
    QWidget,
)
from safetensors.torch import save_file
from shown import texts_in

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import BLANKS
from prune_gui.gui.dialogs import questions
from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog
from prune_gui.gui.figures.figure import Figure, Sheet
from prune_gui.gui.views.legend_text import unbroken
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.registry import VIEWS
from prune_gui.recipe import Recipe
from prune_gui.session.settings import FigureSettings

ROW = torch.tensor([0])
COMBINING_MARKS = "\N{COMBINING ACUTE ACCENT}" * 50
HOSTILE = (
    "<b>bold</b>",
    "<img src=file:///tmp/evil.png>",
    "<a href='http://evil'>link</a>",
    "a\nFORGED",
    "\x1b[31mred",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066isolate",
    "&amp",
    "%s {name} {0}",
    "\u3164",
    "[*]",
    f"e{COMBINING_MARKS}",
)


@pytest.fixture
def hostile_file(tmp_path):
    """A checkpoint with hostile names of tensors, modules and metadata."""
    names = [f"{outer}.{inner}.weight" for outer, inner in pairwise(HOSTILE)]
    path = tmp_path / "<b>[*]\n\u202e&x.safetensors"
    # One row is zero, so that the views show a warning.
    tensors = {name: torch.randn(6, 8).index_fill(0, ROW, 0.0) for name in (*names, *HOSTILE)}
    save_file(tensors, path, metadata={name: name for name in HOSTILE})
    return path


def is_unsafe(text: str) -> bool:
    """Return whether a text has unprintable characters, or a line forged by a name."""
    visible = text.translate(dict.fromkeys(map(ord, f"{BLANKS}\N{WORD JOINER}\n")))
    return not visible.isprintable() or any(
        mark in text for mark in ("\u3164", "\nFORGED", COMBINING_MARKS)
    )


def unsafe_in(root: QWidget) -> set[str]:
    """Return the texts in and below a widget that contain an unescaped name."""
    return {text for text in texts_in(root) if is_unsafe(text)}


def _is_plain(label: QLabel) -> bool:
    return label.textFormat() == Qt.TextFormat.PlainText


def rich_in(root: QWidget) -> list[str]:
    """Return the rich texts of labels below a widget that contain a name as markup."""
    labels = root.findChildren(QLabel)
    for label in labels:
        label.ensurePolished()
    assert all(label.textFormat() != Qt.TextFormat.AutoText for label in labels)
    own_markup = ("<span", "&nbsp;", "<br>")
    assert not any(
        mark in label.text() for label in labels for mark in own_markup if _is_plain(label)
    )
    rich = [label.text() for label in labels if label.textFormat() == Qt.TextFormat.RichText]
    return [text for text in rich if any(tag in text for tag in HOSTILE[:3])]


@pytest.mark.slow
def test_every_view_shows_names_as_plain_text(
    window, open_file, hostile_file, workbench, make_step, settle, qtbot
):
    open_file(hostile_file)
    for name in (*HOSTILE[:3], "a\nFORGED", "\x1b*", "!\u202e*"):
        workbench.edit(lambda session, name=name: session.add(make_step("identity", "*", name)))
    workbench.edit(lambda session: session.name_state("<b>bold</b>\nFORGED"))
    settle()
    window.tree.tree.expandAll()
    names = list(workbench.session.checkpoint.tensors)
    unsafe, rich = unsafe_in(window), rich_in(window)
    for index in range(len(VIEWS)):
        window.views._tabs.setCurrentIndex(index)
        workbench.choose(names[index])
        QApplication.processEvents()
        qtbot.waitUntil(lambda: is_idle(workbench), timeout=60_000)
        unsafe |= unsafe_in(window)
        rich += rich_in(window)
    window.menu_actions["batch"].trigger()
    window.menu_actions["sweep"].trigger()
    for dialog in window.findChildren(QDialog):
        unsafe |= unsafe_in(dialog)
        dialog.close()
    assert unsafe == set()
    assert rich == []
    assert window.windowTitle().startswith(r"<b>[*][*]\n\u202e&x.safetensors[*] ")


def test_menus_and_buttons_show_names_literally(window, open_file, hostile_file):
    open_file(hostile_file)
    window._recent.aboutToShow.emit()
    (action,) = window._recent.actions()
    assert action.text().endswith(r"<b>[*]\n\u202e&&x.safetensors")
    window._welcome.show_recent([str(hostile_file)])
    button = window._welcome.findChildren(QCommandLinkButton)[-1]
    assert button.text() == r"<b>[*]\n\u202e&&x.safetensors"


def test_message_boxes_show_names_as_plain_text(window, monkeypatch, hostile_file):
    shown = []

    def look(box: QMessageBox) -> None:
        box.ensurePolished()
        shown.append((unsafe_in(box), rich_in(box)))

    monkeypatch.setattr(QMessageBox, "exec", scenes.answer(look))
    scenes.ask_all(window, hostile_file)
    questions.show_remarks(window, hostile_file.name, HOSTILE)
    assert shown == [(set(), [])] * 10


def test_a_recipe_is_compared_with_a_file_of_any_name(window, hostile_file, make_step):
    recipe = Recipe(steps=(make_step("identity", *HOSTILE[:-2], "nothing\nFORGED"),))
    with open_checkpoint(hostile_file) as checkpoint:
        dialog = RecipeMatchDialog(recipe, checkpoint, window)
    assert unsafe_in(dialog) == set()
    dialog.deleteLater()


def test_a_tool_tip_is_plain_text(window, qtbot):
    QToolTip.showText(QPoint(5, 5), "<b>bold</b>", window)

    def formats() -> list[Qt.TextFormat]:
        widgets = QApplication.topLevelWidgets()
        return [tip.textFormat() for tip in widgets if tip.inherits("QTipLabel")]

    assert formats() == [Qt.TextFormat.PlainText]
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not formats())


def test_the_label_of_an_axis_is_plain_text(window):
    plot = Plot()
    plot.label("left", "<b>bold</b> & more")
    assert plot.plotItem.getAxis("left").label.toPlainText().strip() == "<b>bold</b> & more"
    plot.close()
    plot.deleteLater()


def test_an_entry_of_a_legend_has_no_markup():
    assert unbroken("<b>a\n\u202e") == r"&lt;b&gt;a\n\u202e"


def test_an_svg_contains_names_as_text(window):
    figure = Figure([], "\n".join(HOSTILE), FigureSettings(format="svg"))
    root = ET.fromstring(Sheet(figure, "svg").finish().content())
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text.startswith(r"<b>bold</b>\n<img src=")
    assert not is_unsafe(Sheet(figure, "png", 1).finish().image.text("Title"))
