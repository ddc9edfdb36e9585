"""Graph -> arrays: positional and structural encodings as pure functions, and the store that keeps them."""
