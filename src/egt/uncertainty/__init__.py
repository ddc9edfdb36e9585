"""How far to trust a prediction: conformal intervals and sets, temperatures, the spread of answers; numpy only."""
