"""What a trained model looks at, and why it says what it says: analysis of attention, explanation of predictions."""
