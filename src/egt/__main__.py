"""`python -m egt` is the same as `egt`."""

from __future__ import annotations

from egt.cli.main import main

main()
