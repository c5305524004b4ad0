"""What the numbers in `Resolution.pruned_by` stand for. Loads nothing, so that a window may ask."""

from typing import Final

KEPT: Final = 0
IN_FILE: Final = 255
"""Pruned before the first step, in the file as it was opened. All other numbers are steps."""
