"""What lerobot imports of torchvision, so that its reader runs beside a torch for which there is no torchvision."""

__version__ = "0.28.0"
