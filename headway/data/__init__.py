"""Data: tokenizers, and what is read from files."""
