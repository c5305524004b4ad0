"""Parts of the page of a report: escaped text, colours as CSS, bars and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from prune_gui.errors import one_line
from prune_gui.raster.colours import DARK, LIGHT, Colours, rgb
from prune_gui.recipe.pruned_by_codes import IN_FILE

MAX_TEXT: Final = 300
"""Limit of a text from a file, in characters."""
SHADES: Final = 20
"""Number of shades of sparsity, without that of zero."""
THEMES: Final = {
    LIGHT: {
        "page": "#ffffff",
        "panel": "#f6f8fa",
        "text": LIGHT.foreground,
        "faint": "#5f6872",
        "line": LIGHT.grid,
        "hair": "#eceff2",
    },
    DARK: {
        "page": DARK.background,
        "panel": "#20252b",
        "text": DARK.foreground,
        "faint": "#98a2ad",
        "line": DARK.grid,
        "hair": "#272c32",
    },
}
BAR_WIDTH: Final = 48
TEXT: Final = ""
NUMBER: Final = "n"
WIDE: Final = " wide"
"""CSS classes of columns: texts, numbers, and what is left out on narrow pages."""


def text(untrusted: str, limit: int = MAX_TEXT) -> str:
    """Return a text for HTML: in one line, with `one_line`, and escaped."""
    return escape(one_line(untrusted, limit))


def breakable(name: str) -> str:
    """Return the name of a parameter for HTML; lines can break after each dot."""
    return text(name).replace(".", ".<wbr>")


def heading(title: str, tag: str = "h2") -> str:
    """Return a heading; `tag` is its HTML element."""
    return f"<{tag}>{text(title)}</{tag}>"


def style() -> str:
    """Return CSS with the colours of both themes."""
    light, dark = (_variables(theme) for theme in THEMES)
    classes = [
        f".c{code} {{ fill: var(--c{code}); background: var(--c{code}) }}" for code in _codes()
    ]
    for shade in range(SHADES + 1):
        classes.append(f".d{shade} {{ fill: var(--d{shade}); background: var(--d{shade}) }}")
        classes.append(f"svg text.t{shade} {{ fill: var(--t{shade}) }}")
    in_dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return "\n".join((f":root {{ {light} }}", in_dark, *classes))


def shade_of(share: float) -> int:
    """Return the shade of a share in [0, 1]; 0 and `SHADES` mean exactly none and all."""
    if share in (0, 1):
        return round(share * SHADES)
    return min(max(round(share * SHADES), 1), SHADES - 1)


def code_class(code: int) -> str:
    """Return the CSS class of what a step pruned."""
    return f"c{code if code == IN_FILE else (code - 1) % len(LIGHT.steps) + 1}"


def bar(by_code: Mapping[int, int], total: int) -> str:
    """Return an SVG bar of the shares of `total` that steps pruned; empty if none did."""
    if not by_code:
        return f'<svg class="bar" viewBox="0 0 {BAR_WIDTH} 9" aria-hidden="true"></svg>'
    parts, left = [], 0.0
    for code, count in sorted(by_code.items()):
        width = max(BAR_WIDTH * count / total, 0.5) if total else 0.0
        parts.append(
            f'<rect class="{code_class(code)}" x="{left:.1f}" width="{width:.1f}" height="9"/>'
        )
        left += width
    kept = f'<rect class="k" width="{BAR_WIDTH}" height="9"/>'
    return (
        f'<svg class="bar" viewBox="0 0 {BAR_WIDTH} 9" aria-hidden="true">{kept}{"".join(parts)}'
        "</svg>"
    )


def table(head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """Return a table; `head` has the title and the CSS class of each column."""
    titles = "".join(f'<th class="{kind}">{text(title)}</th>' for title, kind in head)
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
    )


def cell(content: str, kind: str = TEXT) -> str:
    """Return a cell with content in HTML; `kind` is its CSS class."""
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def _codes() -> tuple[int, ...]:
    return (*range(1, len(LIGHT.steps) + 1), IN_FILE)


def _variables(colours: Colours) -> str:
    variables = {**THEMES[colours], "kept": colours.kept, "warning": colours.warning}
    variables |= {f"c{code}": colours.of(code) for code in _codes()}
    for shade in range(SHADES + 1):
        fill = colours.share(shade / SHADES)
        variables[f"d{shade}"] = fill
        variables[f"t{shade}"] = _readable_on(fill)
    return " ".join(f"--{name}: {value};" for name, value in variables.items())


def _readable_on(fill: str) -> str:
    """Return black or white, whichever contrasts more with a colour (WCAG 2.2, luminance)."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in rgb(fill))
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#101418" if luminance > 0.18 else "#ffffff"
