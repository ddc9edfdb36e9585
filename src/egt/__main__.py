"""`python -m egt` is the same as `egt`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # the processes of a distributed run import this file too
    # `-m` lets the current folder go before every library: a file torch.py in it would be run in place of torch.
    if not sys.flags.safe_path and os.path.exists(sys.path[0]) and os.path.samefile(sys.path[0], os.curdir):
        del sys.path[0]
    from egt.cli.main import script

    script()
