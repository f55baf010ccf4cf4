"""The set `training` (workloads/training) for torch.compile: forward and the optimizer are compiled, autograd runs the
backward that compiling made, as torch.compile's users do it."""

import torch
import torch.nn.functional as F


def compiled(function):
    """A step of training is compiled in parts."""
    return function.compiled() if hasattr(function, "compiled") else torch.compile(function)


class Region:
    """A forward with the gradients of its first inputs in a direction, the last argument; then those of the parameters that it
    holds."""

    def __init__(self, forward, count, parameters=()):
        self.forward, self.count, self.parameters = forward, count, parameters

    def compiled(self):
        return Region(torch.compile(self.forward), self.count, self.parameters)

    def __call__(self, *args):
        *inputs, direction = args
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs[: self.count]]
            result = self.forward(*leaves, *inputs[self.count :])
            return [result.detach(), *torch.autograd.grad(result, [*leaves, *self.parameters], direction)]


def rope_tables(sequence, head_size, dtype=torch.float32):
    frequency = 1.0 / (10000 ** (torch.arange(0, head_size, 2).float() / head_size))
    angle = torch.outer(torch.arange(sequence).float(), frequency)
    both = torch.cat([angle, angle], -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rope(q, cos, sin):
    a, b = q.chunk(2, -1)
    return q * cos + torch.cat([-b, a], -1) * sin


def rope_case(batch=4, heads=16, sequence=1024, width=64):
    q = torch.randn(batch, heads, sequence, width)
    return Region(rope, 1), (q, torch.randn(sequence, width), torch.randn(sequence, width), torch.randn_like(q))


def rms(x, w):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w


def rmsnorm(x, r, w):
    return rms(x + r, w)


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


def descend(parameters, gradients, rate=0.1):
    for p, g in zip(parameters, gradients):
        p.sub_(g, alpha=rate)


class Gradients:
    """Forward and backward: the loss, and the gradients of the parameters, which keep none."""

    def __init__(self, loss):
        self.loss = loss

    def compiled(self):
        return Gradients(torch.compile(self.loss))

    def __call__(self, parameters, *others):
        with torch.enable_grad():
            loss = self.loss(parameters, *others)
            loss.backward()
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None
        return loss.detach(), gradients


class Step:
    """Forward, backward and the optimizer; three graphs once it is compiled. Arguments: parameters, as many as the
    optimizer's `state` has, the loss's."""

    def __init__(self, loss, update=adamw, state=3):
        self.loss, self.update, self.state = loss, update, state

    def compiled(self):
        return Step(torch.compile(self.loss), torch.compile(self.update), self.state)

    def __call__(self, parameters, *others):
        loss, gradients = Gradients(self.loss)(parameters, *others[self.state :])
        self.update(parameters, gradients, *others[: self.state])
        return loss


def leaves(parameters):
    return [p.requires_grad_() for p in parameters]


def adamw_state(parameters):
    """AdamW's means and its step count, before the first step."""
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    return first, second, torch.zeros(())


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
    state = adamw_state(parameters)
    tokens, following = (torch.randint(0, vocabulary, (batch, context)) for _ in range(2))
    loss = lambda *args: gpt_loss(*args, heads)
    return Step(loss), (leaves(parameters), *state, tokens, following)


def perceptron_loss(parameters, x, classes):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for at in range(0, len(parameters), 2):
            x = F.linear(x, parameters[at], parameters[at + 1])
            if at + 2 < len(parameters):
                x = torch.relu(x)
        return F.cross_entropy(x, classes)


def perceptron_case(rows=512, inputs=784, width=1024, classes=10):
    parameters = []
    for out, into in (width, inputs), (width, width), (classes, width):
        parameters += [torch.randn(out, into) * (2 / into) ** 0.5, torch.zeros(out)]
    state = adamw_state(parameters)
    data = torch.randn(rows, inputs), torch.randint(0, classes, (rows,))
    return Step(perceptron_loss), (leaves(parameters), *state, *data)


def component_loss(parameters, x, masks, target, cos, sin, heads):
    """Llama's layers, whose linear ones are ((x V) mask) U. Of each layer: two norms, seven pairs of V and U."""
    batch, length, width = x.shape
    for layer in range(len(masks) // 7):
        w, m = parameters[16 * layer : 16 * (layer + 1)], masks[7 * layer : 7 * (layer + 1)]
        linear = lambda y, k: ((y @ w[2 + 2 * k]) * m[k]) @ w[3 + 2 * k]
        projected = lambda y, k: linear(y, k).view(batch, length, heads, width // heads).transpose(1, 2)
        y = rms(x, w[0])
        q, k = rope(projected(y, 0), cos, sin), rope(projected(y, 1), cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, projected(y, 2), is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(batch, length, width), 3)
        y = rms(x, w[1])
        x = x + linear(swiglu(linear(y, 4), linear(y, 5)), 6)
    return F.mse_loss(x, target)


def component_pair(into, out, parts, dtype=torch.float32):
    """V and U of a linear layer of components."""
    pair = torch.randn(into, parts) * into**-0.5, torch.randn(parts, out) * parts**-0.5
    return [p.to(dtype) for p in pair]


def component_arguments(layers, batch, sequence, width, hidden, heads, parts, dtype=torch.float32):
    """component_loss's, but for the heads."""
    parameters, masks = [], []
    for _ in range(layers):
        parameters += [torch.ones(width, dtype=dtype), torch.ones(width, dtype=dtype)]
        for into, out in [(width, width)] * 4 + [(width, hidden)] * 2 + [(hidden, width)]:
            parameters += component_pair(into, out, parts, dtype)
            masks.append(torch.rand(batch, sequence, parts).to(dtype))
    x, target = (torch.randn(batch, sequence, width).to(dtype) for _ in range(2))
    return leaves(parameters), x, masks, target, *rope_tables(sequence, width // heads, dtype)


def component_case(layers=4, batch=2, sequence=128, width=512, hidden=1376, heads=8, parts=1200):
    loss = lambda *args: component_loss(*args, heads)
    return Step(loss, descend, 0), component_arguments(layers, batch, sequence, width, hidden, heads, parts)


CASES = {
    "rope_train_f32": (rope_case, {}),
    "rmsnorm_train_f32": (rmsnorm_case, {}),
    "swiglu_train_f32": (swiglu_case, {}),
    "softmax_train_f32": (softmax_case, {}),
    "layernorm_gelu_train_f32": (layernorm_gelu_case, {}),
    "cross_entropy_f32": (cross_entropy_case, {}),
    "gpt2_step_f32": (gpt_case, {}),
    "adamw_gpt2_f32": (adamw_case, {}),
    "mlp_bf16_autocast": (perceptron_case, {}),
    "spd_train_f32": (component_case, {}),
}
