"""Training: from data to weights, in one loop, top to bottom."""
