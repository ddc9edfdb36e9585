"""A trained model as files that other programs run: `torch.export` and ONNX, and what they need to know."""
