"""What is seen of a module while it runs: hooks, attention, allocations."""
