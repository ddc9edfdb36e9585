"""Samples -> GraphBatch: the layouts of the channels, collation and size-aware sampling."""
