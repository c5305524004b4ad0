"""Names from files that are no plain text: nothing of them is rich text, forged or unseen."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QGraphicsTextItem, QGraphicsView, QLabel, QToolTip
from safetensors.torch import save_file
from shown import texts_in

from prune_gui.errors import BLANKS
from prune_gui.gui.views.tabs import TITLES

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
    "e" + "\u0301" * 50,
)


@pytest.fixture
def hostile_file(tmp_path):
    """A checkpoint in which tensors, modules and metadata have such names."""
    names = [f"{name}.{inner}.weight" for name, inner in zip(HOSTILE, HOSTILE[1:], strict=False)]
    tensors = {name: torch.randn(6, 8) for name in (*names, *HOSTILE)}
    path = tmp_path / "<b>[*]\n\u202e&x.safetensors"
    metadata = {
        key.encode(errors="replace").decode(): value for key, value in zip(HOSTILE, HOSTILE)
    }
    save_file(tensors, path, metadata=metadata)
    return path


def wrong(text: str) -> bool:
    """Tell whether a text has what does not print, or a line that a name began."""
    lines = text.translate(dict.fromkeys(map(ord, BLANKS))).replace("\N{WORD JOINER}", "")
    unseen = not lines.replace("\n", "").isprintable() or "\u3164" in text
    return unseen or "\nFORGED" in text or "\u0301" * 9 in text


def wrong_in(root) -> set[str]:
    """Return the texts in and below an object that show a name as it is."""
    return {text for text in texts_in(root) if wrong(text)}


def rich_in(root) -> list[str]:
    """Return the texts below an object in which a name is markup."""
    found = []
    for label in root.findChildren(QLabel):
        label.ensurePolished()
        assert label.textFormat() != Qt.TextFormat.AutoText
        if label.textFormat() == Qt.TextFormat.RichText:
            found.append(label.text())
    for view in root.findChildren(QGraphicsView):
        items = view.scene().items() if view.scene() else []
        found += [item.toHtml() for item in items if isinstance(item, QGraphicsTextItem)]
    return [text for text in found if "<b>bold" in text or "<img" in text or "<a href" in text]


def test_every_view_of_every_parameter_shows_names_as_plain_text(
    window, open_file, hostile_file, workbench, make_step, settle, qtbot
):
    open_file(hostile_file)
    for name in HOSTILE:
        workbench.edit(lambda session, name=name: session.add(make_step("identity", f"{name}")))
    workbench.edit(lambda session: session.name_state("<b>bold</b>\nFORGED"))
    settle()
    window.tree.tree.expandAll()
    found, rich = set(), []
    for index in range(len(TITLES)):
        window.views._tabs.setCurrentIndex(index)
        for name in list(workbench.session.checkpoint.tensors)[:3]:
            workbench.choose(name)
            QApplication.processEvents()
            qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
            found |= wrong_in(window)
            rich += rich_in(window)
    assert found == set()
    assert rich == []


def test_a_tool_tip_is_plain_text(window, qtbot):
    QToolTip.showText(QPoint(5, 5), "<b>bold</b>", window)
    (tip,) = (each for each in QApplication.topLevelWidgets() if each.inherits("QTipLabel"))
    assert tip.textFormat() == Qt.TextFormat.PlainText
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not tip.isVisible())
