"""Pure functions: links, likelihood, linear algebra, randomness. No input or output, no clock, no state."""
