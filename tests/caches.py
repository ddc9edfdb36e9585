"""A cache of its own for a test, except for the compiled kernel, which all tests share."""

from __future__ import annotations

from pathlib import Path

from egt.native.library import cache_folder

KERNELS = cache_folder()
"""Where the suite keeps the kernel: read before any test changes the environment."""


def fresh_cache(folder: Path) -> str:
    """Return a cache in a folder, for `EGT_CACHE_DIR`, without prepared graphs: a new kernel takes 25 s to compile."""
    cache = folder / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    KERNELS.mkdir(parents=True, exist_ok=True)
    if not (cache / "kernels").exists():
        (cache / "kernels").symlink_to(KERNELS, target_is_directory=True)
    return str(cache)
