"""Graph -> arrays: positional and structural encodings as pure functions."""
