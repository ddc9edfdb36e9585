"""Prepared graphs on disk: built once by several processes, then memory-mapped by whoever reads them."""

from egt.data.store.building import prepare, prepare_splits
from egt.data.store.chunks import Chunk, Prepared
from egt.data.store.store_files import Store
from egt.data.store.workers import Workers, compute_in_workers, prepare_in_memory

__all__ = [
    "Chunk",
    "Prepared",
    "Store",
    "Workers",
    "compute_in_workers",
    "prepare",
    "prepare_in_memory",
    "prepare_splits",
]
