import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette, QTextDocument
from PySide6.QtWidgets import (
    QApplication,
    QDialogButtonBox,
    QLabel,
    QListWidget,
    QProxyStyle,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.views import legend_text
from prune_gui.gui.views.legend_text import coloured_text, legend
from prune_gui.gui.views.view import MAX_VISIBLE_LINES, Legend
from prune_gui.gui.widgets.theme import PlainStyle, Theme, colours
from prune_gui.raster.colours import DARK, LIGHT, mixed
from prune_gui.recipe.recipe import IN_FILE, KEPT, ZERO

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def _rgb(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(colour):
    """Return the relative luminance as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a, b):
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@THEMES
def test_text_and_lines_can_be_read(theme):
    for colour in (theme.foreground, theme.cut, theme.warning):
        assert _contrast(colour, theme.background) >= 4.5


@THEMES
def test_each_code_has_its_colour(theme):
    assert theme.of(KEPT) == theme.kept
    assert theme.of(IN_FILE) == theme.in_file
    assert theme.of(ZERO) == theme.zero
    assert theme.of(1) == theme.of(len(theme.steps) + 1) == theme.steps[0]
    assert theme.of(3, draft=3) == theme.draft
    assert theme.of(2, draft=3) == theme.steps[1]


@THEMES
def test_shares_differ_in_lightness(theme):
    shades = [theme.share(step / 20) for step in range(21)]
    lightness = [_luminance(shade) for shade in shades]
    assert lightness in (sorted(lightness), sorted(lightness, reverse=True))
    assert len(set(lightness)) == 21
    assert _contrast(shades[0], shades[-1]) > 9
    assert (theme.share(-1), theme.share(2)) == (theme.scale[0], theme.scale[-1])


def test_a_theme_sets_the_matching_palette(qapp):
    theme = Theme(qapp, "dark")
    assert colours(qapp.palette()) is DARK
    theme.use("light")
    assert colours(qapp.palette()) is LIGHT
    disabled = qapp.palette().color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.Text)
    assert disabled != qapp.palette().color(QPalette.ColorRole.Text)
    theme.deleteLater()


class _WithIcons(QProxyStyle):
    """Puts icons on the buttons of dialogs, as platforms with a desktop do."""

    def styleHint(self, hint, *rest):  # noqa: N802
        wanted = hint == QStyle.StyleHint.SH_DialogButtonBox_ButtonsHaveIcons
        return 1 if wanted else super().styleHint(hint, *rest)


def test_links_that_exist_get_the_colour_of_another_theme(qapp, qtbot):
    theme, window = Theme(qapp, "light"), QWidget()
    qtbot.addWidget(window)
    label = QLabel('<a href="#">Most lost</a>', window, textFormat=Qt.TextFormat.RichText)
    window.show()
    theme.use("dark")
    image, link = label.grab().toImage(), QApplication.palette().link().color()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    assert any(image.pixelColor(*point) == link for point in points)
    theme.deleteLater()


def test_dialog_buttons_have_no_icons_on_any_platform(qapp, qtbot):
    def icons():
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        qtbot.addWidget(box)
        return [not button.icon().isNull() for button in box.buttons()]

    qapp.setStyle(_WithIcons("Fusion"))
    assert icons() == [True]
    qapp.setStyle(PlainStyle(_WithIcons("Fusion")))
    assert icons() == [False]
    theme = Theme(qapp, "dark")
    assert isinstance(qapp.style(), PlainStyle)
    theme.deleteLater()


def test_a_density_scales_texts_and_rows_of_open_widgets(qapp, qtbot):
    rows = QListWidget()
    rows.addItem("encoder.layer.0")
    qtbot.addWidget(rows)
    rows.show()
    theme = Theme(qapp, "light")
    heights, sizes = [], []
    for density in ("compact", "standard", "large", "standard"):
        theme.space(density)
        QApplication.sendPostedEvents()
        sizes.append(rows.font().pointSizeF())
        heights.append(rows.sizeHintForRow(0))
    assert sizes[0] < sizes[1] == sizes[3] < sizes[2]
    assert heights[0] < heights[1] == heights[3] < heights[2]
    theme.deleteLater()


def test_every_legend_line_starts_with_a_colour(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(*(bench.step(amount=0.2) for _ in range(6)))
    text = legend(bench.found(), LIGHT)
    starts = {start for width in range(300, 800, 10) for start in line_starts(text, width)}
    assert starts == {"■", "□"}


@pytest.fixture
def widget(shown):
    page, made = QWidget(), Legend("Legend")
    layout = QVBoxLayout(page)
    layout.addWidget(QWidget(), 1)
    layout.addWidget(made)
    shown(page).resize(300, 500)
    yield made
    del page


def test_a_long_legend_has_a_limited_height_and_scrolls(widget, bench, checkpoint, qtbot):
    bench.open_and_choose(checkpoint, "fc.weight")
    line, bar = widget.fontMetrics().lineSpacing(), widget.verticalScrollBar()
    widget.setText(legend(bench.found(), LIGHT))
    qtbot.waitUntil(lambda: line <= widget.height() < 2 * line)
    assert bar.maximum() == 0
    bench.add(*(bench.step(amount=0.2) for _ in range(8)))
    widget.setText(legend(bench.found(), LIGHT))
    qtbot.waitUntil(
        lambda: MAX_VISIBLE_LINES * line <= widget.height() < (MAX_VISIBLE_LINES + 1) * line
    )
    assert bar.maximum() > 0
    bar.setValue(bar.maximum())
    widget.setText(legend(bench.found(), LIGHT))
    assert bar.value() == bar.maximum()  # unchanged text keeps the scroll position
    widget.clear()
    assert bar.value() == 0


def test_the_scroll_bar_disappears_when_the_legend_fits_again(widget, qtbot):
    bar, words = widget.verticalScrollBar(), ["word"]
    widget.setText("word " * 500)
    qtbot.waitUntil(bar.isVisible)
    room, metrics = widget.width() - 16, widget.fontMetrics()
    while metrics.horizontalAdvance(" ".join([*words, "word"])) < room - 2:
        words.append("word")
    widget.setText(" ".join(words))  # fits in one line only without the scroll bar
    qtbot.waitUntil(lambda: not bar.isVisible())
    assert widget.height() < 2 * metrics.lineSpacing()


def test_a_long_legend_scrolls_by_keys_and_a_short_one_takes_no_focus(widget, qtbot):
    widget.setText("word")
    qtbot.waitUntil(lambda: widget.focusPolicy() == Qt.FocusPolicy.NoFocus)
    widget.setText("word " * 900)
    bar, line = widget.verticalScrollBar(), widget.fontMetrics().lineSpacing()
    qtbot.waitUntil(lambda: bar.maximum() > 10 * line)
    widget.setFocus(Qt.FocusReason.TabFocusReason)
    values = []
    for key in ("End", "PageUp", "Up", "Home", "Down", "PageDown"):
        qtbot.keyClick(widget, getattr(Qt.Key, f"Key_{key}"))
        values.append(bar.value())
    end, page_up, up, home, down, page_down = values
    assert (end, home) == (bar.maximum(), 0)
    assert up < page_up < end
    assert home < down < page_down


def line_starts(text, width):
    """Return the first character of each line of rich text, which must have several lines."""
    document = QTextDocument()
    document.setHtml(text)
    document.setTextWidth(width)
    document.size()  # triggers the layout
    block = document.firstBlock()
    layout = block.layout()
    lines = [layout.lineAt(number) for number in range(layout.lineCount())]
    assert len(lines) > 1
    return [block.text()[line.textStart()] for line in lines]


@pytest.fixture
def legend_after(subject_after):
    """Return a function of amounts that returns the legend after one L1 step for each."""

    def text(*amounts, **options):
        steps = [{"method": "l1_unstructured", "amount": amount} for amount in amounts]
        return legend(subject_after(*steps), LIGHT, **options).replace("&nbsp;", " ")

    return text


@pytest.mark.parametrize(
    ("amounts", "options", "texts"),
    [
        (
            [12],
            {},
            [
                LIGHT.kept,
                LIGHT.steps[0],
                "kept 36 (75.0 %)",
                "step 1: L1 unstructured 12 (25.0 %)",
            ],
        ),
        (
            [12, 12],
            {"is_dense": True, "marks": 2},
            [
                mixed(LIGHT.kept, LIGHT.steps[0], 0.5),
                "kept 24 (50.0 %)",
                "○ 2 lone cells",
            ],
        ),
        (
            [],
            {"zeros": 12},
            ["kept 36 (75.0 %)", f"{coloured_text('■', LIGHT.zero)} zero in the file 12 (25.0 %)"],
        ),
        (
            [12],
            {"zeros": 12},
            ["kept 36 (75.0 %)", f"{coloured_text('■', LIGHT.zero)} zero in the file  "],
        ),
    ],
)
def test_the_legend_has_colours_counts_and_shares(legend_after, amounts, options, texts):
    """Zeros in the file are parted from kept elements unless a step may prune them."""
    text = legend_after(*amounts, **options)
    assert all(each in text for each in texts)
    assert ("step" in text) == ("step 1: L1 unstructured 12 (25.0 %)" in text)


def test_the_legend_of_many_steps_stays_short(legend_after, monkeypatch):
    monkeypatch.setattr(legend_text, "MAX_NAMED_COLOURS", 2)
    text = legend_after(1, 1, 1, 1)
    assert "3 more 3 (6.2 %)" in text
    assert "step 2" not in text
