"""Tensors -> tensors: the parts of the paper, in the paper's letters. No config, no files."""
