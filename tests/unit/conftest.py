import torch

torch.set_num_threads(1)  # small tensors: threads only get in each other's way
