"""What is seen while a model runs."""
