from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QVBoxLayout, QWidget

from prune_gui.gui.views.legend import LINES, Legend, legend
from prune_gui.gui.widgets.theme import LIGHT


def test_the_lines_of_a_legend_begin_with_a_colour(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(*(bench.step(amount=0.2) for _ in range(6)))
    text = legend(bench.found(), LIGHT)
    starts = {start for width in range(300, 800, 10) for start in line_starts(text, width)}
    assert starts == {"■"}


def test_a_long_legend_leaves_the_room_to_the_picture_and_scrolls(bench, checkpoint, shown, qtbot):
    bench.open_and_choose(checkpoint, "fc.weight")
    page, made = QWidget(), Legend()
    layout = QVBoxLayout(page)
    layout.addWidget(QWidget(), 1)
    layout.addWidget(made)
    shown(page).resize(300, 500)
    line, bar = made.fontMetrics().lineSpacing(), made.verticalScrollBar()
    made.show_subject(bench.found(), LIGHT)
    qtbot.waitUntil(lambda: line <= made.height() < 2 * line)
    assert bar.maximum() == 0
    bench.add(*(bench.step(amount=0.2) for _ in range(8)))
    made.show_subject(bench.found(), LIGHT)
    qtbot.waitUntil(lambda: LINES * line <= made.height() < (LINES + 1) * line)
    assert bar.maximum() > 0
    bar.setValue(bar.maximum())
    made.show_subject(bench.found(), LIGHT)
    assert bar.value() == bar.maximum()  # nobody wants to be sent back while nothing changes
    made.clear()
    assert bar.value() == 0


def test_a_legend_that_fits_has_no_scroll_bar_after_one_that_did_not(shown, qtbot):
    page, made = QWidget(), Legend()
    layout = QVBoxLayout(page)
    layout.addWidget(QWidget(), 1)
    layout.addWidget(made)
    shown(page).resize(300, 500)
    bar, words = made.verticalScrollBar(), ["word"]
    made.setText("word " * 500)
    qtbot.waitUntil(bar.isVisible)
    room, metrics = made.width() - 16, made.fontMetrics()
    while metrics.horizontalAdvance(" ".join([*words, "word"])) < room - 2:
        words.append("word")
    made.setText(" ".join(words))  # fills a line, unless the bar takes some of it
    qtbot.waitUntil(lambda: not bar.isVisible())
    assert made.height() < 2 * metrics.lineSpacing()


def line_starts(text, width):
    """Return the letters with which the lines of rich text begin; there are several lines."""
    document = QTextDocument()
    document.setHtml(text)
    document.setTextWidth(width)
    document.size()  # has it laid out
    block = document.firstBlock()
    layout = block.layout()
    lines = [layout.lineAt(number) for number in range(layout.lineCount())]
    assert len(lines) > 1
    return [block.text()[line.textStart()] for line in lines]
