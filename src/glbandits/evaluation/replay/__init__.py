"""Policies that learn from a log, row by row: learning curves, training and tuning."""
