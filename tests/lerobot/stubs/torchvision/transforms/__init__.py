import numpy as np
import torch


class ToTensor:
    """PIL picture of 8 bits -> float32 [C, H, W] in [0, 1], as torchvision's."""

    def __call__(self, picture):
        return torch.from_numpy(np.array(picture, np.uint8).transpose(2, 0, 1).copy()).float().div(255)
