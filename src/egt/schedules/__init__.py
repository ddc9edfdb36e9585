"""How the learning rate moves: each schedule is one file with its settings and its rule."""
