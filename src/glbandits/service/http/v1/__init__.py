"""The API of this service: decisions, rewards, batches, status of loops."""
