"""General widgets, independent of pruning; the theme and the icons."""
