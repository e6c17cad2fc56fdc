"""Video frames from storage into a training loop."""
