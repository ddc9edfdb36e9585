"""`python -m egt` is the same as `egt`."""

from __future__ import annotations

from egt.cli.main import script

if __name__ == "__main__":  # the processes of a distributed run import this file too
    script()
