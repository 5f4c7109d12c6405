"""Estimators of the value of a target, their intervals, and the evidence that a log has for them."""
