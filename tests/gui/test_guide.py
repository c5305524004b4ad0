"""The guide is there, speaks of what there is, and its links lead somewhere."""

from __future__ import annotations

import re

import pytest
from PySide6.QtCore import QUrl

from prune_gui.gui.guide import Guide
from prune_gui.pruning.methods import METHODS
from prune_gui.resources import resource


@pytest.fixture
def guide(window, qtbot):
    window.acts["guide"].trigger()
    found = window.findChild(Guide)
    yield found
    found.close()


def test_every_method_is_in_the_guide(guide):
    text = guide.browser.toPlainText()
    built_in = [method.title for method in METHODS.values() if method.source == "built-in"]
    assert [title for title in built_in if title not in text] == []


def test_every_link_of_the_contents_leads_to_its_heading(guide, qtbot):
    source = resource("guide", "guide.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(#([\w-]+)\)", source)
    headings = [
        line[3:].lower().replace(" ", "-") for line in source.splitlines() if line[:3] == "## "
    ]
    assert links == headings
    guide.follow(QUrl("#save"))
    assert guide.browser.verticalScrollBar().value() > 0
