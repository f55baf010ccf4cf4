"""Reads what `graft quantize` wrote with code that is not Graft's, by hand:

    build/graft quantize MODEL --out OUT --json OUT.json
    /tmp/peers/bin/python tests/quantizer/read_pack_quantized.py OUT OUT.json [MODEL]

Every quantised weight is unpacked by PyPI's compressed-tensors (0.20) out of files opened by
safetensors, and its bits must be those that Graft recorded in the JSON. compressed-tensors' own
quantisation of the unpacked weight must give the packed words back. With MODEL, the original, a BERT
also gets the weights put in its place, and is loaded through transformers; its sentence vectors are
compared with the original's.
"""

import json
import pathlib
import sys
import zlib

import torch
from compressed_tensors.compressors.pack_quantized import (
    PackedQuantizationCompressor,
    unpack_from_int32,
)
from compressed_tensors.quantization import QuantizationConfig
from safetensors import safe_open

SENTENCES = [
    "The ferry to the island leaves at half past six, weather permitting.",
    "Knead the dough until it springs back, then let it rest under a damp cloth for an hour.",
    "The compiler fuses neighbouring loops so that each value is read from memory only once.",
    "A matrix is singular when its determinant is zero.",
    "Our cat sleeps on the keyboard whenever somebody needs it.",
]


def read_tensors(folder):
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    out = {}
    for shard in sorted(set(index.values())):
        with safe_open(folder / shard, framework="pt") as file:
            for name in file.keys():
                assert index[name] == shard, f"{name} is in {shard}, but the index says {index[name]}"
                out[name] = file.get_tensor(name)
    assert set(out) == set(index), "the index names tensors that are in no shard"
    return out


def read_scheme(folder):
    """The weights' scheme, by compressed-tensors' own reader; by hand where it knows only older forms."""
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    scattered = config["config_groups"]["group_0"]["weights"]["actorder"] == "group"
    if scattered:  # removed in 0.20: read as if there were no order, which unpacking does not need
        config["config_groups"]["group_0"]["weights"]["actorder"] = None
    config = QuantizationConfig.model_validate(config)
    return config.config_groups["group_0"], scattered


def dequantize_scattered(state, weights):
    """As compressed-tensors did before 0.20: column c has the scale of group g_idx[c]."""
    shape = tuple(state["weight_shape"].tolist())
    code = unpack_from_int32(state["weight_packed"], weights.num_bits, shape).float()
    group, scale = state["weight_g_idx"].long(), state["weight_scale"]
    if not weights.symmetric:
        zero = unpack_from_int32(
            state["weight_zero_point"], weights.num_bits, (shape[0], scale.shape[1]), packed_dim=0
        )
        code -= zero.float()[:, group]
    return code * scale[:, group]


def check_weights(folder, recorded):
    """Returns the weights by module, as fp32."""
    tensors = read_tensors(folder)
    scheme, scattered = read_scheme(folder)
    weights = {}
    for linear in (linear for layer in recorded["layers"] for linear in layer["linears"]):
        at = linear["module"] + "."
        state = {name[len(at):]: t for name, t in tensors.items() if name.startswith(at + "weight_")}
        if scattered:
            weight = dequantize_scattered(state, scheme.weights)
        else:
            plain = PackedQuantizationCompressor.decompress(state, scheme)
            weight = plain["weight"]
            again = PackedQuantizationCompressor.compress(
                {"weight": weight, "weight_scale": plain["weight_scale"],
                 "weight_zero_point": plain.get("weight_zero_point")}, scheme)
            for name in ("weight_packed", "weight_zero_point"):
                if state.get(name) is not None:
                    assert torch.equal(again[name], state[name]), f"{at}{name} packs otherwise"
        assert weight.dtype == torch.float32 and list(weight.shape) == [linear["rows"], linear["columns"]]
        crc = zlib.crc32(weight.contiguous().numpy().tobytes())
        assert f"{crc:08x}" == linear["weight_crc32"], f"{at}weight differs from what Graft recorded"
        weights[linear["module"]] = weight
    print(f"{folder}: {len(weights)} weights of {scheme.weights.num_bits} bits are bit for bit those "
          f"recorded, largest difference 0")
    return weights


def embed(model, tokenizer):
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))


def check_vectors(folder, original, weights):
    """The model with these weights in place of the original's, and as transformers loads it.

    transformers with compressed-tensors 0.20 cannot load asymmetric weights (it expects zero points
    that are not packed, unlike compressed-tensors' own compressor) nor actorder "group".
    """
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(original)
    before = embed(model, tokenizer)
    for module, weight in weights.items():
        model.get_submodule(module).weight.data.copy_(weight)
    after = embed(model, tokenizer)
    cosine = (before * after).sum(1)
    print("sentence vectors, cosine to the original's:",
          " ".join(f"{value:.5f}" for value in cosine.tolist()))
    assert cosine.min() > 0.5, "the quantised model's vectors are not the original's"
    try:
        loaded = embed(AutoModel.from_pretrained(folder), tokenizer)
    except Exception as error:  # of many kinds: pydantic's, torch's
        print("transformers does not load it:", str(error).splitlines()[0])
        return
    print(f"as transformers loads it: the same within {(loaded - after).abs().max():.1e}")
    assert torch.allclose(loaded, after, atol=1e-5)


if __name__ == "__main__":
    out, report = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = check_weights(out, json.loads(report.read_text()))
    if len(sys.argv) > 3:
        check_vectors(out, pathlib.Path(sys.argv[3]), found)
