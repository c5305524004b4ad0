"""Figures of a parameter and of its elements: histograms, norms, scores, tables of layers."""
