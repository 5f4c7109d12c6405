"""Estimators of the value of a target, their intervals, and the support of a log."""
