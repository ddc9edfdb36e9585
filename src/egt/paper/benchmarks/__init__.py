"""The benchmarks of the paper: each file holds their cards, how their files are read or made, and registers them."""
