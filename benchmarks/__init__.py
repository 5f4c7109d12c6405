"""Benchmarks of speed, as ratios within one run, and of the growth of cost.

`make bench` runs them all.
"""
