"""The API of this service: decisions, rewards, batches, catalogues, status of loops."""
