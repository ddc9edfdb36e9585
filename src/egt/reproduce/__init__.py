"""The tables of the paper, run row by row and seed by seed, by as many machines as share a folder."""
