"""The set `wild` (workloads/wild) for torch.compile: a file for each of its files, the same programs and shapes.

A program that returns nothing changes its arguments.
"""

from . import audio, colour, finance, gradients, graph, image, losses, mixing, models, norms, optimizers
from . import perception, physics, quantizers, recommender, samplers, science, sequence, vision

CASES = {}
for field in (
    vision,
    norms,
    image,
    colour,
    audio,
    graph,
    recommender,
    physics,
    finance,
    optimizers,
    samplers,
    quantizers,
    losses,
    gradients,
    mixing,
    sequence,
    perception,
    science,
    models,
):
    CASES |= field.CASES
