"""Logs of the service: export them, open them as logs for evaluation, and evaluate them."""
