"""Data -> a trained model: `run.train` is a complete run, `loop.loop` the training loop, `state` what it keeps."""

from egt.processors import prepare_threads

prepare_threads()
