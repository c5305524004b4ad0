"""The distances between widgets: one scale for the whole window, in pixels."""

from __future__ import annotations

from typing import Final

TIGHT_PX: Final = 4
"""Between parts of one thing: a bar and its label, the lines of a legend."""
GAP_PX: Final = 8
"""Between neighbours, and from the edge of a panel."""
WIDE_PX: Final = 16
"""Between groups."""
