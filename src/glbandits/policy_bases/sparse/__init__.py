"""Estimators of policies on sparse rows: their numbers are in a hash table of the learned features."""
