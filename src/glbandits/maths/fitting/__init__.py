"""Fits of generalized linear models to all observations so far."""
