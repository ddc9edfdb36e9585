"""Artifact -> predictions and metrics, on whatever the sources read. Nothing here imports the training engine."""

from egt.processors import prepare_threads

prepare_threads()
