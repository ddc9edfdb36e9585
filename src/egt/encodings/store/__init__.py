"""Prepared graphs on disk: built once by several processes, then memory-mapped by whoever reads them."""

from egt.encodings.store.ahead import Ahead
from egt.encodings.store.building import prepare, prepare_splits
from egt.encodings.store.chunks import Chunk, Prepared
from egt.encodings.store.store_files import Store
from egt.encodings.store.workers import Workers, compute_in_workers, prepare_in_memory

__all__ = [
    "Ahead",
    "Chunk",
    "Prepared",
    "Store",
    "Workers",
    "compute_in_workers",
    "prepare",
    "prepare_in_memory",
    "prepare_splits",
]
