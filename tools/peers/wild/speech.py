"""Speech: features, a transducer's loss, a vocoder's layer."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def delta_features(power, filters, lengths):
    level = torch.matmul(power, filters).clamp_min(1e-10).log()

    def difference(x):
        p = F.pad(x.transpose(1, 2), (2, 2), mode="replicate")
        near = p[:, :, 3:-1] - p[:, :, 1:-3]
        return ((near + 2 * (p[:, :, 4:] - p[:, :, :-4])) / 10).transpose(1, 2)

    first = difference(level)
    features = torch.cat([level, first, difference(first)], 2)
    within = (torch.arange(power.shape[1]) < lengths[:, None])[..., None]
    count = lengths.view(-1, 1, 1)
    mean = (features * within).sum(1, keepdim=True) / count
    centred = (features - mean).masked_fill(~within, 0)
    variance = centred.square().sum(1, keepdim=True) / (count - 1)
    return centred / (variance.sqrt() + 1e-5)


def transducer_loss(logits, labels, frames, lengths):
    batch, steps, states, _ = logits.shape
    scores = torch.log_softmax(logits, -1)
    blank = scores[..., 0]
    index = labels.view(batch, 1, states - 1, 1).expand(batch, steps, states - 1, 1)
    emitted = scores[:, :, :-1].gather(3, index).squeeze(3)
    along = F.pad(emitted.cumsum(2), (1, 0))
    alpha = along[:, 0]
    rows = [alpha]
    for t in range(1, steps):
        base = along[:, t]
        alpha = base + torch.logcumsumexp(alpha + blank[:, t - 1] - base, 1)
        rows.append(alpha)
    ended = (torch.stack(rows, 1) + blank).flatten(1)
    return -ended.gather(1, ((frames - 1) * states + lengths)[:, None]).squeeze(1)


def gated_layer(x, direction, length, bias, skips, dilation):
    weight = direction * (length / direction.norm(2, 1, keepdim=True))

    def convolved(w, b):
        taps = w.shape[1]
        total = x * w[:, taps - 1, None] + b[:, None]
        for k in range(1, taps):
            total[:, :, k * dilation :] += x[:, :, : -k * dilation] * w[:, taps - 1 - k, None]
        return total

    w, b = weight.chunk(2), bias.chunk(2)
    out = torch.tanh(convolved(w[0], b[0])) * torch.sigmoid(convolved(w[1], b[1]))
    skips.add_(out)
    return x + out


def delta_features_case(batch=8, frames=400, frequencies=201, mels=40):
    power, filters = torch.randn(batch, frames, frequencies).square(), uniform((frequencies, mels)).pow(4)
    return delta_features, (power, filters, frames - integers((batch,), frames // 2))


def transducer_loss_case(batch=4, frames=24, labels=7, vocabulary=32):
    logits = torch.randn(batch, frames, labels + 1, vocabulary)
    text = 1 + integers((batch, labels), vocabulary - 1)
    ends, lengths = (most - integers((batch,), most // 2) for most in (frames, labels))
    return transducer_loss, (logits, text, ends, lengths)


def gated_layer_case(batch=4, channels=96, samples=8192, dilation=16):
    x, skips = (torch.randn(batch, channels, samples) for _ in range(2))
    length = uniform((2 * channels, 1), 0.5, 2)
    return gated_layer, (x, torch.randn(2 * channels, 3), length, torch.randn(2 * channels), skips, dilation)


CASES = {
    "delta_features_f32": (delta_features_case, {}),
    "transducer_loss_f32": (transducer_loss_case, {}),
    "gated_layer_f32": (gated_layer_case, {}),
}
