"""Treatment and control: settings, the number of a unit, and the comparison of the groups."""
