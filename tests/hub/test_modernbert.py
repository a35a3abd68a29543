"""ModernBERT's layout: older and newer words for the same layers, one head in a directory, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.config.text import MaskedConfig
from headway.hub.families.modernbert import FULL, NEAR, read, write
from headway.models.encoder import Masked
from headway.presets.encoders import modernbert
from headway.presets.llama import window_of
from tests.fresh import fresh

SIZES: dict[str, Any] = dict(width=22, heads=1, layers=5, hidden=7, vocabulary=19, length=13)
OLDER: dict[str, Any] = dict(
    model_type="modernbert", vocab_size=19, hidden_size=22, num_attention_heads=1, num_hidden_layers=5,
    intermediate_size=7, max_position_embeddings=13, global_attn_every_n_layers=2, local_attention=6,
    global_rope_theta=70000.0, local_rope_theta=300.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
BASES = {FULL: {"rope_theta": 70000.0, "rope_type": "default"}, NEAR: {"rope_theta": 300.0, "rope_type": "default"}}


def reads(**changes: Any) -> MaskedConfig:
    return read({**OLDER, **changes}, frozenset())


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in OLDER.items() if name not in names}


def test_older_words_say_which_layers_see_all_and_how_they_turn() -> None:
    blocks = reads().stack.blocks
    assert [window_of(block.attention) for block in blocks] == [None, 4, None, 4, None]
    bases = [block.attention.rotary.base for block in blocks if block.attention.rotary is not None]
    assert bases == [70000.0, 300.0, 70000.0, 300.0, 70000.0]
    assert [block.first_norm for block in blocks] == [False, True, True, True, True]


def test_newer_words_say_the_same() -> None:
    newer = without("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    kinds = [FULL, NEAR, FULL, NEAR, FULL]
    assert read({**newer, "layer_types": kinds, "rope_parameters": BASES}, frozenset()) == reads()


def test_both_are_written_where_both_can_say_it() -> None:
    written = write(reads())
    assert {name: written[name] for name in OLDER} == OLDER
    assert written["layer_types"] == [FULL, NEAR, FULL, NEAR, FULL] and written["rope_parameters"] == BASES
    uneven = write(reads(layer_types=[NEAR, NEAR, FULL, NEAR, FULL]))
    assert "global_attn_every_n_layers" not in uneven
    assert uneven["layer_types"] == [NEAR, NEAR, FULL, NEAR, FULL]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(classifier_pooling="max"), "classifier_pooling='max' .only with cls or mean"),
        (dict(decoder_bias=False), "decoder_bias=False"),
        (dict(rope_scaling={"rope_type": "linear", "factor": 2.0}), "rope_scaling="),
        (dict(rope_parameters={NEAR: {"rope_type": "yarn"}}), "rope_type='yarn'"),
        (dict(local_rope_theta=None), "local_rope_theta=None"),
        (dict(layer_types=[FULL, NEAR]), "5 layers with layer_types="),
        (dict(layer_types=[FULL, NEAR, FULL, NEAR, "chunked_attention"]), "chunked_attention"),
        (dict(architectures=["ModernBertForMaskedLM"], tie_word_embeddings=False), "tie_word_embeddings=False"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reads(**changes)


def test_one_tensor_is_the_map_of_either_head(tmp_path: Path) -> None:
    """A directory with both heads would give the second one the first one's map."""
    model = fresh(modernbert(**SIZES, words=True, classes=3, special=reads().special))
    with pytest.raises(ValueError, match=r"no word for words=True and pooler=True.*layout='headway'"):
        headway.save(model, tmp_path / "theirs")
    headway.save(model, tmp_path / "ours", layout="headway")
    again = headway.load(tmp_path / "ours").model
    tokens = torch.arange(10).reshape(2, 5)
    assert torch.equal(again.words(again.hidden_states(tokens)), model.words(model.hidden_states(tokens)))


def test_a_classifier_made_of_a_bare_model_is_saved_in_its_layout(tmp_path: Path) -> None:
    bare = modernbert(**SIZES, special=reads().special)
    model = fresh(bare.model_copy(update={"pooler": True, "classes": 3}))
    headway.save(model, tmp_path / "classifier")
    again = headway.load(tmp_path / "classifier").model
    assert isinstance(again, Masked) and again.config == model.config
    with pytest.raises(ValueError, match="pooler_tokens=True: heads of tokens"):
        bare.replace(answers=True)
