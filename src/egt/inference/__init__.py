"""Artifact -> predictions and metrics, on whatever the sources read. Nothing here imports the training engine."""
