import colorsys
from itertools import combinations, pairwise

import pytest
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QListWidget, QProxyStyle, QStyle

from prune_gui.gui.widgets.theme import PlainStyle, Theme, colours
from prune_gui.raster.colours import DARK, LIGHT
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
def test_pruned_colours_contrast_with_kept_and_background(theme):
    for colour in (*theme.steps, theme.draft):
        assert _contrast(colour, theme.kept) >= 1.45
        assert _contrast(colour, theme.background) >= 2.5


@THEMES
def test_no_two_meanings_share_a_colour(theme):
    meanings = [theme.kept, theme.in_file, theme.zero, theme.draft, *theme.steps]
    for a, b in combinations(meanings, 2):
        assert sum(abs(x - y) for x, y in zip(_rgb(a), _rgb(b), strict=True)) > 0.2
    hues = [colorsys.rgb_to_hsv(*_rgb(step)) for step in theme.steps]
    for (h1, _, v1), (h2, _, v2) in pairwise(hues):
        assert min(abs(h1 - h2), 1 - abs(h1 - h2)) > 0.05 or abs(v1 - v2) > 0.2


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
