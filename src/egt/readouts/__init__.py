"""How a prediction is read: each readout is one file with its settings, its level and its learned half."""
