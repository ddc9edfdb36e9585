"""What a run leaves: a folder without pickles that reproduces its number."""
