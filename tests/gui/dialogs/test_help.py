"""The user guide: contents, links and translations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import translate
from PySide6.QtCore import QEvent, QSize, Qt, QUrl
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from prune_gui.gui.actions.menus import MENUS
from prune_gui.gui.dialogs.help import HelpWindow, anchor_of, guide_path
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.language import LANGUAGES, SOURCE, tr, use_language
from prune_gui.pruning.methods import METHODS


@pytest.fixture(params=LANGUAGES)
def spoken(request) -> Iterator[str]:
    """Set each language."""
    use_language(request.param)
    yield request.param
    use_language(SOURCE)


@pytest.fixture
def guide(window, qtbot):
    window.menu_actions["guide"].trigger()
    found = window.findChild(HelpWindow)
    yield found
    found.close()


def source_of(code):
    return guide_path(code).read_text(encoding="utf-8")


def test_every_method_is_in_the_guide(spoken, guide):
    text = guide.browser.toPlainText()
    built_in = [tr(method.title) for method in METHODS.values() if method.source == "built-in"]
    assert [title for title in built_in if title not in text] == []


def test_every_link_in_the_contents_scrolls_to_its_heading(spoken, guide):
    source = source_of(spoken)
    links = re.findall(r"\]\(#([^)]+)\)", source)
    lines = [line.partition(" ") for line in source.splitlines()]
    anchors = {
        depth: [anchor_of(text) for mark, _, text in lines if mark == depth]
        for depth in ("##", "###")
    }
    chapters = anchors["##"]
    assert links[: len(chapters)] == chapters
    assert set(links[len(chapters) :]) <= {*anchors["##"], *anchors["###"]}
    for link in links[1:]:
        guide.browser.verticalScrollBar().setValue(0)
        guide.follow(QUrl(f"#{link}"))
        assert guide.browser.verticalScrollBar().value() > 0


def test_every_picture_of_the_guide_is_shown_in_its_width(guide):
    named = re.findall(r"!\[[^]]+\]\((pictures/[^)]+)\)", source_of(SOURCE))
    assert len(named) > 4
    for name in named:
        picture = guide.browser.loadResource(QTextDocument.ResourceType.ImageResource, QUrl(name))
        assert 0 < picture.deviceIndependentSize().width() <= guide.browser.viewport().width()


def test_the_guide_is_shown_once_and_keeps_its_place_when_the_theme_changes(window, guide):
    guide.browser.verticalScrollBar().setValue(500)
    window.menu_actions["guide"].trigger()
    assert window.findChildren(HelpWindow) == [guide]
    QApplication.sendEvent(guide, QEvent(QEvent.Type.PaletteChange))
    assert guide.browser.verticalScrollBar().value() == 500


def menus_of(window):
    """Return the plain action texts of each menu."""
    return {
        without_mnemonics(title.text()): [
            without_mnemonics(action.text()) for action in title.menu().actions()
        ]
        for title in window.menuBar().actions()
    }


def test_menu_entries_named_in_the_guide_exist(spoken, window):
    menus = menus_of(window)
    source = " ".join(source_of(spoken).split())
    said = re.findall(r"\*([^*>]+) > ([^*]+)\*", source)
    assert len(said) > 10
    for menu, entry in said:
        assert any(text.startswith(entry) for text in menus[menu]), (menu, entry)


def test_menu_entries_named_in_the_documentation_exist(window):
    menus = menus_of(window)
    for path in (Path(__file__).parents[3] / "docs").rglob("*.md"):
        source = " ".join(path.read_text(encoding="utf-8").split())
        for menu, entry in re.findall(r"\*([^*>]+) > ([^*>]+)\*", source):
            assert any(text.startswith(entry) for text in menus[menu]), (path, menu, entry)


@pytest.mark.slow
def test_menu_entries_named_in_messages_exist_in_every_language(spoken, window):
    menus = menus_of(window)
    entry_of_a_menu = re.compile(rf"\b({'|'.join(MENUS)}) > ".replace("&", ""))
    messages = [one.id for one in translate.found() if entry_of_a_menu.search(str(one.id))]
    assert len(messages) >= 5
    for message in messages:
        said = tr(message)
        assert any(f"{menu} > {entry}" in said for menu in menus for entry in menus[menu]), said


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != SOURCE])
def test_the_guide_has_the_same_structure_and_code_in_every_language(code):
    def parts(text):
        signs = [line.split(" ")[0] for line in text.splitlines() if line[:1] in ("#", "-", "|")]
        return signs, set(re.findall(r"`+([^`]+)`+", " ".join(text.split())))

    assert parts(source_of(code)) == parts(source_of(SOURCE))


def test_the_guide_is_no_higher_than_the_screen(window, monkeypatch):
    class Low:
        """A screen that is lower than the default size of the guide."""

        def availableSize(self) -> QSize:  # noqa: N802 - as Qt has it
            return QSize(1280, 800)

    monkeypatch.setattr(window, "screen", Low)
    guide = HelpWindow(window)
    assert guide.height() < 800
    guide.deleteLater()


def test_a_text_is_found_in_the_guide_while_it_is_typed_and_again_with_enter(guide, qtbot):
    guide.show()
    qtbot.keyClicks(guide.search, "kept energy")
    cursor, found = guide.browser.textCursor, []
    for _ in range(guide.browser.toPlainText().lower().count("kept energy") + 1):
        assert cursor().selectedText().lower() == "kept energy"
        found.append(cursor().selectionStart())
        qtbot.keyClick(guide.search, Qt.Key.Key_Return)
    assert found == sorted({*found}) + found[:1]
    assert guide.isVisible()
    guide.search.setText("no such words")
    assert not cursor().hasSelection()
