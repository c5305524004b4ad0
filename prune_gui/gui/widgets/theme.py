"""The themes: palettes, colours of the views, icons, sizes of texts, distances between widgets."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from PySide6.QtCore import QByteArray, QObject, QSize, Qt
from PySide6.QtGui import QAction, QColor, QFont, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QProxyStyle,
    QStyle,
    QStyleHintReturn,
    QStyleOption,
    QWidget,
)

from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.raster.colours import DARK, LIGHT, Colours
from prune_gui.resources import resource

Mode = Literal["system", "light", "dark"]
Density = Literal["compact", "standard", "large"]


_Role = QPalette.ColorRole
_WIDGETS: Final = {
    _Role.Window: ("#f3f4f6", "#24282d"),
    _Role.WindowText: ("#1d2125", "#e3e6ea"),
    _Role.Base: ("#ffffff", "#191c20"),
    _Role.AlternateBase: ("#f7f8fa", "#1f2327"),
    _Role.ToolTipBase: ("#ffffff", "#2e343a"),
    _Role.ToolTipText: ("#1d2125", "#e3e6ea"),
    _Role.PlaceholderText: ("#6b727b", "#8d959e"),
    _Role.Text: ("#1d2125", "#e3e6ea"),
    _Role.Button: ("#eceef1", "#30363c"),
    _Role.ButtonText: ("#1d2125", "#e3e6ea"),
    _Role.BrightText: ("#ffffff", "#ffffff"),
    _Role.Link: ("#1d5fb8", "#7db4f5"),
    _Role.LinkVisited: ("#6a4fa8", "#b9a3ec"),
    _Role.Highlight: ("#2468c4", "#2f6fc4"),
    _Role.HighlightedText: ("#ffffff", "#ffffff"),
    _Role.Accent: ("#2468c4", "#4a8be0"),
    _Role.Light: ("#ffffff", "#444b53"),
    _Role.Midlight: ("#f5f6f8", "#3a4047"),
    _Role.Mid: ("#b9c0c8", "#1b1f23"),
    _Role.Dark: ("#9aa2ab", "#15181b"),
    _Role.Shadow: ("#6f767e", "#0b0d0f"),
}
"""The colours of the widgets in the light and in the dark theme."""
_WHEN_DISABLED: Final = (_Role.WindowText, _Role.Text, _Role.ButtonText, _Role.HighlightedText)
_Pixmap = QStyle.StandardPixmap
DOCK_ICONS: Final = {
    _Pixmap.SP_TitleBarNormalButton: ("qt_dockwidget_floatbutton", "dock-float"),
    _Pixmap.SP_TitleBarCloseButton: ("qt_dockwidget_closebutton", "dock-close"),
}
"""By what a dock asks of the style: the name that Qt gives its button, and the icon."""
ICON_NAME: Final = "icon_name"
"""The property that has the name of the icon of a button or an action."""
SMALL: Final = 0.85  # scale of texts in and beside pictures
TITLE: Final = 1.8  # scale of the title of a page
TIGHT_PX: Final = 4  # between parts of one thing: a bar and its label, the lines of a legend
GAP_PX: Final = 8  # between neighbours, and from the edge of a panel
WIDE_PX: Final = 16  # between groups
TAB_PADDING_PX: Final = 12
"""Space beside the text of a tab, both sides together: large texts fit in a window of 1280 px."""
APP_SIZES_PX: Final = (16, 24, 32, 48, 64, 128)
SIZES_PX: Final = (16, 20, 24, 32)
"""Sizes of icons; Qt chooses the smallest pixmap that is large enough."""


class Spacing(NamedTuple):
    """What a density sets."""

    text_scale: float  # size of texts, relative to the font of the system
    row_padding: int  # space added to the height of each row of a list, tree or table, in pixels


SPACINGS: Final[dict[Density, Spacing]] = {
    "compact": Spacing(0.9, 0),
    "standard": Spacing(1.0, 2),
    "large": Spacing(1.2, 6),
}


def colours(palette: QPalette) -> Colours:
    """Return the colours for a palette. Widgets call this again when their palette changes."""
    return DARK if palette.color(QPalette.ColorRole.Base).lightness() < 128 else LIGHT


class PlainStyle(QProxyStyle):
    """A style with plain text in labels, no icons on dialog buttons, padded rows and narrow tabs.

    Labels and tool tips show plain text by default. Qt would treat a text that looks like HTML, for
    example because of a name from a file, as rich text, which can imitate anything and load files.
    Labels with rich text set that format explicitly.

    Dialog buttons have no icons because those of some platforms ignore the palette: dark on dark.
    So do those of docks, which get others.
    Focus frames lie above the widget. Qt would draw them below its neighbours, as a part of it.
    """

    def __init__(self, base: str | QStyle, row_padding: int = 0) -> None:
        super().__init__(base)
        self.row_padding = row_padding
        self.setObjectName(base if isinstance(base, str) else base.objectName())

    def polish(self, target: QWidget | QApplication | QPalette) -> None:  # type: ignore[override]
        if isinstance(target, QLabel) and target.textFormat() == Qt.TextFormat.AutoText:
            target.setTextFormat(Qt.TextFormat.PlainText)
        super().polish(target)

    def styleHint(  # noqa: N802
        self,
        hint: QStyle.StyleHint,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
        returnData: QStyleHintReturn | None = None,  # noqa: N803 - as Qt has it
    ) -> int:
        if hint == QStyle.StyleHint.SH_DialogButtonBox_ButtonsHaveIcons:
            return 0
        if hint == QStyle.StyleHint.SH_FocusFrame_AboveWidget:
            return 1
        return super().styleHint(hint, option, widget, returnData)

    def standardIcon(  # noqa: N802
        self,
        standardIcon: QStyle.StandardPixmap,  # noqa: N803 - as Qt has it
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
    ) -> QIcon:
        if standardIcon in DOCK_ICONS:
            return icon(DOCK_ICONS[standardIcon][1])
        return super().standardIcon(standardIcon, option, widget)

    def pixelMetric(  # noqa: N802
        self,
        metric: QStyle.PixelMetric,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
    ) -> int:
        if metric == QStyle.PixelMetric.PM_TabBarTabHSpace:
            return TAB_PADDING_PX
        return super().pixelMetric(metric, option, widget)

    def sizeFromContents(  # noqa: N802
        self,
        kind: QStyle.ContentsType,
        option: QStyleOption | None,
        contents: QSize,
        widget: QWidget | None = None,
    ) -> QSize:
        size = super().sizeFromContents(kind, option, contents, widget)  # type: ignore[arg-type]
        if kind == QStyle.ContentsType.CT_ItemViewItem:
            size.setHeight(size.height() + self.row_padding)
        return size


class Theme(QObject):
    """Applies the light or the dark palette and the density to the application."""

    def __init__(
        self, app: QApplication, mode: Mode = "system", density: Density = "standard"
    ) -> None:
        super().__init__(app)
        self._app = app
        self._mode = mode
        self._text_size = app.font().pointSizeF()
        self.space(density)
        app.styleHints().colorSchemeChanged.connect(lambda _: self.use(self._mode))

    def follow(self, preferences: Preferences) -> None:
        def on_changed(name: str) -> None:
            if name == "theme":
                self.use(preferences.now.theme)
            elif name == "density":
                self.space(preferences.now.density)

        preferences.changed.connect(on_changed)

    def space(self, density: Density) -> None:
        text_scale, row_padding = SPACINGS[density]
        font = self._app.font()
        font.setPointSizeF(self._text_size * text_scale)
        self._app.setFont(font)
        style = self._app.style()
        if not (isinstance(style, PlainStyle) and style.row_padding == row_padding):  # it is slow
            self._app.setStyle(PlainStyle("Fusion", row_padding))
        self.use(self._mode)

    def use(self, mode: Mode) -> None:
        self._mode = mode
        system_is_dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        dark = mode == "dark" or (mode == "system" and system_is_dark)
        palette = theme_palette(dark=dark)
        self._app.setPalette(palette)
        palette.setColor(_Role.Base, QColor((DARK if dark else LIGHT).box))
        for kind in ("QCheckBox", "QRadioButton"):  # their outline is faint in the dark
            self._app.setPalette(palette, kind)  # type: ignore[arg-type]  # it accepts only str
        for window in self._app.topLevelWidgets():
            targets: list[QAbstractButton | QAction] = window.findChildren(QAbstractButton)
            for target in (*targets, *window.findChildren(QAction)):
                if (name := target.property(ICON_NAME)) is not None:
                    target.setIcon(icon(name))
            for label in window.findChildren(QLabel):
                if "href=" in (text := label.text()):  # a link keeps the colour of its creation
                    label.clear()
                    label.setText(text)


def theme_palette(*, dark: bool) -> QPalette:
    """Return the palette of the light or the dark theme, independent of the current theme."""
    palette, disabled = QPalette(), QPalette.ColorGroup.Disabled
    for role, shades in _WIDGETS.items():
        palette.setColor(role, QColor(shades[dark]))
    for role in _WHEN_DISABLED:
        palette.setColor(disabled, role, palette.color(_Role.PlaceholderText))
    palette.setColor(disabled, _Role.Highlight, palette.color(_Role.Mid))
    return palette


def scaled(font: QFont, scale: float) -> QFont:
    """Return a font of another size; `scale` is `SMALL` or `TITLE`."""
    other = QFont(font)
    if font.pixelSize() > 0:
        other.setPixelSize(round(font.pixelSize() * scale))
    else:
        other.setPointSizeF(font.pointSizeF() * scale)
    return other


def bold(font: QFont) -> QFont:
    """Return the bold variant of a font, for headings and the chosen item."""
    other = QFont(font)
    other.setBold(True)
    return other


def set_icon(target: QAbstractButton | QAction, name: str) -> None:
    """Give a button or an action a line icon that follows the theme."""
    target.setProperty(ICON_NAME, name)
    target.setIcon(icon(name))


def icon(name: str) -> QIcon:
    """Return a line icon in the text colour of the current theme; see `set_icon`."""
    return _coloured(name, *_shades(QApplication.palette().cacheKey()))


@lru_cache(maxsize=8)
def _shades(_palette: int) -> tuple[int, int, int]:
    """Return the colours of normal, disabled and selected icons in the current palette."""
    palette = QApplication.palette()
    normal, selected = palette.color(_Role.WindowText), palette.color(_Role.HighlightedText)
    disabled = palette.color(QPalette.ColorGroup.Disabled, _Role.WindowText)
    return normal.rgba(), disabled.rgba(), selected.rgba()


@lru_cache(maxsize=256)
def _coloured(name: str, normal: int, disabled: int, selected: int) -> QIcon:
    """Cache the icons, because the tree needs an icon in every row that it paints."""
    mode, result, source = QIcon.Mode, QIcon(), _source(name)
    shades = {mode.Normal: normal, mode.Disabled: disabled, mode.Selected: selected}
    for size in _sizes():
        shape = _drawn(source, size)
        for each, shade in shades.items():
            pixmap = QPixmap(shape)
            painter = QPainter(pixmap)
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
            painter.fillRect(pixmap.rect(), QColor.fromRgba(shade))
            painter.end()
            result.addPixmap(pixmap, each)
    return result


@cache
def app_icon() -> QIcon:
    """Return the application icon."""
    result, source = QIcon(), _source("app")
    for size in APP_SIZES_PX:
        result.addPixmap(_drawn(source, size))
    return result


@cache
def _source(name: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(resource("icons", f"{name}.svg").read_bytes()))


def _sizes() -> list[int]:
    """Return the sizes of pixmaps, in physical pixels of all screens."""
    ratios = {screen.devicePixelRatio() for screen in QApplication.screens()}
    return sorted({round(ratio * size) for ratio in ratios for size in SIZES_PX})


def _drawn(source: QSvgRenderer, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    source.render(painter)
    painter.end()
    return pixmap
