"""One thread a process: on a shared machine two are slower for models this small."""

import torch

torch.set_num_threads(1)
