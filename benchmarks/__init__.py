"""Runnable comparisons; see README.md."""
