"""What can be asked: one sentence for what cannot."""

import math

import pytest

from headway.decoding import Request

MISTAKES = {
    "a Request has a prompt or messages, and this one has neither": dict(prompt=None),
    "a Request has a prompt or messages, and this one has both": dict(messages=[{"role": "user", "content": "Hi"}]),
    r'messages are a list of at least one \{"role": "user", "content": "..."\}, not \[\]': dict(
        prompt=None, messages=[]
    ),
    r'a message is \{"role": "user", "content": "..."\}, not \{\'content\': 3\}': dict(
        prompt=None, messages=[{"content": 3}]
    ),
    "tools and template_variables are for a chat template: give messages, not a prompt": dict(tools=[{"a": 1}]),
    "min_new_tokens=9 is more than max_new_tokens=3": dict(min_new_tokens=9, max_new_tokens=3),
    "frequency_penalty=nan: input should be": dict(frequency_penalty=math.nan),
    "the logit_bias of token 3 is a number, or -inf to forbid it; not inf": dict(logit_bias={3: math.inf}),
    "no_repeat_ngram_size=-1: input should be greater than or equal to 0": dict(no_repeat_ngram_size=-1),
    "max_new_tokens=0: input should be greater than or equal to 1": dict(max_new_tokens=0),
    "temperature=-0.5: input should be greater than or equal to 0": dict(temperature=-0.5),
    "temperature=inf: input should be a finite number": dict(temperature=math.inf),
    "temperature=nan: input should be": dict(temperature=math.nan),
    "top_k=-1: input should be greater than or equal to 0": dict(top_k=-1),
    "top_p=0.0: input should be greater than 0": dict(top_p=0.0),
    "top_p=1.5: input should be less than or equal to 1": dict(top_p=1.5),
    "min_p=1.5: input should be less than or equal to 1": dict(min_p=1.5),
    "repetition_penalty=0.0: input should be greater than 0": dict(repetition_penalty=0.0),
    "stop='': string should have at least 1 character": dict(stop=[""]),
    "seed=-1: input should be greater than or equal to 0": dict(seed=-1),
    "logprobs=-2: input should be greater than or equal to 0": dict(logprobs=-2),
    r"no option 'temprature' \(did you mean temperature\?\)": dict(temprature=1.0),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_one_sentence(sentence: str) -> None:
    given = MISTAKES[sentence]
    with pytest.raises(ValueError, match=sentence) as caught:
        Request(**{"prompt": (3,)} | given)
    assert "\n" not in str(caught.value)


def test_a_negative_token_is_no_prompt() -> None:
    with pytest.raises(ValueError, match="prompt"):
        Request(prompt=(3, -1))


def test_lists_and_single_strings_are_understood() -> None:
    request = Request(prompt=[3, 5], stop="end")
    assert (request.prompt, request.stop) == ((3, 5), ("end",))
    assert Request.model_validate_json(request.model_dump_json()) == request
