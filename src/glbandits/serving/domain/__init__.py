"""Events, their rules, and how one decision is made: no I/O and no clock."""
