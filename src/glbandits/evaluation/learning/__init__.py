"""Policies that learn from a log, row by row: learning curves, training and tuning.

`glb store verify` is another thing: it repeats the decisions of a service's log (`service.runtime.replay`).
"""
