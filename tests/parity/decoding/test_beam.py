"""Beam search and greedy decoding beside transformers, on random tiny models: the same texts with the same scores."""

from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

import headway
from headway.decoding import Request, beam, generate
from tests.parity.compare import shake

V, PAD, END, MOST = 31, 0, 1, 9
ENDS = [END, 11, 17, 28, 19]  # several, so that random models come upon one
SPECIAL = dict(vocab_size=V, pad_token_id=PAD, eos_token_id=ENDS)
PROMPTS = [(5, 7, 11, 1), (3, 4, 8, 9, 17, 23)]
UNTIL = {True: "full", False: "likely", "never": "certain"}


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """Hundreds of steps: without checking annotations they take a third of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def t5() -> PreTrainedModel:
    return T5ForConditionalGeneration(
        T5Config(d_model=12, d_kv=5, d_ff=19, num_layers=2, num_heads=3, decoder_start_token_id=PAD,
                 relative_attention_num_buckets=6, relative_attention_max_distance=13, **SPECIAL)
    )  # fmt: skip


def bart() -> PreTrainedModel:
    """With a forced last token, as BART's published configurations have it."""
    return BartForConditionalGeneration(
        BartConfig(d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=2,
                   encoder_ffn_dim=19, decoder_ffn_dim=23, max_position_embeddings=29, bos_token_id=3,
                   decoder_start_token_id=2, forced_eos_token_id=END, **SPECIAL)
    )  # fmt: skip


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(n_embd=12, n_layer=2, n_head=3, n_positions=29, bos_token_id=END, **SPECIAL))


def llama() -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(hidden_size=12, intermediate_size=19, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, max_position_embeddings=29, bos_token_id=2, **SPECIAL)
    )  # fmt: skip


MAKERS = {maker.__name__: maker for maker in (t5, bart, gpt2, llama)}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[PreTrainedModel, object]]:
    found = {}
    for name, maker in MAKERS.items():
        torch.manual_seed(3)
        other = maker().eval()
        shake(other, size=0.3)
        path: Path = tmp_path_factory.mktemp(name)
        other.save_pretrained(path)
        found[name] = other, headway.load(path).model
    return found


def produced(row: torch.Tensor, prompt: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Their tokens without the prompt, without the padding after the end."""
    new = row.tolist()[1 if name in ("t5", "bart") else len(prompt) :]
    end = next((place for place, token in enumerate(new) if token in ENDS), MOST)
    return tuple(new[: end + 1])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("early", "beams", "alpha"),
    [(True, 3, 1.0), (False, 2, 1.0), (False, 4, 0.0), (False, 3, -0.7), ("never", 3, 2.0), ("never", 2, -0.7)],
)
def test_the_same_texts_and_scores(pairs: dict, name: str, early: bool | str, beams: int, alpha: float) -> None:
    other, model = pairs[name]
    found = beam(
        model, [Request(prompt=prompt, max_new_tokens=MOST) for prompt in PROMPTS],
        beams=beams, alpha=alpha, until=UNTIL[early],
    )  # fmt: skip
    for prompt, results in zip(PROMPTS, found, strict=True):
        right = other.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=MOST,
            num_beams=beams, num_return_sequences=beams, length_penalty=alpha, early_stopping=early, do_sample=False,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        assert [result.tokens for result in results] == [produced(row, prompt, name) for row in right.sequences]
        assert [result.score for result in results] == pytest.approx(right.sequences_scores.tolist(), abs=1e-4)


def test_texts_end_at_many_lengths(pairs: dict) -> None:
    """So that the rules for when to stop have something to decide."""
    asked = [Request(prompt=prompt, max_new_tokens=MOST) for prompt in PROMPTS]
    found = [result for _, model in pairs.values() for one in beam(model, asked, beams=3) for result in one]
    assert len({len(result.tokens) for result in found}) > 6
    assert {result.finish for result in found} == {"end", "max_new_tokens"}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_the_same_greedy_tokens(pairs: dict, name: str, penalty: float) -> None:
    other, model = pairs[name]
    asked = [Request(prompt=prompt, max_new_tokens=MOST, repetition_penalty=penalty) for prompt in PROMPTS]
    for prompt, result in zip(PROMPTS, generate(model, asked), strict=True):
        right = other.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=MOST,
            do_sample=False, repetition_penalty=penalty,
        )  # fmt: skip
        assert result.tokens == produced(right[0], prompt, name)
