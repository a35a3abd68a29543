"""The names of options: words of headway's that mean the same (accepted), and words of other tools (a hint).

Every verb asks here, so that `--lr` gets the same answer everywhere.

>>> hint("--learning_rate", ["--optim.rate", "--steps"])
'; did you mean --optim.rate?'
>>> hint("--lenght", ["--length"])
'; did you mean --length?'
>>> accepted(["train", "book.txt", "--optimiser=muon", "--text", "body"])
['train', 'book.txt', '--optim.kind=muon', '--data.text', 'body']
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter, signature

_COLUMNS = ("format", "document", "text", "label", "source", "target", "first", "second", "paired", "cut")

# Verb -> another verb's word for an option, and its own.
ALIASES: dict[str, dict[str, str]] = {
    "train": {"--optimiser": "--optim.kind", "--optimizer": "--optim.kind"}
    | {f"--{name}": f"--data.{name}" for name in _COLUMNS},
    "eval": {f"--data.{name}": f"--{name}" for name in _COLUMNS},
    "cost": {"--optim.kind": "--optimiser", "--optimizer": "--optimiser", "--output": "--out"},
}

# A group of settings of `train` whose name alone is taken for one of them -> that one.
_GROUPS = {
    "--model": "--model.start", "--tokenizer": "--tokenizer.path", "--data": "--data.train", "--optim": "--optim.kind",
    "--schedule": "--schedule.kind", "--parallel": "--parallel.kind",
}  # fmt: skip

# Our option, or the verbs' several words for it -> what other tools call it.
_ELSEWHERE: dict[tuple[str, ...], str] = {
    ("--optim.rate",): "lr learning-rate max-lr peak-lr base-lr rate",
    ("--optim.kind", "--optimiser"): "optimizer optim opt optimiser",
    ("--optim.decay",): "weight-decay wd decay",
    ("--optim.clip",): "grad-clip clip max-grad-norm gradient-clip-val clip-grad-norm",
    ("--optim.betas",): "beta1 beta2 adam-beta1 adam-beta2 betas",
    ("--optim.eps",): "adam-epsilon epsilon eps",
    ("--optim.average",): "ema ema-decay",
    ("--schedule.warmup",): "warmup warmup-steps warmup-iters num-warmup-steps warmup-ratio",
    ("--schedule.kind",): "schedule scheduler lr-scheduler lr-scheduler-type lr-schedule",
    ("--schedule.floor",): "min-lr",
    ("--steps",): "epochs epoch num-epochs num-train-epochs max-epochs max-steps train-steps num-steps iters max-iters "
    "iterations",
    ("--batch",): "batch-size bs train-batch-size per-device-train-batch-size per-device-batch-size eval-batch-size",
    ("--accumulate",): "gradient-accumulation-steps grad-accum accumulate-grad-batches gradient-accumulation",
    ("--max-new-tokens", "--length"): "max-tokens num-tokens n-predict max-length max-output-tokens num-predict",
    ("--length",): "block-size seq-len seq-length sequence-length context context-length context-size n-ctx "
    "max-seq-len max-seq-length",
    ("--model.layers", "--layers"): "num-layers n-layer n-layers layers depth num-hidden-layers blocks",
    ("--model.heads", "--heads"): "n-head n-heads num-heads heads num-attention-heads attention-heads",
    ("--model.kv-heads",): "kv-heads num-kv-heads n-kv-heads num-key-value-heads",
    ("--model.width", "--width"): "d-model hidden-size n-embd dim embed-dim embedding-dim width model-dim hidden-dim",
    ("--model.hidden",): "d-ff ffn-dim dim-feedforward intermediate-size mlp-dim n-inner",
    ("--model.dropout",): "dropout p-drop",
    ("--model.attention",): "attn attention attn-implementation mechanism",
    ("--model.architecture",): "arch architecture model-type",
    ("--model.start",): "model model-name model-path model-name-or-path pretrained checkpoint init-from "
    "from-pretrained",
    ("--tokenizer.path",): "tokenizer tokenizer-name tokenizer-path tokenizer-file",
    ("--tokenizer.vocabulary",): "vocab-size vocab vocabulary",
    ("--data.train", "--data"): "dataset dataset-name train train-file train-data data data-dir input",
    ("--data.validation",): "validation validation-file val val-data eval-data eval-file valid",
    ("--data.held",): "val-split validation-split test-size eval-ratio",
    ("--evaluate-every",): "eval-every eval-interval eval-steps val-every val-check-interval",
    ("--save-every",): "save-steps save-interval checkpoint-every checkpoint-interval",
    ("--log-every",): "logging-steps log-interval log-steps",
    ("--patience",): "early-stopping early-stopping-patience",
    ("--keep",): "save-total-limit keep-checkpoints",
    ("--checkpointing",): "gradient-checkpointing activation-checkpointing grad-checkpointing",
    ("--compile",): "torch-compile",
    ("--smoothing",): "label-smoothing label-smoothing-factor",
    ("--dtype",): "precision fp16 bf16 fp32 mixed-precision torch-dtype amp",
    ("--seed",): "random-seed manual-seed",
    ("--resume",): "resume-from-checkpoint resume-from continue",
    ("--out",): "output output-dir out-dir output-file save-dir run-dir logdir default-root-dir",
    ("--beam",): "num-beams beam-size beams n-beams beam-width",
    ("--temperature",): "temp do-sample sample sampling",
    ("--top-p",): "nucleus p",
    ("--top-k",): "topk k",
    ("--repetition-penalty",): "repeat-penalty",
    ("--frequency-penalty",): "alpha-frequency freq-penalty",
    ("--presence-penalty",): "alpha-presence pres-penalty",
    ("--no-repeat-ngram-size",): "no-repeat-ngram ngram-size no-repeat-ngrams",
    ("--min-new-tokens",): "min-tokens min-length",
    ("--n",): "num-return-sequences num-samples n-samples best-of num-completions",
    ("--logit-bias",): "logits-bias sequence-bias bias",
    ("--stop",): "stop-sequence stop-sequences eos stop-words stop-strings reverse-prompt",
    ("--chat",): "conversation interactive instruct cnv chat-template apply-chat-template",
    ("--system",): "system-prompt sys system-message",
    ("--messages",): "chat-file conversation-file",
    ("--ignore-defaults",): "no-generation-config ignore-generation-config",
    ("--prompt",): "text input",
    ("--draft",): "assistant-model model-draft draft-model speculative prompt-lookup speculative-model",
    ("--draft-tokens",): "prompt-lookup-num-tokens num-assistant-tokens num-speculative-tokens draft-max",
    ("--parallel.kind",): "ddp fsdp strategy distributed",
    ("--parallel.tensor",): "tp tensor-parallel tensor-parallel-size",
}  # fmt: skip
HINTS: dict[str, list[str]] = {}
for _ours, _theirs in _ELSEWHERE.items():
    for _name in _theirs.split():
        HINTS.setdefault(f"--{_name}", []).extend(_ours)


def accepted(tokens: Sequence[str]) -> list[str]:
    """The words of a command, each option in the verb's own name."""
    own = ALIASES.get(tokens[0], {}) if tokens else {}
    if tokens[:1] == ["train"] and (group := next((token for token in tokens if token in _GROUPS), None)):
        raise ValueError(f"there is no option {group!r}; did you mean {_GROUPS[group]}?")
    words = [re.sub(r"^[^=]+", lambda found: own.get(found[0], found[0]), token) for token in tokens]
    return words if tokens[:1] in (["look"], ["audit"]) else with_page(words)  # whose --html always takes a file


def with_page(tokens: Sequence[str]) -> list[str]:
    """The words, each --html with a value: the .html file that follows it, else `-` (the page is the result).

    >>> with_page(["cost", "--html", "gpt2"]), with_page(["runs", "--html", "runs.html"])
    (['cost', '--html', '-', 'gpt2'], ['runs', '--html', 'runs.html'])
    """
    found: list[str] = []
    for place, word in enumerate(tokens):
        if word == "--":
            return [*found, *tokens[place:]]
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        found += [word, "-"] if word == "--html" and not following.endswith((".html", ".htm")) else [word]
    return found


def hint(word: str, known: Iterable[str]) -> str:
    """What may have been meant by an option that does not exist; nothing where nothing comes near."""
    name, options = word.split("=")[0].replace("_", "-").lower(), list(known)
    meant = next((ours for ours in HINTS.get(name, ()) if ours in options), None)
    near = [meant] if meant else get_close_matches(name, options, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_option(word: str, verb: str, known: Iterable[str]) -> str:
    """One sentence for an option that does not exist."""
    return f"there is no option {word!r}{hint(word, known) or f'; see headway {verb} --help'}"


def check_words(verb: str, words: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options among words that may begin with a hyphen, because `-` is one of them."""
    options = list(known)
    for word in words:
        if word.startswith("-") and word != "-":
            raise ValueError(unknown_option(word, verb, options))


def options_of(verb: Callable[..., object]) -> list[str]:
    """The options of a verb: its parameters, and the fields of those that are dataclasses.

    >>> def sing(song, *, max_verses: int = 3): ...
    >>> options_of(sing)
    ['--max-verses', '--help']
    """
    options = [one for one in signature(verb).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
    named = [
        name
        for one in options
        for name in ([field.name for field in fields(one.default)] if is_dataclass(one.default) else [one.name])
    ]
    return [*(f"--{name.replace('_', '-')}" for name in named), "--help"]
