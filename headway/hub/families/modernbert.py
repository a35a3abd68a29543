"""ModernBERT's layout: layers that see all and layers with a window, each kind with a rotary base of its own.

Older files have `global_attn_every_n_layers` and two rotary bases, newer ones say it layer by layer. Both are read and
both are written. Queries, keys and values are one tensor, and so are the two maps of a gated feed-forward.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.common import (
    activation_of,
    activation_to,
    architecture_of,
    layers_of,
    refuse,
    special_of,
    special_to,
    unfit,
)
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.encoders import modernbert
from headway.presets.llama import window_of

PREFIX = "model."
_OURS, _THEIRS = "stack.blocks.{i}", "model.layers.{i}"
LAYER = {
    "attn.Wqkv": ("attention.query", "attention.key", "attention.value"),
    "attn.Wo": "attention.out",
    "mlp.Wi": ("feedforward.gate", "feedforward.up"),
    "mlp.Wo": "feedforward.down",
    "attn_norm": "attention_norm",
    "mlp_norm": "feedforward_norm",
}
WORDS = [
    Entry("decoder.bias", "word_head.bias"),
    Tied("decoder.weight", "model.embeddings.tok_embeddings.weight"),
]
CLASSIFIER = both({"classifier": "class_head"})
ANSWERS = both({"classifier": "answer_head"})
FULL, NEAR = "full_attention", "sliding_attention"
# The base of each kind, and the word that older files have for it.
BASES = {FULL: ("global_rope_theta", 160000.0), NEAR: ("local_rope_theta", 10000.0)}
DEFAULTS = {
    "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
    "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "norm_eps": 1e-5,
    "norm_bias": False, "pad_token_id": 50283, "eos_token_id": 50282, "bos_token_id": 50281, "attention_bias": False,
    "local_attention": 128, "mlp_bias": False, "decoder_bias": True, "classifier_pooling": "cls",
    "classifier_bias": False, "classifier_activation": "gelu", "global_attn_every_n_layers": 3,
}  # fmt: skip
POOLINGS = {"cls": "first", "mean": "mean"}


def table(config: MaskedConfig) -> Table:
    block = config.stack.block
    assert block.feedforward is not None
    norm, head = block.norm == "layer", config.pooler_bias
    biased = {"attn": block.attention.bias, "mlp": block.feedforward.bias}
    layers = [
        row
        for theirs, ours in LAYER.items()
        for row in _rows(
            f"{_THEIRS}.{theirs}",
            f"{_OURS}.{ours}" if isinstance(ours, str) else tuple(f"{_OURS}.{one}" for one in ours),
            norm if theirs.endswith("norm") else biased[theirs.partition(".")[0]],
        )
    ]
    rows = [row for row in expand(layers, i=range(config.stack.layers)) if ".layers.0.attn_norm." not in row.theirs]
    return [
        Entry("model.embeddings.tok_embeddings.weight", "tokens.weight"),
        *_rows("model.embeddings.norm", "norm", norm),
        *rows,
        *_rows("model.final_norm", "stack.norm", norm),
        *(_rows("head.dense", "word_head.dense", head) if config.words else []),
        *(_rows("head.norm", "word_head.norm", norm) if config.words else []),
        *(WORDS if config.words else []),
        *(_rows("head.dense", "pooler", head) if config.pooler else []),
        *(_rows("head.norm", "pooler_norm", norm) if config.pooler else []),
        *head_rows(config, CLASSIFIER, ANSWERS),
    ]


def _rows(theirs: str, ours: str | tuple[str, ...], bias: bool) -> Table:
    """A weight, and a bias where there is one; ours may be several, one below the other."""
    parts = ("weight", "bias") if bias else ("weight",)
    if isinstance(ours, str):
        return [Entry(f"{theirs}.{part}", f"{ours}.{part}") for part in parts]
    return [Entry(f"{theirs}.{part}", tuple(f"{one}.{part}" for one in ours)) for part in parts]


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "layers.", "final_norm.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config) == "ModernBertModel" else name


def architecture(config: MaskedConfig) -> str:
    return architecture_with("ModernBert", config, "ForMaskedLM" if config.words else "Model")


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    c = DEFAULTS | dict(config)
    refuse(c, {"rope_scaling": None, "decoder_bias": True})
    found = read_heads("ModernBert", config, names, answers="classifier.")
    # One tensor, head.dense, is the map of either head, so a directory has one of them.
    words = not found and (has(names, "decoder.") or architecture_of(config) == "ModernBertForMaskedLM")
    if words:
        refuse(config, {"tie_word_embeddings": True})
    if c["classifier_pooling"] not in POOLINGS:
        raise ValueError(f"headway does not read models with classifier_pooling={c['classifier_pooling']!r} "
                         f"(only with {' or '.join(POOLINGS)})")  # fmt: skip
    curve = activation_of(c["classifier_activation"])
    return modernbert(
        vocabulary=c["vocab_size"],
        width=c["hidden_size"],
        heads=c["num_attention_heads"],
        layers=c["num_hidden_layers"],
        hidden=c["intermediate_size"],
        length=c["max_position_embeddings"],
        windows=_windows(c),
        bases=(_base(c, FULL), _base(c, NEAR)),
        activation=activation_of(c["hidden_activation"]),
        bias=c["attention_bias"],
        hidden_bias=c["mlp_bias"],
        norm="layer" if c["norm_bias"] else "layer_unbiased",
        eps=c["norm_eps"],
        pooler_activation=curve,
        pooler_bias=c["classifier_bias"],
        pooler_over=POOLINGS[c["classifier_pooling"]],
        word_activation=curve,
        special=special_of(c),
        words=words,
        **found,
    )


def _windows(c: Mapping[str, Any]) -> list[int | None]:
    """How far each layer sees: `local_attention` // 2 tokens to each side, and itself."""
    layers, every = layers_of(c), c["global_attn_every_n_layers"]
    kinds = c.get("layer_types") or [NEAR if layer % every else FULL for layer in range(layers)]
    sees = {FULL: None, NEAR: c["local_attention"] // 2 + 1}
    if len(kinds) != layers or not set(kinds) <= set(sees):
        raise ValueError(f"headway does not read a modernbert of {layers} layers with layer_types={kinds}")
    return [sees[kind] for kind in kinds]


def _base(c: Mapping[str, Any], kind: str) -> float:
    older, usual = BASES[kind]
    said = (c.get("rope_parameters") or {}).get(kind) or {}
    refuse(said, {"rope_type": "default"})
    found = said.get("rope_theta", c.get(older, usual))
    if found is None:
        raise ValueError(f"headway does not read a modernbert with {older}=None (only with a rotary base)")
    return float(found)


def write(config: MaskedConfig) -> dict[str, Any]:
    block, blocks = config.stack.block, config.stack.blocks
    if block.feedforward is None or any(one.attention.rotary is None for one in blocks):
        raise unfit("modernbert", "feedforward" if block.feedforward is None else "rotary", None)
    if config.words and config.pooler:
        raise unfit("modernbert", "words=True and pooler", True)
    kinds = [FULL if window_of(one.attention) is None else NEAR for one in blocks]
    bases = {kind: usual for kind, (_, usual) in BASES.items()}
    for kind, one in zip(kinds, blocks, strict=True):
        assert one.attention.rotary is not None
        bases[kind] = one.attention.rotary.base
    near = next((window for one in blocks if (window := window_of(one.attention)) is not None), None)
    return {
        "model_type": "modernbert",
        "architectures": [architecture(config)],
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "intermediate_size": block.feedforward.hidden,
        "hidden_activation": activation_to(block.feedforward.activation),
        "max_position_embeddings": config.length,
        "norm_eps": config.eps,
        "norm_bias": block.norm == "layer",
        "attention_bias": block.attention.bias,
        "mlp_bias": block.feedforward.bias,
        "layer_types": kinds,
        "rope_parameters": {kind: {"rope_theta": base, "rope_type": "default"} for kind, base in bases.items()},
        **_interval(kinds),
        **{older: bases[kind] for kind, (older, _) in BASES.items()},
        **({} if near is None else {"local_attention": 2 * (near - 1)}),
        "classifier_pooling": next(theirs for theirs, ours in POOLINGS.items() if ours == config.pooler_over),
        "classifier_bias": config.pooler_bias,
        "classifier_activation": activation_to(config.pooler_activation),
        "tie_word_embeddings": True,
        **special_to(config.special),
        **write_heads(config),
    }


def _interval(kinds: list[str]) -> dict[str, int]:
    """The older word for which layers see all, where it can say it."""
    same = (n for n in range(1, len(kinds) + 1) if kinds == [NEAR if i % n else FULL for i in range(len(kinds))])
    every = next(same, None)
    return {} if every is None else {"global_attn_every_n_layers": every}


FAMILY = Family("modernbert", read, write, table, ("modernbert",), canonical, (), exported)
