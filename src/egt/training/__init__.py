"""Objects -> a trained model: steps, schedules, checkpoints and `fit`. The only folder that imports Lightning."""
