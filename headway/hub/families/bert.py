"""BERT's layout: the tensors in the file say which heads there are; bare models leave the prefix `bert.` out."""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.common import (
    activation_of,
    activation_to,
    architecture_of,
    labels_of,
    refuse,
    special_of,
    special_to,
    unfit,
)
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.bert import bert

OUTSIDE = [
    Entry("bert.embeddings.word_embeddings.weight", "tokens.weight"),
    Entry("bert.embeddings.position_embeddings.weight", "positions.weight"),
    Entry("bert.embeddings.token_type_embeddings.weight", "types.weight"),
    Entry("bert.embeddings.LayerNorm.weight", "norm.weight"),
    Entry("bert.embeddings.LayerNorm.bias", "norm.bias"),
]
_OURS, _THEIRS = "stack.blocks.{i}", "bert.encoder.layer.{i}"
LAYER = [
    Entry(f"{_THEIRS}.attention.self.query.weight", f"{_OURS}.attention.query.weight"),
    Entry(f"{_THEIRS}.attention.self.query.bias", f"{_OURS}.attention.query.bias"),
    Entry(f"{_THEIRS}.attention.self.key.weight", f"{_OURS}.attention.key.weight"),
    Entry(f"{_THEIRS}.attention.self.key.bias", f"{_OURS}.attention.key.bias"),
    Entry(f"{_THEIRS}.attention.self.value.weight", f"{_OURS}.attention.value.weight"),
    Entry(f"{_THEIRS}.attention.self.value.bias", f"{_OURS}.attention.value.bias"),
    Entry(f"{_THEIRS}.attention.output.dense.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.attention.output.dense.bias", f"{_OURS}.attention.out.bias"),
    Entry(f"{_THEIRS}.attention.output.LayerNorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.attention.output.LayerNorm.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.intermediate.dense.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.intermediate.dense.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.output.dense.weight", f"{_OURS}.feedforward.down.weight"),
    Entry(f"{_THEIRS}.output.dense.bias", f"{_OURS}.feedforward.down.bias"),
    Entry(f"{_THEIRS}.output.LayerNorm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.output.LayerNorm.bias", f"{_OURS}.feedforward_norm.bias"),
]
POOLER = [
    Entry("bert.pooler.dense.weight", "pooler.weight"),
    Entry("bert.pooler.dense.bias", "pooler.bias"),
]
WORDS = [
    Entry("cls.predictions.transform.dense.weight", "word_head.dense.weight"),
    Entry("cls.predictions.transform.dense.bias", "word_head.dense.bias"),
    Entry("cls.predictions.transform.LayerNorm.weight", "word_head.norm.weight"),
    Entry("cls.predictions.transform.LayerNorm.bias", "word_head.norm.bias"),
    Entry("cls.predictions.bias", "word_head.bias"),
    Tied("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    Tied("cls.predictions.decoder.bias", "cls.predictions.bias"),
]
ADJACENT = [
    Entry("cls.seq_relationship.weight", "adjacent_head.weight"),
    Entry("cls.seq_relationship.bias", "adjacent_head.bias"),
]
CLASSIFIER = [
    Entry("classifier.weight", "class_head.weight"),
    Entry("classifier.bias", "class_head.bias"),
]
# Numbers from 0 on that old releases saved beside the weights.
BUFFERS = (r"bert\.embeddings\.(position|token_type)_ids",)
LEGACY = {"gamma": "weight", "beta": "bias"}
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
OUTCOMES = {"single_label_classification": "one", "multi_label_classification": "several", "regression": "value"}


def table(config: MaskedConfig) -> Table:
    rows = [*OUTSIDE, *expand(LAYER, i=range(config.stack.layers))]
    for wanted, part in (
        (config.pooler, POOLER),
        (config.words, WORDS),
        (config.adjacent, ADJACENT),
        (config.classes, CLASSIFIER),
    ):
        rows += part if wanted else []
    return rows


def canonical(name: str) -> str:
    """Bare models leave the prefix out, and the first releases called a norm's numbers gamma and beta.

    >>> canonical("embeddings.LayerNorm.gamma")
    'bert.embeddings.LayerNorm.weight'
    """
    stem, _, last = name.rpartition(".")
    name = f"{stem}.{LEGACY.get(last, last)}" if stem.endswith("LayerNorm") else name
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix("bert.") if architecture(config) == "BertModel" else name


def architecture(config: MaskedConfig) -> str:
    """The class of transformers with these heads; where it has none with all of them, the one that reads most."""
    if config.classes:
        return "BertForSequenceClassification"
    if config.words:
        return "BertForPreTraining" if config.adjacent else "BertForMaskedLM"
    return "BertForNextSentencePrediction" if config.adjacent else "BertModel"


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "pruned_heads": {},
    })  # fmt: skip
    heads = _heads(config, names)
    if heads["words"]:
        refuse(config, {"tie_word_embeddings": True})
    return bert(
        width=config.get("hidden_size", 768),
        heads=config.get("num_attention_heads", 12),
        layers=config.get("num_hidden_layers", 12),
        hidden=config.get("intermediate_size", 3072),
        vocabulary=config.get("vocab_size", 30522),
        length=config.get("max_position_embeddings", 512),
        types=config.get("type_vocab_size", 2),
        activation=activation_of(config.get("hidden_act", "gelu")),
        eps=config.get("layer_norm_eps", 1e-12),
        dropout=config.get("hidden_dropout_prob", 0.1),
        special=special_of({"pad_token_id": 0, **config}),
        **heads,
    )


def _heads(config: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Every head of which the file holds a part or the config promises one; what is then missing, loading names."""
    promised = architecture_of(config)
    classifier = any(name.startswith("classifier.") for name in names)
    if classifier and promised not in ("", "BertForSequenceClassification"):
        raise ValueError(f"headway does not read the classifier of a {promised}, only of BertForSequenceClassification")
    classifier = classifier or promised == "BertForSequenceClassification"
    adjacent = any(name.startswith("cls.seq_relationship.") for name in names)
    adjacent = adjacent or promised in ("BertForNextSentencePrediction", "BertForPreTraining")
    words = any(name.startswith("cls.predictions.") for name in names)
    return {
        "pooler": classifier or adjacent or any(name.startswith("bert.pooler.") for name in names),
        "words": words or promised in ("BertForMaskedLM", "BertForPreTraining"),
        "adjacent": adjacent,
        **(_classes(config) if classifier else {}),
    }


def _classes(config: Mapping[str, Any]) -> dict[str, Any]:
    classes, labels = labels_of(config)
    kind = config.get("problem_type") or _problem(config, classes)
    if kind not in OUTCOMES:
        raise ValueError(f"headway does not read models with problem_type={kind!r} (only {', '.join(OUTCOMES)})")
    return {"classes": classes, "labels": labels, "outcome": OUTCOMES[kind]}


def _problem(config: Mapping[str, Any], classes: int) -> str:
    """What a model of no stated problem_type is for; one that scores pairs of texts may give its number as it is."""
    if classes > 1:
        return "single_label_classification"
    newer = (config.get("sentence_transformers") or {}).get("activation_fn")
    curve = newer or config.get("sbert_ce_default_activation_function") or SIGMOID
    if curve not in (SIGMOID, IDENTITY):
        raise ValueError(f"headway does not read a single class with {curve} (only with {SIGMOID} or {IDENTITY})")
    return "regression" if curve == IDENTITY else "multi_label_classification"


def write(config: MaskedConfig) -> dict[str, Any]:
    block = config.stack.block
    if block.feedforward is None:
        raise unfit("bert", "feedforward", None)
    return {
        "model_type": "bert",
        "architectures": [architecture(config)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.length,
        "type_vocab_size": config.types,
        "hidden_size": block.width,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "intermediate_size": block.feedforward.hidden,
        "hidden_act": activation_to(block.feedforward.activation),
        "layer_norm_eps": config.eps,
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": 0.0,
        **special_to(config.special),
        **(_labels(config) if config.classes else {}),
    }


def _labels(config: MaskedConfig) -> dict[str, Any]:
    kind = next(theirs for theirs, ours in OUTCOMES.items() if ours == config.outcome)
    if not config.labels:
        return {"num_labels": config.classes, "problem_type": kind}
    named = {str(index): label for index, label in enumerate(config.labels)}
    return {"id2label": named, "label2id": {label: int(i) for i, label in named.items()}, "problem_type": kind}


FAMILY = Family("bert", read, write, table, ("bert",), canonical, BUFFERS, exported)
