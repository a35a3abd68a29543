"""The heads of an encoder, as transformers names its classes: which a directory has, and what their classes are called.

A class is the family's stem and what the model is for, as in BertForTokenClassification. The tensors in the file and
the class that config.json names say which heads there are; what is then missing, loading names.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.text import ClassifierConfig, MaskedConfig
from headway.hub.families.common import architecture_of, labels_of
from headway.hub.family import Entry, Table

SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
OUTCOMES = {"single_label_classification": "one", "multi_label_classification": "several", "regression": "value"}
TEXT, TOKENS, ANSWERS = "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"


def both(names: Mapping[str, str]) -> Table:
    """Rows for the weight and the bias of each: their name -> ours."""
    parts = ("weight", "bias")
    return [Entry(f"{theirs}.{part}", f"{ours}.{part}") for theirs, ours in names.items() for part in parts]


# Of every family that has them: a linear map of each token's vector.
TOKEN_HEAD = both({"classifier": "token_head"})
ANSWER_HEAD = both({"qa_outputs": "answer_head"})


def has(names: frozenset[str], prefix: str) -> bool:
    """Whether a file holds a tensor whose name begins so."""
    return any(name.startswith(prefix) for name in names)


def read_heads(
    stem: str, config: Mapping[str, Any], names: frozenset[str], *, answers: str = "qa_outputs."
) -> dict[str, Any]:
    """The classifier of texts or of tokens, and the head for answers, as options of a configuration.

    `answers` is how the names of the latter begin; ModernBERT calls it the classifier, too.
    """
    promised, classifier = architecture_of(config), has(names, "classifier.")
    known = [stem + TEXT, stem + TOKENS, *([stem + ANSWERS] if answers == "classifier." else [])]
    if classifier and promised not in ("", *known):
        raise ValueError(f"headway does not read the classifier of a {promised}, only of {' and '.join(known)}")
    if promised == stem + ANSWERS:
        return {"answers": True}
    found: dict[str, Any] = {}
    if promised == stem + TOKENS:
        classes, labels = labels_of(config)
        found |= {"token_classes": classes, "token_labels": labels}
    elif classifier or promised == stem + TEXT:
        found |= read_classes(config)
    return found | ({"answers": True} if answers != "classifier." and has(names, answers) else {})


def read_classes(config: Mapping[str, Any], *, alone: str = SIGMOID) -> dict[str, Any]:
    """The classes of texts, their names, and what their numbers mean.

    `alone` is the curve of a single class where nothing says which it has.
    """
    classes, labels = labels_of(config)
    kind = config.get("problem_type") or _problem(config, classes, alone)
    if kind not in OUTCOMES:
        raise ValueError(f"headway does not read models with problem_type={kind!r} (only {', '.join(OUTCOMES)})")
    return {"classes": classes, "labels": labels, "outcome": OUTCOMES[kind]}


def _problem(config: Mapping[str, Any], classes: int, alone: str) -> str:
    """What a model of no stated problem_type is for; one that scores pairs of texts may give its number as it is."""
    if classes > 1:
        return "single_label_classification"
    newer = (config.get("sentence_transformers") or {}).get("activation_fn")
    curve = newer or config.get("sbert_ce_default_activation_function") or alone
    if curve not in (SIGMOID, IDENTITY):
        raise ValueError(f"headway does not read a single class with {curve} (only with {SIGMOID} or {IDENTITY})")
    return "regression" if curve == IDENTITY else "multi_label_classification"


def head_rows(config: MaskedConfig, text: Table, answers: Table = ANSWER_HEAD) -> Table:
    """The rows of the heads that `read_heads` found; `text` are those of the classifier of texts."""
    found = text if config.classes else TOKEN_HEAD if config.token_classes else []
    return [*found, *(answers if config.answers else [])]


def architecture(stem: str, config: MaskedConfig, otherwise: str) -> str:
    """The class with these heads; where there is none with all of them, the one that reads most."""
    if config.classes:
        return stem + TEXT
    if config.token_classes:
        return stem + TOKENS
    return stem + (ANSWERS if config.answers else otherwise)


def write_heads(config: MaskedConfig) -> dict[str, Any]:
    """Classes and their names, as config.json says them."""
    if config.token_classes:
        return write_labels(config.token_classes, config.token_labels)
    return write_classes(config) if config.classes else {}


def write_classes(config: MaskedConfig | ClassifierConfig) -> dict[str, Any]:
    """The classes of texts, their names, and what their numbers mean."""
    kind = next(theirs for theirs, ours in OUTCOMES.items() if ours == config.outcome)
    return {**write_labels(config.classes, config.labels), "problem_type": kind}


def write_labels(classes: int, labels: tuple[str, ...]) -> dict[str, Any]:
    if not labels:
        return {"num_labels": classes}
    named = {str(index): label for index, label in enumerate(labels)}
    return {"id2label": named, "label2id": {label: int(i) for i, label in named.items()}}
