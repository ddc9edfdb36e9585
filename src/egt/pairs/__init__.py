"""Which pairs of nodes a sparse model has: one file for each way to choose them."""
