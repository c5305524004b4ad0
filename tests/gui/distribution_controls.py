"""The controls of a Distribution view, as a user finds them."""

from __future__ import annotations

from PySide6.QtWidgets import QCheckBox


def check_box(view, text):
    return next(box for box in view.findChildren(QCheckBox) if text in box.text())


def choose(view, bench, of=None, how=None):
    if of is not None:
        view._numbers_box.setCurrentIndex(view._numbers_box.findText(of))
    if how is not None:
        view._display_box.setCurrentIndex(view._display_box.findText(how))
    bench.until_idle()
