"""How far to trust a prediction: conformal intervals and sets, and temperatures; numpy only."""
