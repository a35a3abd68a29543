"""The laws of mechanisms, the trials to test them on, and the search for a counter-example."""
