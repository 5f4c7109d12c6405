"""What runs in a server process: loops, the writer, the learner and their metrics."""
