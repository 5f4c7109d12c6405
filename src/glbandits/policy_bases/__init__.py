"""Shared parts of policies: base classes with estimators, confidence widths, tuning grids."""
