"""The exactness contract: a request gets the same tokens in any company, however it is padded, cached or streamed.

In float64 always; in float32 unless a tie is reported where they part. What is right is what each request gets alone,
with everything read again for each token.
"""

import math
from collections.abc import Callable, Iterator

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.decoding import DecodingBatch, Generation, Request, TokenEvent, generate, stream
from tests.decoding.tiny import CONFIGS, V, model
from tests.thorough import examples


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """Thousands of steps: without checking annotations they take a third of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


LANGUAGE = ["gpt2", "llama", "window", "linear", "gemma", "projected"]
Way = Callable[[torch.nn.Module, list[Request]], list[Generation]]


def collected(batch: DecodingBatch, requests: list[Request], when: list[int]) -> list[Generation]:
    """Requests that join the batch after so many steps each, while others are running."""
    found: dict[int, list[TokenEvent]] = {}
    order: list[int] = []
    step, left = 0, sorted(range(len(requests)), key=lambda i: when[i])
    while left or batch.running:
        now = [i for i in left if when[i] <= step]
        left = [i for i in left if i not in now]
        order += now
        batch.join([requests[i] for i in now])
        for event in batch.step():
            found.setdefault(order[event.request], []).append(event)
        step += 1
    return [Generation.of(found[i]) for i in range(len(requests))]


WAYS: dict[str, Way] = {
    "left": lambda m, r: generate(m, r, pad="left"),
    "right": lambda m, r: generate(m, r, pad="right"),
    "none": lambda m, r: generate(m, r, pad="none"),
    "two rows": lambda m, r: generate(m, r, rows=2),
    "alone": lambda m, r: [generate(m, [one])[0] for one in r],
    "reversed": lambda m, r: generate(m, r[::-1])[::-1],
    "joined": lambda m, r: collected(DecodingBatch(m, pad="right"), r, [0, 2, 1][: len(r)]),
    "streamed": lambda m, r: [
        Generation.of([e for e in stream(m, r, rows=2) if e.request == i]) for i in range(len(r))
    ],
}
UNCACHED: dict[str, Way] = {
    "uncached left": lambda m, r: generate(m, r, cache=False),
    "uncached right, two rows": lambda m, r: generate(m, r, cache=False, pad="right", rows=2),
}

requests = st.lists(
    st.builds(
        Request,
        prompt=st.lists(st.integers(0, V - 1), min_size=1, max_size=9).map(tuple),
        max_new_tokens=st.integers(1, 6),
        temperature=st.sampled_from([0.0, 0.0, 0.7, 1.3]),
        top_k=st.sampled_from([0, 0, 7]),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.05]),
        repetition_penalty=st.sampled_from([1.0, 1.0, 1.3]),
        frequency_penalty=st.sampled_from([0.0, 0.0, 0.9]),
        presence_penalty=st.sampled_from([0.0, 0.0, -0.7]),
        logit_bias=st.sampled_from([{}, {}, {3: 2.5, 8: -math.inf}]),
        min_new_tokens=st.sampled_from([0, 0, 1]),
        no_repeat_ngram_size=st.sampled_from([0, 0, 2]),
        stop_tokens=st.just((11,)),
        seed=st.integers(0, 99),
        logprobs=st.just(2),
    ),
    min_size=1,
    max_size=3,
)


def alone(name: str, dtype: torch.dtype, asked: list[Request]) -> list[Generation]:
    cache = CONFIGS[name].kind == "recurrent"
    return [generate(model(name, dtype), [request], cache=cache)[0] for request in asked]


def same(found: Generation, right: Generation, *, atol: float, exact: bool) -> None:
    """Equal up to a reported tie, log-probabilities included."""
    pairs = list(zip(found.tokens, right.tokens, strict=False))
    apart = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if apart is None:
        assert (found.tokens, found.finish) == (right.tokens, right.finish)
    else:
        assert not exact, (found, right)
        assert apart in found.ties or apart in right.ties, (found, right)
    until = len(pairs) if apart is None else apart
    assert found.logprobs is not None and right.logprobs is not None
    assert found.logprobs[:until] == pytest.approx(right.logprobs[:until], abs=atol, rel=0)
    for one, other in zip(found.likeliest[:until], right.likeliest[:until], strict=True):
        assert [value for _, value in one] == pytest.approx([value for _, value in other], abs=atol, rel=0)


@pytest.mark.parametrize("name", CONFIGS)
@given(asked=requests, way=st.sampled_from([*WAYS, *UNCACHED]))
@examples(4, 100)
def test_float64_gives_the_same_tokens_in_every_way(name: str, asked: list[Request], way: str) -> None:
    if name == "recurrent" and way in UNCACHED:
        way = "left"
    results = {**WAYS, **UNCACHED}[way](model(name), asked)
    for found, right in zip(results, alone(name, torch.float64, asked), strict=True):
        same(found, right, atol=1e-9, exact=True)


@pytest.mark.parametrize("name", LANGUAGE)
@pytest.mark.parametrize("pad", ["left", "right", "none"])
def test_prompts_shorter_than_a_window_outgrow_it(name: str, pad: str) -> None:
    """A window of 5 holds prompts of 1, 3 and 4 tokens with their padding, and has to let go of the padding first."""
    asked = [Request(prompt=prompt, max_new_tokens=12, logprobs=0) for prompt in ((1, 2, 3, 4), (6,), (7, 8, 9))]
    for found, right in zip(generate(model(name), asked, pad=pad), alone(name, torch.float64, asked), strict=True):
        same(found, right, atol=1e-9, exact=True)


@pytest.mark.parametrize("name", LANGUAGE)
@given(asked=requests, way=st.sampled_from(list(WAYS)))
@examples(4, 100)
def test_float32_gives_the_same_tokens_up_to_a_reported_tie(name: str, asked: list[Request], way: str) -> None:
    results = WAYS[way](model(name, torch.float32), asked)
    for found, right in zip(results, alone(name, torch.float32, asked), strict=True):
        same(found, right, atol=1e-4, exact=False)


@pytest.mark.parametrize("name", ["int8", "int4", "t5 int8"])
@given(asked=requests, way=st.sampled_from([*WAYS, *UNCACHED]))
@examples(4, 100)
def test_quantised_weights_give_the_same_tokens_with_compiled_products(
    name: str, asked: list[Request], way: str
) -> None:
    """Prompts by products of many rows and steps by programs, also where a map is so small that torch would do it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.nn.quantized.SMALL", 0)
        results = {**WAYS, **UNCACHED}[way](model(name, torch.float32), asked)
        for found, right in zip(results, alone(name, torch.float32, asked), strict=True):
            same(found, right, atol=1e-4, exact=False)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_models_are_worth_testing(name: str) -> None:
    """Tokens vary, depend on more than the last token, and some texts end before they must."""
    plain = [Request(prompt=(t, 8), max_new_tokens=12, temperature=1.0, logprobs=0) for t in range(11)]
    found = generate(model(name), plain)
    assert len({token for result in found for token in result.tokens}) > 9
    assert len({result.logprobs[0] for result in found if result.logprobs}) == 11
    assert {"end", "max_new_tokens"} == {result.finish for result in found}


@pytest.mark.parametrize("name", ["window", "linear"])
def test_sliding_past_the_length_is_what_a_longer_model_says(name: str) -> None:
    """Their caches hold all that they can see, so 45 tokens are the same from a model made for 41 and for 61."""
    request = Request(prompt=(3, 1, 4), max_new_tokens=45, temperature=1.0, logprobs=0)
    config = CONFIGS[name]
    endless = config.model_copy(update={"special": config.special.model_copy(update={"end": ()})})
    short, long = (type(model(name))(endless.model_copy(update={"length": length})) for length in (41, 61))
    for one in (short, long):
        one.double().load_state_dict(model(name).state_dict())
    [slid], [right] = generate(short, [request], past_length="slide"), generate(long, [request], cache=False)
    assert len(slid.tokens) == 45
    same(slid, right, atol=1e-9, exact=True)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_other_models_do_not_slide(name: str) -> None:
    with pytest.raises(ValueError, match="cannot slide past its length"):
        DecodingBatch(model(name), past_length="slide")


def test_a_source_too_long_is_refused_and_a_target_stops() -> None:
    bart = model("bart")
    with pytest.raises(ValueError, match="a source of 42 tokens is longer than the model's 41 positions"):
        generate(bart, [Request(prompt=(8,) * 42)])
    with pytest.raises(ValueError, match="1 token and max_new_tokens=41 more do not fit into the model's 41 positions"):
        generate(bart, [Request(prompt=(8,), max_new_tokens=41)])
    [result] = generate(bart, [Request(prompt=(8, 9), max_new_tokens=50, temperature=9.0, seed=3)], past_length="stop")
    assert result.finish in ("length", "end")
    with pytest.raises(ValueError, match="the prompt is empty"):
        generate(bart, [Request(prompt=())])
    with pytest.raises(ValueError, match="no other memory than its state"):
        DecodingBatch(model("recurrent"), cache=False)
