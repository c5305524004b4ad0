"""Evaluations of the open document: the chosen evaluator, the states, curves and sensitivity."""
