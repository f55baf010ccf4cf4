"""Random inputs, as workloads/draw.h has them."""

import torch


def uniform(sizes, low=0.0, high=1.0):
    return torch.rand(sizes) * (high - low) + low


def integers(sizes, end, dtype=torch.int64):
    return torch.randint(end, sizes, dtype=dtype)


def wide(x):
    """x in fp32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
