"""HTML reports, charts and static figures of experiments and of off-policy evaluations."""
