from PySide6.QtGui import QTextDocument

from prune_gui.gui.theme import LIGHT
from prune_gui.gui.views.legend import legend


def test_the_lines_of_a_legend_begin_with_a_colour(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(*(bench.step(amount=0.2) for _ in range(6)))
    text = legend(bench.found(), LIGHT)
    starts = {start for width in range(300, 800, 10) for start in line_starts(text, width)}
    assert starts == {"■"}


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
