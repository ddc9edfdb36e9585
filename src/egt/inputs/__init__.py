"""What enters a model: each input is one file with its settings, its precomputed half and its learned half."""
