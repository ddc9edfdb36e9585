"""What a trained model looks at and why it predicts what it does; reports; the page in the browser."""
