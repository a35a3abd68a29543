"""How models of x-transformers and sentence-transformers, and torch's own layers, are called."""

from pathlib import Path
from typing import Any

import pytest
import torch
import x_transformers
from sentence_transformers.sentence_transformer import modules
from torch import nn
from x_transformers import Decoder, Encoder, TransformerWrapper

from headway.adapt.adapter import Adapter
from headway.adapt.guess import guess_adapter
from headway.audit.examination import examine
from tests.parity.sentence.theirs import WIDTH as THEIR_WIDTH
from tests.parity.sentence.theirs import encoder, made

LAYERS: dict[str, Any] = dict(dim=16, depth=2, heads=2, attn_dim_head=8)


def wrapped(layers: type, **more: Any) -> nn.Module:
    torch.manual_seed(3)
    return TransformerWrapper(num_tokens=31, max_seq_len=64, attn_layers=layers(**LAYERS, **more)).eval()


def statuses(model: nn.Module, laws: str) -> dict[str, str]:
    return {finding.law: finding.status for finding in examine(model, laws=laws)}


def test_a_wrapped_decoder() -> None:
    found = guess_adapter(wrapped(Decoder), None, {})
    assert (found.vocabulary, found.longest, found.causal, found.mask, found.positions) == (31, 64, True, "mask", "pos")
    assert not found.hides and found.mask_type == "bool" and found.session is not None


def test_a_wrapped_decoder_holds() -> None:
    """Pieces of several tokens too, which its cache reads only when told how many they are."""
    found = statuses(wrapped(Decoder, attn_flash=True), "causal,padding,cache,segments")
    assert set(found.values()) == {"holds"} and len(found) == 4


def test_positions_that_a_bias_refuses_are_not_passed() -> None:
    model = wrapped(Decoder, rel_pos_bias=True)
    assert guess_adapter(model, None, {}).positions is None


def test_a_wrapped_encoder() -> None:
    found = guess_adapter(wrapped(Encoder), None, {})
    assert found.causal is False and found.session is None


def test_vectors_and_images() -> None:
    layers = Encoder(**LAYERS)
    vectors = x_transformers.ContinuousTransformerWrapper(dim_in=9, dim_out=7, max_seq_len=20, attn_layers=layers)
    pictures = x_transformers.ViTransformerWrapper(image_size=12, patch_size=4, num_classes=5, attn_layers=layers)
    assert guess_adapter(vectors, None, {}).width == 9
    assert guess_adapter(layers, None, {}).width == 16
    assert guess_adapter(pictures, None, {}).image == (3, 12, 12)


def test_an_encoder_and_a_decoder() -> None:
    sizes: dict[str, Any] = dict(num_tokens=31, depth=1, heads=2, max_seq_len=64)
    both: dict[str, Any] = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in sizes.items()}
    both["dec_num_tokens"] = 29
    model = x_transformers.XTransformer(dim=16, **both).eval()
    found = guess_adapter(model, None, {})
    assert (found.vocabulary, found.source_vocabulary, found.takes) == (29, 31, {"keep", "source"})
    assert statuses(model, "causal,batch") == {"causal": "holds", "batch": "holds"}


def test_a_wrapper_that_gives_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gives a loss.*examine what it wraps"):
        guess_adapter(x_transformers.AutoregressiveWrapper(wrapped(Decoder)), None, {})


SIZES: dict[str, Any] = dict(d_model=16, nhead=2, dim_feedforward=12)
TORCH: dict[str, tuple[Any, bool, bool | None]] = {
    "encoder": (lambda **how: nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES, **how), 2), False, True),
    "layer": (lambda **how: nn.TransformerEncoderLayer(**SIZES, **how), False, True),
    "decoder layer": (lambda **how: nn.TransformerDecoderLayer(**SIZES, **how), True, None),
    "both": (lambda **how: nn.Transformer(16, 2, 1, 1, 12, **how), True, None),
    "attention": (lambda **how: nn.MultiheadAttention(16, 2, **how), False, True),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("name", TORCH)
def test_layers_of_torch(name: str, batch_first: bool) -> None:
    """Either way round, they are read B L D."""
    make, causal, equivariant = TORCH[name]
    model = make(batch_first=batch_first).eval()
    found = guess_adapter(model, None, {})
    assert (found.width, found.causal, found.equivariant) == (16, causal, equivariant)
    assert statuses(model, "padding,batch,segments") == {"padding": "holds", "batch": "holds", "segments": "holds"}


def test_a_sentence_encoder() -> None:
    class SentenceTransformer(nn.Module):
        """By its manners alone: the real one wants a tokenizer."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Embedding(17, 6)
            self.inner.config = type("Config", (), {"vocab_size": 17, "max_position_embeddings": 9})()  # type: ignore[assignment]

        def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            keep = features["attention_mask"][..., None]
            summed = (self.inner(features["input_ids"]) * keep).sum(1) / keep.sum(1)
            return {"token_embeddings": summed[:, None] * 2, "sentence_embedding": summed}

    SentenceTransformer.__module__ = "sentence_transformers.model"
    model = SentenceTransformer()
    found: Adapter = guess_adapter(model, None, {})
    assert (found.vocabulary, found.longest, found.causal) == (17, 9, False)
    assert statuses(model, "padding") == {"padding": "holds"}


def test_a_sentence_encoder_of_the_library(tmp_path: Path) -> None:
    """Left padding too: its BERT is told positions, which the library passes on."""
    model = made(tmp_path / "all", encoder(tmp_path / "encoder"), modules.Pooling(THEIR_WIDTH))
    assert statuses(model, "padding,batch") == {"padding": "holds", "batch": "holds"}
