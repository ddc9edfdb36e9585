"""Fast paths of the equations in `egt.nn`: the plain PyTorch parts stay the specification."""
