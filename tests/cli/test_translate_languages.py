"""`headway translate` with a model of several languages: their tokens beside the source and before the target."""

from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine
from transformers import M2M100Config, M2M100ForConditionalGeneration

import headway
from headway.cli import main
from headway.data.tokenizer import Tokenizer
from headway.decoding import Request, beam, generate
from tests.parity.compare import shake

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "a", "the", "rain", "stone", "river", "falls", "runs", "on", "over"]
CODES = ["__en__", "__de__", "__fr__"]
LINES = ["the rain falls on the stone", "a river", "the river runs over the stone"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[M2M100ForConditionalGeneration, Path]:
    engine = Engine(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.add_special_tokens([AddedToken(code, special=True) for code in CODES])
    numbers = [(word, engine.token_to_id(word)) for word in ("__en__", "</s>")]
    engine.post_processor = processors.TemplateProcessing(single="__en__ $A </s>", special_tokens=numbers)
    sizes = dict(encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=3,
                 encoder_ffn_dim=19, decoder_ffn_dim=29)  # fmt: skip
    torch.manual_seed(1)
    config = M2M100Config(vocab_size=len(WORDS) + 3, d_model=36, max_position_embeddings=31, **sizes)
    other = M2M100ForConditionalGeneration(config).eval()
    shake(other, size=0.4)
    place = tmp_path_factory.mktemp("models")
    other.save_pretrained(place / "theirs")
    words = Tokenizer(engine, {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    headway.save(headway.load(place / "theirs").model, place / "model", tokenizer=words)
    return other, place / "model"


@pytest.mark.parametrize("beams", [None, 3])
@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("fr", "en")])
def test_the_languages_are_those_asked_for(pair, source: str, target: str, beams: int | None, tmp_path, capsys) -> None:
    other, path = pair
    tokenizer = headway.load(path).tokenizer
    ids = {code: tokenizer.engine.token_to_id(f"__{code}__") for code in ("en", "de", "fr")}
    found = headway.translate(
        path, LINES, source_language=source, target_language=target, max_new_tokens=6, beams=beams, batch=2
    )
    assert all(one.tokens[0] == ids[target] for one in found)
    for line, one in zip(LINES, found, strict=True) if beams is None else ():
        tokens = torch.tensor([[ids[source], *tokenizer.encode(line)[1:]]])
        with torch.no_grad():
            theirs = other.generate(tokens, forced_bos_token_id=ids[target], max_new_tokens=6, do_sample=False)
        assert list(one.tokens) == theirs[0, 1:].tolist()
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    search = [] if beams is None else ["--beam", str(beams)]
    assert main(["translate", str(path), str(tmp_path / "lines.txt"), "--source-language", source,
                 "--target-language", target, "--max-new-tokens", "6", *search]) == 0  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [one.text for one in found]


def test_what_cannot_be_is_refused(pair) -> None:
    path = pair[1]
    with pytest.raises(ValueError, match=r"no token for the language 'dee' \(did you mean de.\); it has de, en, fr"):
        headway.translate(path, "a river", target_language="dee")
    model, tokenizer, _ = headway.load(path)
    with pytest.raises(ValueError, match="the first token 99 is outside of the vocabulary of 16"):
        generate(model, [Request(prompt=(4, 2), first_token=99)])
    with pytest.raises(ValueError, match="the first token 99"):
        beam(model, [Request(prompt=(4, 2), first_token=99)])
    tiny = headway.build("gpt2", layers=1, width=12, heads=3, vocabulary=17, length=16).eval()
    with pytest.raises(ValueError, match="first_token is for models that read a source"):
        generate(tiny, [Request(prompt=(4, 2), first_token=3)])
    tokenizer.engine.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    with pytest.raises(ValueError, match="puts no language beside a text"):
        headway.translate(model, "a river", tokenizer=tokenizer, source_language="en")
