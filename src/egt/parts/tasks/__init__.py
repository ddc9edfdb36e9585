"""Prediction <-> target: loss, metrics and decoding of a task in one object; auxiliary objectives beside it."""
