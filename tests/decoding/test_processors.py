"""What a request does to its logits: against a loop in NumPy, and against Hugging Face's library."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

import headway as hw
from headway.config.generation import GenerationDefaults
from headway.decoding import Request, generate
from tests.decoding.tiny import V, model
from tests.fresh import fresh
from tests.thorough import examples

END = 5


def by_hand(name: str, request: Request) -> list[int]:
    """The likeliest token, one after the other: everything read again, and each rule written out."""
    made: list[int] = []
    prompt = list(request.prompt or ())
    while len(made) < request.max_new_tokens and made[-1:] != [END]:
        text = prompt + made
        with torch.no_grad():
            logits = model(name)(torch.tensor([text]))[0, -1].numpy().copy()
        for token in set(text):
            rate = request.repetition_penalty
            logits[token] = logits[token] / rate if logits[token] > 0 else logits[token] * rate
        for token in range(V):
            count = made.count(token)
            logits[token] += request.logit_bias.get(token, 0.0)
            logits[token] -= request.frequency_penalty * count + request.presence_penalty * (count > 0)
        size = request.no_repeat_ngram_size
        runs = {tuple(text[at : at + size]) for at in range(len(text) - size + 1)} if size else set()
        for token in range(V):
            if size and (*text[len(text) - size + 1 :], token) in runs:
                logits[token] = -math.inf
        if len(made) < request.min_new_tokens:
            logits[END] = -math.inf
        made.append(int(np.argmax(logits)))
    return made


asked = st.builds(
    Request,
    prompt=st.lists(st.integers(0, V - 1), min_size=1, max_size=7).map(tuple),
    max_new_tokens=st.just(13),
    repetition_penalty=st.sampled_from([1.0, 1.4]),
    frequency_penalty=st.sampled_from([0.0, 0.8, -0.3]),
    presence_penalty=st.sampled_from([0.0, 1.7]),
    logit_bias=st.sampled_from([{}, {3: 4.0, 17: -math.inf}]),
    min_new_tokens=st.sampled_from([0, 11]),
    no_repeat_ngram_size=st.sampled_from([0, 1, 2, 3]),
)


@given(request=asked)
@examples(30, 300)
def test_every_rule_is_the_one_written_out(request: Request) -> None:
    found = generate(model("gpt2"), request)
    assert list(found.tokens) == by_hand("gpt2", request)


def test_each_rule_changes_something() -> None:
    """So that the comparison above cannot pass with rules that do nothing."""
    plain = Request(prompt=(3, 1, 4), max_new_tokens=20)
    tokens = generate(model("gpt2"), plain).tokens
    rules: list[dict[str, Any]] = [
        {"frequency_penalty": 2.0}, {"presence_penalty": 3.0}, {"logit_bias": {tokens[0]: -math.inf}},
        {"no_repeat_ngram_size": 1}, {"repetition_penalty": 3.0},
    ]  # fmt: skip
    for rule in rules:
        assert generate(model("gpt2"), plain.replace(**rule)).tokens != tokens, rule


@pytest.mark.parametrize(
    "rule",
    [{"no_repeat_ngram_size": 2}, {"min_new_tokens": 12}, {"repetition_penalty": 1.8}, {"no_repeat_ngram_size": 1}],
    ids=str,
)
def test_the_rules_are_those_of_transformers(rule: dict[str, Any], tmp_path: Any) -> None:
    config = GPT2Config(vocab_size=53, n_positions=41, n_embd=12, n_layer=2, n_head=3, eos_token_id=7, bos_token_id=1)
    torch.manual_seed(11)
    theirs = GPT2LMHeadModel(config).eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    theirs.save_pretrained(tmp_path)
    ours = hw.load(tmp_path).model
    prompt = [3, 1, 4, 1, 5]
    with torch.no_grad():
        right = theirs.generate(
            torch.tensor([prompt]), max_new_tokens=17, do_sample=False, pad_token_id=0, **rule
        )[0, len(prompt) :]  # fmt: skip
    assert list(hw.generate(ours, prompt, max_new_tokens=17, **rule).tokens) == right.tolist()


def test_a_small_penalty_counts_in_bfloat16() -> None:
    """Logits near 20 are 0.125 apart there; a penalty of 0.01 decides between two that are equal."""
    from headway.decoding.processors import Processors
    from headway.decoding.stream import DecodingBatch

    tiny = model("gpt2", torch.float32)
    batch = DecodingBatch(tiny)
    batch.join([Request(prompt=(3,), logit_bias={2: 0.01}, max_new_tokens=3)])
    batch.step()
    logits = torch.full((1, V), 20.0, dtype=torch.bfloat16)
    assert int(batch._constrain(logits, batch._rows).argmax()) == 2
    assert Processors.of(Request(prompt=(3,)), (3,), frozenset(), V) is None


def test_nothing_left_to_choose_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="no token is left to choose: logit_bias, no_repeat_ngram_size"):
        generate(model("gpt2"), Request(prompt=(3,), logit_bias=dict.fromkeys(range(V), -math.inf)))
    with pytest.raises(ValueError, match="token 99 of logit_bias is outside of the model's vocabulary of 37"):
        generate(model("gpt2"), Request(prompt=(3,), logit_bias={99: 1.0}))


def test_samples_of_one_prompt_are_those_of_their_seeds_and_read_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.decoding.reader import Reader

    read: list[int] = []
    before = Reader.open
    monkeypatch.setattr(
        Reader, "open", lambda self, prompts, most: read.append(len(prompts)) or before(self, prompts, most)
    )
    tiny, how = model("llama"), dict(max_new_tokens=7, temperature=1.3)
    found = generate(tiny, [(3, 1, 4), (2, 7)], n=3, seed=5, **how)
    assert read == [2]
    alone = [[generate(tiny, prompt, seed=5 + i, **how).tokens for i in range(3)] for prompt in ((3, 1, 4), (2, 7))]
    assert [[one.tokens for one in samples] for samples in found] == alone
    assert len({one.tokens for samples in found for one in samples}) > 3
    assert [one.tokens for one in generate(tiny, (3, 1, 4), n=3, seed=5, **how)] == alone[0]
    with pytest.raises(ValueError, match="n=3 samples of one prompt are the same text at temperature 0"):
        generate(tiny, (3, 1, 4), n=3)
    with pytest.raises(ValueError, match="at least one sample, not n=0"):
        generate(tiny, (3, 1, 4), n=0)


@pytest.mark.parametrize("name", ["t5", "recurrent", "window", "linear"])
def test_samples_share_the_reading_of_any_prompt(name: str) -> None:
    tiny, how = model(name), dict(max_new_tokens=5, temperature=1.3)
    alone = [generate(tiny, (3, 1, 4), seed=i, **how).tokens for i in range(3)]
    assert [one.tokens for one in generate(tiny, (3, 1, 4), n=3, **how)] == alone


def test_a_models_defaults_are_followed_where_a_request_says_nothing() -> None:
    tiny = fresh(model("gpt2").config, seed=7, dtype=torch.float64, std=0.4)
    plain = generate(tiny, (3, 1, 4), max_new_tokens=9).tokens
    tiny.generation_defaults = GenerationDefaults.read({"do_sample": True, "temperature": 1.4, "max_new_tokens": 6})
    drawn = generate(tiny, (3, 1, 4), temperature=1.4, max_new_tokens=6, ignore_defaults=True).tokens
    assert generate(tiny, (3, 1, 4)).tokens == drawn != plain[:6]
    assert generate(tiny, Request(prompt=(3, 1, 4))).tokens == drawn
    assert generate(tiny, (3, 1, 4), temperature=0).tokens == plain[:6]
    assert generate(tiny, (3, 1, 4), max_new_tokens=9, ignore_defaults=True).tokens == plain
    assert len(generate(tiny, (3, 1, 4), n=2)) == 2  # the temperature is the model's


def test_a_default_that_does_not_fit_stops_and_a_request_is_refused() -> None:
    tiny = fresh(model("gpt2").config, seed=7, dtype=torch.float64, std=0.4)
    tiny.generation_defaults = GenerationDefaults.read({"max_new_tokens": 900, "suppress_tokens": [END]})
    found = generate(tiny, (3, 1, 4))
    assert (len(found.tokens), found.finish) == (38, "length")
    with pytest.raises(ValueError, match="max_new_tokens=900 more do not fit"):
        generate(tiny, (3, 1, 4), max_new_tokens=900)


def test_what_a_generation_config_says() -> None:
    bart = {"max_length": 142, "min_length": 56, "num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0}
    found = GenerationDefaults.read(bart, source=True)
    assert found.options == {"no_repeat_ngram_size": 3, "max_new_tokens": 141, "min_new_tokens": 55}
    assert found.ignored == ("num_beams=4", "length_penalty=2.0")
    alone = GenerationDefaults.read({"min_length": 56, "temperature": 0.6, "top_k": 3})
    assert (alone.options, alone.ignored) == ({}, ("min_length=56",))
    wrong = GenerationDefaults.read({"do_sample": True, "top_p": 3.0, "top_k": "many", "repetition_penalty": 1.1})
    assert wrong.options == {"repetition_penalty": 1.1, "temperature": 1.0}
    assert wrong.ignored == ("top_k=many", "top_p=3.0")


def test_an_end_that_the_vocabulary_lacks_is_no_token_to_forbid() -> None:
    model = hw.build("gpt2", layers=1, width=8, heads=2, vocabulary=31, length=16, seed=1).eval()
    assert model.config.special.end == (50256,)
    assert len(hw.generate(model, [5, 7], min_new_tokens=3, max_new_tokens=4).tokens) == 4


def test_a_default_that_is_written_as_text_is_the_number() -> None:
    assert GenerationDefaults.read({"do_sample": True, "temperature": "0.5"}).options == {"temperature": 0.5}
