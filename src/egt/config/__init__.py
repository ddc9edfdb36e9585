"""Plain data: what a run is, checked as it is read. Nothing here builds or imports torch."""
