"""Logs of the service: export them, and open them as logs for evaluation."""
