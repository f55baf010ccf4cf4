"""The set `systems` (workloads/systems) for torch.compile: a Llama in fused layers, as Transformer Engine lays it out, one of
linear layers of components, and GPT-2, each in several precisions."""

import torch
import torch.nn.functional as F

from training import (
    Gradients,
    Region,
    Step,
    compiled,
    component_arguments,
    component_loss,
    component_pair,
    descend,
    gpt_case,
    leaves,
    rms,
    rope,
    rope_tables,
    swiglu,
)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def check(axis, value, *expected):
    if value not in expected:
        raise ValueError(f"{axis}: came '{value}', expected one of {', '.join(expected)}")


def to_e4m3(x):
    """Codes of e4m3, and the scale that gives the values back."""
    scale = x.abs().amax().float().clamp_min(1e-12) / 448
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def linear(x, weight):
    """`weight` is a tensor, or codes of e4m3 with their scale, which x is rounded to as well."""
    if isinstance(weight, torch.Tensor):
        return F.linear(x, weight)
    codes, scale = to_e4m3(x.flatten(0, -2))
    out = torch._scaled_mm(codes, weight[0].t(), scale, weight[1], out_dtype=x.dtype)
    return out.view(*x.shape[:-1], -1)


def llama(weights, x, cos, sin, layers, heads, kv_heads):
    """Of each layer: norm, qkv, out, norm, gate and up, down; then, for tokens, the embedding, a norm, and the head unless it is
    the embedding."""
    ends = weights[6 * layers :]
    if ends:
        x = F.embedding(x, ends[0])
    branch = None
    for at in range(0, 6 * layers, 6):
        w = weights[at : at + 6]
        x = x if branch is None else x + branch
        qkv = linear(rms(x, w[0]), w[1]).unflatten(-1, (heads + 2 * kv_heads, -1))
        q, k, v = (part.transpose(1, 2) for part in qkv.split([heads, kv_heads, kv_heads], 2))
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        context = F.scaled_dot_product_attention(q, k, v.contiguous(), is_causal=True, enable_gqa=heads != kv_heads)
        x = x + linear(context.transpose(1, 2).flatten(2), w[2])
        branch = linear(swiglu(*linear(rms(x, w[3]), w[4]).chunk(2, -1)), w[5])
    x = x + branch
    return linear(rms(x, ends[1]), ends[2] if len(ends) > 2 else ends[0]) if ends else x


def llama_weights(layers, hidden, heads, kv_heads, intermediate, vocabulary, head, dtype):
    """As `llama` takes them; codes of e4m3 (the head has none) where dtype is fp8."""
    kind = DTYPES.get(dtype, torch.bfloat16)

    def dense(rows, columns):
        return (torch.randn(rows, columns) / columns**0.5).to(kind)

    def layer(rows, columns):
        return list(to_e4m3(dense(rows, columns))) if dtype == "fp8" else dense(rows, columns)

    norm = lambda: torch.ones(hidden, dtype=kind)
    size, weights = hidden // heads, []
    for _ in range(layers):
        weights += [norm(), layer((heads + 2 * kv_heads) * size, hidden), layer(hidden, heads * size)]
        weights += [norm(), layer(2 * intermediate, hidden), layer(hidden, intermediate)]
    if head != "none":
        weights += [dense(vocabulary, hidden), norm()]
    if head == "untied":
        weights.append(dense(vocabulary, hidden))
    return weights


def llama_case(make):
    def case(
        layers=4,
        batch=1,
        sequence=512,
        hidden=1024,
        heads=8,
        kv_heads=8,
        intermediate=2816,
        vocabulary=32000,
        head="none",
        dtype="bf16",
    ):
        check("head", head, "none", "tied", "untied")
        check("dtype", dtype, "f32", "bf16", "fp8")
        weights = llama_weights(layers, hidden, heads, kv_heads, intermediate, vocabulary, head, dtype)
        kind = weights[0].dtype

        def data():
            if head == "none":
                return torch.randn(batch, sequence, hidden).to(kind)
            return torch.randint(0, vocabulary, (batch, sequence))

        def forward(weights, x, cos, sin):
            return llama(weights, x, cos, sin, layers, heads, kv_heads)

        return make(forward, weights, data, rope_tables(sequence, hidden // heads, kind))

    return case


def llama_forward(forward, weights, data, tables):
    return forward, (weights, data(), *tables)


def llama_step(forward, weights, data, tables):
    if any(isinstance(w, list) for w in weights):
        raise ValueError("dtype: fp8 has no backward; expected one of f32, bf16")

    def loss(weights, x, following, cos, sin):
        out = forward(weights, x, cos, sin)
        if following.is_floating_point():
            return F.mse_loss(out.float(), following.float())
        return F.cross_entropy(out.flatten(0, 1).float(), following.flatten())

    update = lambda *args: descend(*args, rate=0.01)
    return Step(loss, update, 0), (leaves(weights), data(), data(), *tables)


def spd_model_case(
    layers=4, batch=16, sequence=128, width=512, hidden=1376, heads=8, parts=1200, dtype="f32"
):
    check("dtype", dtype, *DTYPES)
    loss = lambda *args: component_loss(*args, heads)
    return Gradients(loss), component_arguments(layers, batch, sequence, width, hidden, heads, parts, DTYPES[dtype])


def component(x, V, U, mask):
    return ((x @ V) * mask) @ U


class Component(torch.nn.Module):
    def __init__(self, V, U):
        super().__init__()
        self.V, self.U = torch.nn.Parameter(V), torch.nn.Parameter(U)

    def forward(self, x, mask):
        return component(x, self.V, self.U, mask)


def spd_component_case(batch=2, sequence=512, d_in=768, d_out=768, parts=1200, dtype="f32", form="pure"):
    check("dtype", dtype, *DTYPES)
    check("form", form, "pure", "module")
    kind = DTYPES[dtype]
    x, direction = (torch.randn(batch, sequence, width).to(kind) for width in (d_in, d_out))
    V, U = component_pair(d_in, d_out, parts, kind)
    mask = torch.rand(batch, sequence, parts).to(kind)
    if form == "pure":
        return Region(component, 3), (x, V, U, mask, direction)
    module = Component(V, U)
    return Region(module, 1, list(module.parameters())), (x, mask, direction)


class Precision:
    """A function whose products of matrices in f32 have torch's `precision`."""

    def __init__(self, function, precision):
        self.function, self.precision = function, precision

    def compiled(self):
        return Precision(compiled(self.function), self.precision)

    def __call__(self, *args):
        torch.set_float32_matmul_precision(self.precision)
        try:
            return self.function(*args)
        finally:
            torch.set_float32_matmul_precision("highest")


def lm_case(make):
    def case(layers=4, batch=4, context=256, width=768, heads=12, vocabulary=10000, precision="f32"):
        check("precision", precision, "f32", "medium", "bf16")
        step, (parameters, *state, tokens, following) = gpt_case(layers, batch, context, width, heads, vocabulary)

        def in_bf16(*args):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return step.loss(*args)

        function, used = make(in_bf16 if precision == "bf16" else step.loss, state)
        function = Precision(function, "medium") if precision == "medium" else function
        return function, (parameters, *used, tokens, following)

    return case


CASES = {
    "llama_forward": (llama_case(llama_forward), {}),
    "llama_step": (llama_case(llama_step), {}),
    "spd_model": (spd_model_case, {}),
    "spd_component": (spd_component_case, {}),
    "lm_forward": (lm_case(lambda loss, state: (loss, [])), {}),
    "lm_backward": (lm_case(lambda loss, state: (Gradients(loss), [])), {}),
    "lm_step": (lm_case(lambda loss, state: (Step(loss), state)), {}),
}
