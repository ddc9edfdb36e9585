"""Runnable comparisons; see README.md."""

import egt  # noqa: F401  (before torch, as in the commands: it says how long waiting threads spin)
