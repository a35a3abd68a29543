"""What an audit looks at: any model, behind one way to call it."""
