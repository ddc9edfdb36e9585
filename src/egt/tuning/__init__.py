"""A search for better settings (`egt tune`): space, study, worker, and what is left of the best trial."""
