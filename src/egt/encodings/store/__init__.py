"""Prepared graphs on disk: built once by several processes, then memory-mapped by whoever reads them."""

from egt.encodings.store.building import Prepared, prepare, prepare_in_memory, prepare_splits
from egt.encodings.store.store_files import Store

__all__ = ["Prepared", "Store", "prepare", "prepare_in_memory", "prepare_splits"]
