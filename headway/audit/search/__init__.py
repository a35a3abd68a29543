"""The search for a counter-example: trials, comparison by label, shrinking, and the first module that went wrong."""
