"""The service in a server process: loops, writer, learner, background tasks, metrics."""
