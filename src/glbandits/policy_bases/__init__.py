"""What policies are made of: estimators with their settings and learning, widths, warm-ups, grids."""
