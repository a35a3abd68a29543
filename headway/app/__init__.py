"""Jobs that put the parts together."""
