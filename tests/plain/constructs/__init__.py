"""Small functions, each with a construct of Python's, and arguments for it."""
