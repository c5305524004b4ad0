"""Statistics of parameters and elements: histograms, norms, scores, tables of layers."""
