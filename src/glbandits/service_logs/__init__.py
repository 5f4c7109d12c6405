"""Uses of the log of a service that need both the service and the laboratory: exports and evaluations."""
