"""The codes in `Resolution.pruned_by`. Imports nothing heavy, so that the GUI can use it."""

from typing import Final

KEPT: Final = 0
IN_FILE: Final = 255
"""Pruned in the opened file, before the first step. All other codes are step numbers."""
ZERO: Final = 254
"""Zero in the opened file, and pruned by no step; only in `Resolution.marking_zeros`."""
