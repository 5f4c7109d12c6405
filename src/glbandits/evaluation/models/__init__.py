"""Models that are fitted to a log: of expected rewards and of propensities."""
