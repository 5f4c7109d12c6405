"""Our own API: decisions among vectors of numbers, rewards, batches of both, and the state of every loop."""
