"""What attends to what: captured from a running model, measured, and drawn as a page, a picture or text."""
