"""Anybody's modules: what they read is found by calling them, the rest by names."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.adapt.guess import guess_adapter
from headway.audit.examination import examine

V, W, PLACES = 31, 12, 23


class Small(nn.Module):
    """A table of tokens, a table of places, one layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        # Before that of the tokens, so that the first table is the wrong one.
        self.places, self.tokens = nn.Embedding(PLACES, W), nn.Embedding(V, W)
        self.layer = nn.TransformerEncoderLayer(W, 2, 14, 0.1, batch_first=True)
        self.head = nn.Linear(W, V)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, None]:
        length = idx.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.tokens(idx) + self.places(torch.arange(length))
        return self.head(self.layer(x, src_mask=later)), None


class SmallGPT(Small):
    pass


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(V, W)
        self.layer = nn.TransformerEncoderLayer(W, 2, 14, batch_first=True)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return self.layer(self.tokens(tokens), src_key_padding_mask=key_padding_mask)


class Pairs(nn.Module):
    """`mask` has a truth for each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(W), nn.MultiheadAttention(W, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.norm(x)
        return x + self.mix(y, y, y, attn_mask=mask)[0]


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.theirs, self.ours = nn.Embedding(V, W), nn.Embedding(29, W)
        self.body, self.head = nn.Transformer(W, 2, 1, 1, 14, batch_first=True), nn.Linear(W, 29)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        later = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        return self.head(self.body(self.theirs(src), self.ours(tgt), tgt_mask=later))


class Pixels(nn.Module):
    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2 * 26 * 26, 5)
        vars(self).update(more)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.convolution(x).flatten(1))


class OneHot(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.one_hot(x, 7).to(self.linear.weight.dtype))


def test_tokens_and_places_by_watching() -> None:
    found = guess_adapter(Small(), None, {})
    assert (found.inputs, found.vocabulary, found.longest, found.mask) == ("tokens", V, PLACES, None)


def test_logits_are_taken_for_those_of_the_next_token_and_that_is_told() -> None:
    found, named = guess_adapter(Small(), None, {}), guess_adapter(SmallGPT(), None, {})
    assert found.causal is True and any("next token" in note for note in found.notes)
    assert named.causal is True and any("name" in note for note in named.notes)
    assert guess_adapter(Small(), None, {"causal": False}).causal is False


def test_an_audit_of_it() -> None:
    found = {finding.law: finding.status for finding in examine(Small(), laws="causal,padding,batch")}
    assert found == {"causal": "holds", "padding": "not applicable", "batch": "holds"}


def test_a_mask_that_hides() -> None:
    found = guess_adapter(Encoder(), None, {})
    assert (found.mask, found.hides, found.mask_type, found.causal) == ("key_padding_mask", True, "bool", False)
    assert examine(Encoder(), laws="padding").holds


def test_a_mask_of_pairs_is_left_out_and_that_is_told() -> None:
    found = guess_adapter(Pairs(), None, {})
    assert (found.inputs, found.width, found.mask, found.causal) == ("vectors", W, None, None)
    assert any("`mask`" in note for note in found.notes)


def test_a_source_and_a_target() -> None:
    found = guess_adapter(Translator(), None, {})
    assert (found.source, found.argument, found.causal) == ("src", "tgt", True)
    assert (found.source_vocabulary, found.vocabulary) == (V, 29)
    assert examine(Translator(), laws="causal").holds


class Usual(Translator):
    """The names that transformers uses, without its configuration."""

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, decoder_input_ids: Tensor | None = None
    ) -> Tensor:
        assert decoder_input_ids is not None
        return super().forward(input_ids, decoder_input_ids)


def test_a_source_and_a_target_by_their_usual_names() -> None:
    found = guess_adapter(Usual(), None, {})
    assert (found.source, found.argument, found.mask) == ("input_ids", "decoder_input_ids", None)
    assert (found.source_vocabulary, found.vocabulary) == (V, 29)


def test_images() -> None:
    assert guess_adapter(Pixels(), None, {}).image == (1, 28, 28)
    assert guess_adapter(Pixels(pretrained_cfg={"input_size": (1, 28, 28)}), None, {}).image == (1, 28, 28)


def test_a_sequence_of_layers() -> None:
    found = guess_adapter(nn.Sequential(nn.Embedding(V, W), nn.Linear(W, 5)), None, {})
    assert (found.vocabulary, found.causal) == (V, None)


def test_what_nobody_can_guess_names_what_to_give() -> None:
    with pytest.raises(ValueError, match=r"what OneHot reads.*vocabulary= .--vocabulary.*Adapter"):
        guess_adapter(OneHot(), None, {})
    assert guess_adapter(OneHot(), None, {"vocabulary": 7}).inputs == "tokens"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no 'vocabluary' .did you mean vocabulary"):
        guess_adapter(OneHot(), None, {"vocabluary": 7})


def test_guessing_leaves_the_model_and_the_draws_as_they_were() -> None:
    model = Small().train()
    model.head.eval()
    torch.manual_seed(1)
    guess_adapter(model, None, {})
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    assert model.training and model.layer.training and not model.head.training
