"""Whole files that the attack damages: tiny models of each family, a run with a checkpoint, data of each kind.

The same bytes each time, so that a recipe of edits (`edits.py`) is all that has to be kept of a finding.
"""

import gzip
import io
import json
import shutil
import struct
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import headway
from headway.app.resumable_file import ResumableFile
from headway.cli import main
from headway.config.train import LoraConfig
from headway.data.tokenizer import Tokenizer
from headway.hub.adapter import write_adapter
from headway.hub.target import directory
from headway.models.lora import adapters_of, add_lora
from headway.presets.bert import bert
from headway.presets.llama import llama
from headway.presets.seq2seq import bart, marian, t5
from headway.presets.vision import davit, vit

HASHES = "hashes.json"
TEMPLATE = "{% for one in messages %}<{{ one.role }}>{{ one['content'] | trim }}\n{% endfor %}"
LINES = ["the cat sat on the mat", "a dog runs", "the quick brown fox jumps over the lazy dog", "rain on the roof"] * 3
SIZES: dict[str, Any] = {"width": 12, "heads": 2, "layers": 2}
TRAIN = ["--model.layers", "1", "--model.width", "8", "--model.heads", "2", "--steps", "2", "--batch", "2",
         "--length", "8", "--tokenizer.kind", "byte"]  # fmt: skip


def pieces() -> Tokenizer:
    """WordPiece, as BERT's."""
    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    engine.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=61, special_tokens=words, show_progress=False)
    )
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return Tokenizer(engine, {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})


def pairs() -> Tokenizer:
    """Pairs of bytes, as GPT-2's; BART's special tokens are in it too."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=words, initial_alphabet=sorted(alphabet), show_progress=False
    )
    engine.train_from_iterator(LINES, trainer)
    return Tokenizer(engine, {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"})


def unigram() -> Tokenizer:
    """Pieces with scores, as T5's."""
    rows = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    engine = Engine(models.Unigram([*rows, *((letter, -3.0) for letter in "abcdefghijklmnopqrstuvwxyz")], 2))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return Tokenizer(engine, {"eos_token": "</s>", "pad_token": "<pad>"})


def plant(place: Path) -> None:
    """All of it, below one directory."""
    torch.manual_seed(0)
    for name, make in MODELS.items():
        make(place / name)
    _data(place / "data")
    _part(place / "part")
    _run(place)
    _python(place / "code")


def _save(config: Any, place: Path, tokenizer: Tokenizer | None, *, foreign: bool = True, **options: Any) -> None:
    """A model; `foreign`: as another library writes it, without our hash, so that damage gets past it."""
    model = headway.build(config).eval() if isinstance(config, dict) is False else headway.build(**config).eval()
    headway.save(model, place, tokenizer=tokenizer, **options)
    if foreign:
        (place / HASHES).unlink()
        for file in place.glob("**/*.safetensors"):
            save_file(load_file(file), file, metadata={"format": "pt"})


def _with(config: Any, **changes: Any) -> Any:
    return config.model_copy(update=changes)


def _gpt2(place: Path, **options: Any) -> None:
    tokenizer = pairs()
    config = {"target": "gpt2", **SIZES, "vocabulary": tokenizer.size, "length": 32}
    _save(config, place, tokenizer, **options)


def _old_gpt2(place: Path) -> None:
    """With vocab.json and merges.txt in place of tokenizer.json."""
    _gpt2(place)
    pairs().engine.model.save(str(place))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (place / name).unlink()
    said = {"bos_token_id": 5, "eos_token_id": [2, 5], "do_sample": True, "temperature": 0.7, "num_beams": 2}
    (place / "generation_config.json").write_text(json.dumps(said))


def _llama(family: str) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        tokenizer = pairs()
        options: dict[str, Any] = {"window": 7} if family == "mistral" else {"bias": family == "qwen2"}
        config = llama(family=family, vocabulary=tokenizer.size, hidden=17, kv_heads=1, length=64, **SIZES, **options)
        _save(config, place, tokenizer)
        if family == "llama":
            said = json.loads((place / "config.json").read_text())
            scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}
            (place / "config.json").write_text(json.dumps(said | {"rope_scaling": scaling}))
            said = json.loads((place / "tokenizer_config.json").read_text())
            (place / "tokenizer_config.json").write_text(json.dumps(said | {"chat_template": TEMPLATE}))

    return make


def _bert(place: Path) -> None:
    tokenizer = pieces()
    labels = ("calm", "wild", "wet")
    config = bert(**SIZES, hidden=19, vocabulary=tokenizer.size, length=32, types=2, classes=3, labels=labels)
    _save(config, place, tokenizer)
    words = sorted(tokenizer.engine.get_vocab().items(), key=lambda row: row[1])
    (place / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")
    (place / "tokenizer.json").unlink()
    (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


def _sentence(place: Path) -> None:
    from headway.config.text import DenseConfig, SentenceConfig

    tokenizer = pieces()
    encoder = bert(**SIZES, hidden=19, vocabulary=tokenizer.size, length=32, types=2, words=False)
    dense = DenseConfig(width=7, activation="tanh")
    _save(SentenceConfig(encoder=encoder, pooling="mean", dense=dense, normalise=True, limit=16), place, tokenizer)


def _t5(place: Path) -> None:
    config = _with(t5(width=12, hidden=17, layers=1, heads=2, head_width=6), vocabulary=30)
    _save(config, place, unigram())


def _bart(place: Path) -> None:
    tokenizer = pairs()
    _save(_with(bart(width=12, layers=1, heads=2), vocabulary=tokenizer.size, length=32), place, tokenizer)


def _marian(place: Path) -> None:
    import sentencepiece

    made = io.BytesIO()
    options = {"vocab_size": 40, "minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=made, **options)
    read = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    words = [read.id_to_piece(i) for i in range(3, read.get_piece_size())]
    numbers = {word: number for number, word in enumerate(["</s>", "<unk>", *words, "<pad>"])}
    _save(_with(marian(width=12, layers=1, heads=2, vocabulary=len(numbers)), length=32), place, None)
    (place / "source.spm").write_bytes(made.getvalue())
    (place / "vocab.json").write_text(json.dumps(numbers))


def _vit(place: Path) -> None:
    _save(vit(width=12, layers=1, heads=2, hidden=17, image=16, patch=8, classes=3), place, None)


def _davit(place: Path) -> None:
    _save(davit(depths=(1, 1), widths=(8, 12), heads=(2, 4), image=32, classes=3), place, None)


# The families that have no whole directory with a tokenizer above: what their config.json says of a tiny model.
_COMMON = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 17,
           "vocab_size": 31, "max_position_embeddings": 32}  # fmt: skip
_KV = {**_COMMON, "num_key_value_heads": 1}
_GEMMA = {**_KV, "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": 7}
_TWO = {"d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17, "vocab_size": 31,
        "max_position_embeddings": 32}  # fmt: skip
_IMAGE = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 17,
          "image_size": 16, "patch_size": 8}  # fmt: skip
_TEXT = {**_COMMON, "bos_token_id": 29, "eos_token_id": 30, "pad_token_id": 1}
SAID: dict[str, dict[str, Any]] = {
    "qwen3": {**_KV, "head_dim": 6},
    "granite": _KV,
    "smollm3": _KV,
    "olmo2": _KV,
    "phi3": {**_KV, "pad_token_id": 0},
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gpt_neox": _COMMON,
    "opt": {**_COMMON, "ffn_dim": 17, "word_embed_proj_dim": 12},
    "roberta": _COMMON,
    "xlm-roberta": _COMMON,
    "camembert": _COMMON,
    "distilbert": {"dim": 12, "n_layers": 2, "n_heads": 2, "hidden_dim": 17, "vocab_size": 31,
                   "max_position_embeddings": 32},
    "electra": {**_COMMON, "embedding_size": 7},
    "albert": {**_COMMON, "embedding_size": 7},
    "mpnet": _COMMON,
    "modernbert": _COMMON,
    "mt5": {"d_model": 12, "d_ff": 17, "num_layers": 1, "num_heads": 2, "d_kv": 6, "feed_forward_proj": "gated-gelu",
            "vocab_size": 31},
    "mbart": _TWO,
    "pegasus": _TWO,
    "m2m_100": _TWO,
    "deit": _IMAGE,
    "dinov2": {**_IMAGE, "mlp_ratio": 2},
    "clip": {"text_config": _TEXT, "vision_config": _IMAGE, "projection_dim": 11},
    "siglip": {"text_config": {**_TEXT, "projection_size": 12}, "vision_config": _IMAGE},
}  # fmt: skip


def _family(name: str) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        place.mkdir()
        (place / "config.json").write_text(json.dumps({"model_type": name, **SAID[name]}))
        _save(directory(place).config, place, None, overwrite=True)

    return make


def _adapter(place: Path) -> None:
    """Numbers that are added to the weights of `llama`."""
    place.mkdir()
    model, lora = headway.load(place.with_name("llama")).model, LoraConfig(rank=3, on=("query", "down"))
    add_lora(model, lora)
    for one in adapters_of(model).values():
        one.up.data.normal_()
    write_adapter(model.eval(), lora, place, str(place.with_name("llama")))


def _int4(place: Path) -> None:
    """Weights in 4 bits, without our hash."""
    whole = place.with_name("llama")
    loaded = headway.load(whole, weights="int4")
    headway.save(loaded.model, place, tokenizer=loaded.tokenizer)
    (place / HASHES).unlink()
    for file in place.glob("*.safetensors"):
        save_file(load_file(file), file, metadata={"format": "pt"})


def _gguf(place: Path) -> None:
    """A file of llama.cpp's."""
    from tests.hub.test_gguf import write

    place.mkdir()
    write(place / "model.gguf", "llama", "q8_0")


def _own(place: Path) -> None:
    """headway's own layout, with its hash."""
    tokenizer = pairs()
    config = {"target": "gpt2", **SIZES, "vocabulary": tokenizer.size, "length": 32, "attention": "local", "window": 5}
    _save(config, place, tokenizer, foreign=False)


MODELS: dict[str, Callable[[Path], None]] = {
    "gpt2": _old_gpt2,
    "gpt2-hashed": lambda place: _gpt2(place, foreign=False),
    "gpt2-shards": lambda place: _gpt2(place, foreign=False, shard=4000),
    "llama": _llama("llama"),
    "mistral": _llama("mistral"),
    "qwen2": _llama("qwen2"),
    "bert": _bert,
    "sentence": _sentence,
    "t5": _t5,
    "bart": _bart,
    "marian": _marian,
    "vit": _vit,
    "davit": _davit,
    "own": _own,
    "int4": _int4,
    "gguf": _gguf,
    "adapter": _adapter,
    **{name: _family(name) for name in SAID},
}


def _data(place: Path) -> None:
    place.mkdir()
    chance = np.random.default_rng(0)
    rows = [(f"{line} {number}", ("calm", "wild")[number % 2]) for number, line in enumerate(LINES)]
    (place / "book.txt").write_text("\n".join(LINES * 9) + "\n")
    (place / "packed.txt").write_bytes(gzip.compress("\n".join(LINES).encode(), mtime=0))
    (place / "rows.csv").write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows))
    (place / "rows.tsv").write_text("source\ttarget\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    made = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (place / "rows.jsonl").write_text("\n".join(made) + "\n")
    (place / "twins.tsv").write_text("first\tsecond\n" + "".join(f"{text}\t{text} again\n" for text, _ in rows))
    talks = [[{"role": "user", "content": text}, {"role": "assistant", "content": label}] for text, label in rows]
    (place / "talk.jsonl").write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in talks))
    (place / "talk.json").write_text(json.dumps(talks[0][:1]))
    (place / "pictures.txt").write_text("data/pictures/cat/one.png\ndata/pictures/dog/one.jpg\n")
    (place / "schema.json").write_text(json.dumps(SCHEMA))
    (place / "pattern.txt").write_text("(a|b[c-e]{2,3})+x?")
    (place / "table.txt").write_text("1 0 0\n1 1 0\n1 1 1\n")
    (place / "train.yaml").write_text(
        "task: language\nsteps: 2\nmodel:\n  layers: 1\ndata:\n  train: [data/book.txt]\n"
    )
    (place / "train.json").write_text(json.dumps({"steps": 2, "optim": {"rate": 0.001}, "data": {"train": ["x"]}}))
    (place / "train.toml").write_text('steps = 2\n[optim]\nrate = 0.001\n[data]\ntrain = ["data/book.txt"]\n')
    pixels, labels = chance.integers(0, 255, (6, 8, 8), np.uint8), np.arange(6) % 2
    np.savez_compressed(place / "digits.npz", images=pixels, labels=labels)
    np.save(place / "grey.npy", pixels)
    np.save(place / "grey-labels.npy", labels)
    head = struct.pack(">IIII", 0x803, *pixels.shape)
    (place / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + pixels.tobytes(), mtime=0))
    packed = struct.pack(">II", 0x801, 6) + labels.astype(np.uint8).tobytes()
    (place / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(packed, mtime=0))
    for number, kind in enumerate(("png", "jpg", "bmp", "gif")):
        folder = place / "pictures" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 255, (9, 7, 3), np.uint8)).save(folder / f"one.{kind}")


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y", None]}, "c": {"$ref": "#/$defs/d"},
                   "e": {"type": "string", "pattern": "^a+$"}},
    "required": ["a"],
    "$defs": {"d": {"type": "array", "items": {"type": "number"}, "maxItems": 3}},
}  # fmt: skip


def _part(place: Path) -> None:
    """A file that was begun, in two steps."""
    place.mkdir()
    with ResumableFile(place / "out.npy", {"model": "m"}, overwrite=False) as file:
        file.begin(b"head")
        file.add(b"0123456789", 1, cut=1)
        file.add(b"abcdefghij", 2, cut=3)


def _run(place: Path) -> None:
    """A run of `headway train`, with a checkpoint and the shards of its data."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = main(["train", str(place / "data" / "book.txt"), *TRAIN, "--out", str(place / "run")])
    assert code == 0, told.getvalue()
    shutil.copytree(place / "run", place / "run2")


def _python(place: Path) -> None:
    """Functions of one's own, as targets."""
    place.mkdir()
    (place / "attacked.py").write_text(
        "import torch\n\n\ndef build():\n    return torch.nn.Linear(3, 5)\n\n\ndef fails():\n    raise OSError('no')\n"
        "\n\ndef nothing():\n    return None\n"
    )
