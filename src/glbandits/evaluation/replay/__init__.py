"""Policies that learn from a log, row by row: learning curves, training and tuning.

`glb replay` is another thing: it repeats the decisions of a service's log (`service.runtime.replay`).
"""
