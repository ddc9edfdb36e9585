"""How a run is computed on a machine: by which backend, in which layout, and in how much memory."""
