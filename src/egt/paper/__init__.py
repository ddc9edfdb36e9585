"""The KDD'22 paper: presets, benchmarks, baselines, official weights, its tables and how to reproduce them."""
