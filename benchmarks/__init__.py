"""Speed as ratios from one run, and how cost grows. `make bench` runs them all."""
