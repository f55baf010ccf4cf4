"""The set `wild` (workloads/wild) for torch.compile: a file for each of its files, the same programs and shapes.

A program that returns nothing changes its arguments.
"""

from . import audio, colour, diffusion, finance, gradients, graph, image, losses, mixing, models, molecules, norms
from . import optimizers, perception, physics, quantizers, recommender, robotics, samplers, science, sequence, speech
from . import vision
from . import arrivals, backward, control, decoding, drifters, geospatial, learners, lodgers, mixtures, newcomers
from . import passersby, sojourners, strangers, visitors, wanderers

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
    robotics,
    speech,
    diffusion,
    molecules,
    decoding,
    backward,
    geospatial,
    control,
    learners,
    mixtures,
    strangers,
    wanderers,
    visitors,
    passersby,
    newcomers,
    sojourners,
    drifters,
    arrivals,
    lodgers,
):
    CASES |= field.CASES
