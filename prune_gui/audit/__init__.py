"""Arrays to look at: statistics, histograms, norms, densities, reports."""
