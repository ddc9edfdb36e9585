"""How far to trust a prediction: conformal intervals and sets, temperatures, and the spread of several answers; numpy only."""
