"""Statistics of parameters and masks: histograms, norms, densities, differences, reports."""
