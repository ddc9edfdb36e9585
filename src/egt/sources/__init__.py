"""Raw data as graphs: benchmarks, molecules, tables of one's own, generators."""
