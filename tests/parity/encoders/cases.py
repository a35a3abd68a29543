"""Tiny random models of every family of encoders as transformers makes them, with each of their heads."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from headway.models.encoder import Masked
from tests.parity.compare import shake

VOCABULARY, LENGTH, FIRST = 53, 19, 5  # tokens below the first have a meaning of their own
CLASSES = 3
Read = Callable[[Masked, Tensor, Tensor | None], Tensor]
# What a class of transformers is for -> its outputs, and how ours are made of hidden states and padding.
HEADS: dict[str, dict[str, Read]] = {
    "Model": {"last_hidden_state": lambda model, hidden, keep: hidden},
    "ForMaskedLM": {"logits": lambda model, hidden, keep: model.words(hidden)},
    "ForSequenceClassification": {"logits": lambda model, hidden, keep: model.classify(hidden, keep)},
    "ForTokenClassification": {"logits": lambda model, hidden, keep: model.classify_tokens(hidden)},
    "ForQuestionAnswering": {
        "start_logits": lambda model, hidden, keep: model.answers(hidden)[..., 0],
        "end_logits": lambda model, hidden, keep: model.answers(hidden)[..., 1],
    },
}
REPLACED: dict[str, Read] = {"logits": lambda model, hidden, keep: model.replaced(hidden)[..., 0]}
PAIRED: dict[str, Read] = {
    "prediction_logits": lambda model, hidden, keep: model.words(hidden),
    "sop_logits": lambda model, hidden, keep: model.adjacent(hidden, keep),
}
POOLED: dict[str, Read] = {"pooler_output": lambda model, hidden, keep: model.pooled(hidden, keep)}


@dataclass(frozen=True)
class Encoders:
    """One family: the stem of its classes, sizes in its own words, and what its table has before position 0."""

    stem: str
    sizes: dict[str, Any]
    before: int = 0
    outputs: dict[str, dict[str, Read]] = field(default_factory=dict)  # beside HEADS
    tolerance: float = 1e-12

    @property
    def heads(self) -> dict[str, dict[str, Read]]:
        names = {**HEADS, **self.outputs}
        return {name: {**HEADS.get(name, {}), **self.outputs.get(name, {})} for name in names}


_BERT = dict(hidden_size=22, num_attention_heads=2, num_hidden_layers=3, intermediate_size=31)
_ROBERTA = dict(_BERT, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-3)
_MODERN = dict(
    hidden_size=24, num_attention_heads=3, num_hidden_layers=4, intermediate_size=17, local_attention=6, pad_token_id=3,
    bos_token_id=1, eos_token_id=2, norm_eps=1e-3,
)  # fmt: skip
_BIASED = dict(
    norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, classifier_pooling="mean",
    classifier_activation="relu", global_attn_every_n_layers=2,
)  # fmt: skip
FAMILIES: dict[str, Encoders] = {
    "bert": Encoders("Bert", dict(_BERT, type_vocab_size=2)),
    "roberta": Encoders("Roberta", _ROBERTA, before=2, outputs={"Model": POOLED}),
    "roberta, relu": Encoders("Roberta", dict(_ROBERTA, hidden_act="relu", pad_token_id=2), before=3),
    "xlm-roberta": Encoders("XLMRoberta", _ROBERTA, before=2),
    "camembert": Encoders("Camembert", _ROBERTA, before=2),
    "distilbert": Encoders("DistilBert", dict(dim=22, n_heads=2, n_layers=3, hidden_dim=31, activation="gelu")),
    "electra": Encoders("Electra", dict(_BERT, embedding_size=13), outputs={"ForPreTraining": REPLACED}),
    "electra, wide": Encoders("Electra", dict(_BERT, embedding_size=22), outputs={"ForPreTraining": REPLACED}),
    "albert": Encoders(
        "Albert", dict(_BERT, embedding_size=13), outputs={"Model": POOLED, "ForPreTraining": PAIRED}
    ),
    "mpnet": Encoders("MPNet", dict(_BERT), before=2, outputs={"Model": POOLED}),
    # Theirs turns queries and keys in float32, whatever the weights are in.
    "modernbert": Encoders("ModernBert", dict(_MODERN), tolerance=2e-6),
    "modernbert, mean": Encoders("ModernBert", dict(_MODERN, **_BIASED), tolerance=2e-6),
}  # fmt: skip
# Of a second shape, and of relatives that differ in a name, the heads that differ most are enough.
FEW = {
    "electra, wide": ("ForPreTraining",),
    "modernbert, mean": ("ForMaskedLM", "ForSequenceClassification"),
    "roberta, relu": ("ForMaskedLM",),
    "xlm-roberta": ("Model", "ForSequenceClassification"),
    "camembert": ("Model",),
}
CASES = [(family, head) for family, its in FAMILIES.items() for head in FEW.get(family, its.heads)]


def theirs(family: str, head: str, path: Path) -> Any:
    """In float64, in which a difference means something, and saved so."""
    made = FAMILIES[family]
    torch.manual_seed(1)
    config = getattr(transformers, f"{made.stem}Config")(
        vocab_size=VOCABULARY, max_position_embeddings=LENGTH + made.before,
        num_labels=2 if head in ("ForQuestionAnswering", "ForPreTraining") else CLASSES, **made.sizes,
    )  # fmt: skip
    model = getattr(transformers, made.stem + head)(config).eval().double()
    shake(model)
    model.save_pretrained(path)
    return model
