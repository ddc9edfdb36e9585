"""How a run is executed: processes, devices, signals, layouts, kernels and memory, for training and inference alike."""
