"""The view Distribution: histograms of weights and of scores."""
