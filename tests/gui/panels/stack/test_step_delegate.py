"""The card of a step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QFont, QFontMetrics

from prune_gui.gui.stack.step_delegate import fitted_lines

TEXT = "encoder.layer.*.attention.self.query.weight, !*.bias, !*.LayerNorm.*, pooler.dense.weight"


def test_a_text_that_fits_in_two_lines_is_complete(qapp):
    width = QFontMetrics(QFont()).horizontalAdvance(TEXT) * 2 // 3
    lines = fitted_lines(TEXT, QFont(), width, 2)
    assert len(lines) == 2
    assert "".join(lines).replace(" ", "") == TEXT.replace(" ", "")


def test_a_longer_text_is_elided_in_the_middle_of_its_last_line(qapp):
    first, last = fitted_lines(TEXT * 5, QFont(), 300, 2)
    assert TEXT.startswith(first)
    assert "…" in last[1:-1]
    assert last.endswith("weight")


@given(st.text(st.sampled_from("abcW._*!, 0\u4e2d\u6587")), st.integers(60, 500), st.integers(1, 3))
def test_no_line_is_wider_than_the_card(qapp, text, width, max_lines):
    lines = fitted_lines(text, QFont(), width, max_lines)
    assert len(lines) <= max_lines
    assert all(QFontMetrics(QFont()).horizontalAdvance(line) <= width + 1 for line in lines)
