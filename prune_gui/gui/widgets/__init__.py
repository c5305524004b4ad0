"""Widgets that know nothing of pruning, the theme and the icons."""
