"""Shared parts of policies: base classes, posteriors, fits of theta, confidence widths, tuning grids."""
