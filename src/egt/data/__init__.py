"""Raw files, tables, molecules and Python objects -> `Graph` -> `GraphBatch`."""
