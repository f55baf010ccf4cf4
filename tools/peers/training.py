"""The set `training` (workloads/training) for torch.compile: forward and the optimizer are compiled, autograd runs the
backward that compiling made, as torch.compile's users do it."""

import torch
import torch.nn.functional as F


class Region:
    """A forward with the gradients of its first inputs in a direction, the last argument."""

    def __init__(self, forward, count):
        self.forward, self.count = forward, count

    def compiled(self):
        return Region(torch.compile(self.forward), self.count)

    def __call__(self, *args):
        *inputs, direction = args
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs[: self.count]]
            result = self.forward(*leaves, *inputs[self.count :])
            return [result.detach(), *torch.autograd.grad(result, leaves, direction)]


def rope(q, cos, sin):
    a, b = q.chunk(2, -1)
    return q * cos + torch.cat([-b, a], -1) * sin


def rope_case(batch=4, heads=16, sequence=1024, width=64):
    q = torch.randn(batch, heads, sequence, width)
    return Region(rope, 1), (q, torch.randn(sequence, width), torch.randn(sequence, width), torch.randn_like(q))


def rmsnorm(x, r, w):
    h = x + r
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5) * w


def rmsnorm_case(rows=4096, width=2048):
    x, r, along = (torch.randn(rows, width) for _ in range(3))
    return Region(rmsnorm, 3), (x, r, torch.randn(width), along)


def swiglu(gate, up):
    return F.silu(gate) * up


def swiglu_case(rows=4096, width=2816):
    return Region(swiglu, 2), tuple(torch.randn(rows, width) for _ in range(3))


def softmax(scores, mask):
    return torch.softmax(scores * 0.125 + mask, -1)


def softmax_case(heads=16, sequence=1024):
    scores, along = (torch.randn(heads, sequence, sequence) for _ in range(2))
    return Region(softmax, 1), (scores, torch.randn(sequence, sequence), along)


def layernorm_gelu(x, w, b):
    return F.gelu(F.layer_norm(x, x.shape[1:], w, b), approximate="tanh")


def layernorm_gelu_case(rows=4096, width=3072):
    x, along = (torch.randn(rows, width) for _ in range(2))
    return Region(layernorm_gelu, 3), (x, torch.randn(width), torch.randn(width), along)


def cross_entropy_case(rows=4096, classes=32000):
    targets = torch.randint(0, classes, (rows,))
    return Region(F.cross_entropy, 1), (torch.randn(rows, classes), targets, torch.ones(()))


def gpt_loss(parameters, tokens, following, heads):
    table, width = parameters[0], parameters[0].shape[1]
    x = F.embedding(tokens, table) + parameters[1]
    batch, length = tokens.shape
    for at in range(2, len(parameters) - 2, 12):
        w = parameters[at : at + 12]
        qkv = F.linear(F.layer_norm(x, (width,), w[0], w[1]), w[2], w[3])
        q, k, v = qkv.view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2)) * (width // heads) ** -0.5
        mixed = torch.softmax(scores.masked_fill(later, float("-inf")), -1) @ v
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, length, width), w[4], w[5])
        up = F.linear(F.layer_norm(x, (width,), w[6], w[7]), w[8], w[9])
        x = x + F.linear(F.gelu(up, approximate="tanh"), w[10], w[11])
    logits = F.linear(F.layer_norm(x, (width,), parameters[-2], parameters[-1]), table)
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def adamw(parameters, gradients, first, second, steps, rate=1e-3, decay=0.01):
    steps.add_(1)
    size, scale = rate / (1 - 0.9**steps), (1 - 0.999**steps).rsqrt()
    for p, g, m, v in zip(parameters, gradients, first, second):
        p.mul_(1 - rate * decay)
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.sub_(m * size / (v.sqrt() * scale + 1e-8))


class Step:
    """Forward, backward and AdamW; three graphs once it is compiled."""

    def __init__(self, heads, loss=gpt_loss, update=adamw):
        self.heads, self.loss, self.update = heads, loss, update

    def compiled(self):
        return Step(self.heads, torch.compile(self.loss), torch.compile(self.update))

    def __call__(self, parameters, first, second, steps, tokens, following):
        with torch.enable_grad():
            loss = self.loss(parameters, tokens, following, self.heads)
            loss.backward()
        self.update(parameters, [p.grad for p in parameters], first, second, steps)
        for p in parameters:
            p.grad = None
        return loss.detach()


def gpt_parameters(layers, context, width, vocabulary):
    parameters = [torch.randn(vocabulary, width) * 0.02, torch.randn(context, width) * 0.02]

    def norm():
        parameters.extend((torch.ones(width), torch.zeros(width)))

    def linear(out, into):
        parameters.extend((torch.randn(out, into) * 0.02, torch.zeros(out)))

    for _ in range(layers):
        norm(), linear(3 * width, width), linear(width, width)
        norm(), linear(4 * width, width), linear(width, 4 * width)
    norm()
    return parameters


def adamw_case(layers=12, context=1024, width=768, vocabulary=50257):
    parameters = gpt_parameters(layers, context, width, vocabulary)
    gradients, first = ([torch.randn_like(p) for p in parameters] for _ in range(2))
    return adamw, (parameters, gradients, first, [torch.rand_like(p) for p in parameters], torch.zeros(()))


def gpt_case(layers=4, batch=4, context=256, width=768, heads=12, vocabulary=10000):
    parameters = gpt_parameters(layers, context, width, vocabulary)
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    tokens, following = (torch.randint(0, vocabulary, (batch, context)) for _ in range(2))
    return Step(heads), ([p.requires_grad_() for p in parameters], first, second, torch.zeros(()), tokens, following)


CASES = {
    "rope_train_f32": (rope_case, {}),
    "rmsnorm_train_f32": (rmsnorm_case, {}),
    "swiglu_train_f32": (swiglu_case, {}),
    "softmax_train_f32": (softmax_case, {}),
    "layernorm_gelu_train_f32": (layernorm_gelu_case, {}),
    "cross_entropy_f32": (cross_entropy_case, {}),
    "gpt2_step_f32": (gpt_case, {}),
    "adamw_gpt2_f32": (adamw_case, {}),
}
