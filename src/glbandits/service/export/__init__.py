"""Logs of the service: export them, open them as logs for evaluation, and evaluate them.

This package uses both `serving` and `evaluation`, which do not import each other. `worker_app` creates the application
of `glb serve`, a server with evaluations of its logs. `log_source` opens the logs of `glb evaluate` and other commands.
"""
