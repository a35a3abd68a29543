"""What a training run is: its data, tokenizer, model, optimiser and lengths of time. All of it is saved with the run.

>>> TrainConfig(data=DataConfig(train=("book.txt",)), steps=100).schedule.warmup
100
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from headway.config.base import Cap, Frozen
from headway.config.size_limits import SIZE, VOCABULARY, check_size

OBJECTIVES = ("words", "adjacent", "inverted", "inference")  # of the task `masked`
LORA_MAPS = ("query", "key", "value", "out", "gate", "up", "down")  # linear maps of attention and feed-forward

Task = Literal["language", "instruct", "dpo", "masked", "seq2seq", "classify", "images", "embed"]
Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1, le=SIZE)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Documented(Frozen):
    """Settings whose docstrings are the help of the command line."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def kind_or_name(cls) -> str:
        """How the command line calls it: OptimConfig is optim."""
        return cls.__name__.removesuffix("Config").removesuffix("Choice").lower()


def _words(given: Any) -> Any:
    """Words that are given one by one, or with commas between them."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, list | tuple | set | frozenset):
        raise ValueError(f"words, or one text with commas between them, and not {given!r}")
    return tuple(word.strip() for text in texts for word in str(text).split(",") if word.strip())


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class DataConfig(_Documented):
    """Where examples come from: files, folders, globs, `-`, or sources by name (`python`, `stdlib`, `digits`, …)."""

    train: tuple[str, ...] = ()
    """The same as DATA."""
    validation: tuple[str, ...] = ()
    """Validation data, as DATA; by default a share of the training data is held out (data.held)."""
    held: Share = 0.1
    """Share of the training data that is held out where no validation data is given."""
    format: Literal["auto", "text", "jsonl", "csv", "tsv"] = "auto"
    """Format of the files; auto: by their names."""
    document: Literal["file", "line", "paragraph"] = "file"
    """What one document is, in plain text."""
    packed: bool = False
    """Documents in one row that cannot see each other, instead of windows over all of them."""
    text: str = "text"
    """Column of the text, in files that have columns."""
    label: str = "label"
    """Column of the class."""
    source: str = "source"
    """Column of the text to translate."""
    target: str = "target"
    """Column of its translation."""
    first: str = "first"
    """Column of the first of two texts."""
    second: str = "second"
    """Column of the second."""
    negative: Words = ()
    """Columns of hard negatives (embed): texts that do not belong to the first; in JSON also a list of texts."""
    paired: bool = False
    """Classify two texts of a row together (columns first and second) instead of one."""
    messages: str = "messages"
    """Column of the messages of a conversation (instruct)."""
    prompt: str = "prompt"
    """Column of an instruction, where there are no messages."""
    response: str = "response"
    """Column of its answer."""
    chosen: str = "chosen"
    """Column of the answer that is preferred (dpo)."""
    rejected: str = "rejected"
    """Column of the one that is not."""
    pairs: tuple[str, ...] = ()
    """Labelled pairs (columns first, second and label) for the objective `inference`."""
    cut: bool = False
    """A text that is too long for the model is cut instead of refused."""
    augment: Literal["none", "shift", "flip", "flip-shift"] = "none"
    """Augmentation of images in training: shift by a few pixels, flip left and right, or both."""


class TokenizerConfig(_Documented):
    """How text becomes tokens: trained on the data, or read from a file or directory."""

    kind: Literal["byte", "character", "bpe", "wordpiece", "unigram"] = "bpe"
    """How text is split into tokens."""
    vocabulary: Whole = 4096
    """Size of the vocabulary that is learnt."""
    lower: bool = False
    """Lower-case the text."""
    path: str | None = None
    """An existing tokenizer: a tokenizer.json, or a directory that has one."""

    @field_validator("vocabulary")
    @classmethod
    def _of_a_size(cls, given: int) -> int:
        return check_size(given, VOCABULARY, "a vocabulary that is learnt")


class ModelChoice(_Documented):
    """Which model: one that exists (`start`), a published size (`preset`), a configuration, or sizes of one's own."""

    start: str | None = None
    """Weights to start from: a run, or a directory that headway.load reads; by default fresh ones."""
    preset: str | None = None
    """A published size, as `headway info` lists them; by default none, and model.layers and others say it."""
    config: str | None = None
    """Your own configuration: a JSON file, or the JSON itself."""
    architecture: Literal["gpt", "llama", "bert", "transformer", "recurrent", "vit", "davit"] | None = None
    """Kind of model; by default the usual one for the task."""
    layers: Whole | None = None
    """Number of blocks; by default 4, or the preset's."""
    width: Whole | None = None
    """Width of the model (d_model); by default 128 (64 for images), or the preset's."""
    heads: Whole | None = None
    """Number of attention heads; by default width / 32, or the preset's."""
    hidden: Whole | None = None
    """Width of the feed-forward (d_ff), or of the recurrent state."""
    dropout: Share | None = None
    """Dropout: the share of activations that are set to 0."""
    patch: Whole | None = None
    """Side of a patch in pixels (ViT)."""
    depths: tuple[int, ...] | None = None
    """Blocks of each stage (DaViT)."""
    widths: tuple[int, ...] | None = None
    """Width of each stage (DaViT)."""
    stage_heads: tuple[int, ...] | None = None
    """Heads of each stage, which are also its groups of channels (DaViT)."""
    attention: str | None = None
    """Attention mechanism: softmax, linear, local, spatial … (`headway mechanisms`), or package.module:RECORD."""
    window: Whole | None = None
    """Window of local attention: keys at a distance below this; for spatial attention and DaViT, its side."""
    dilation: Whole | None = None
    """Dilation of local attention: every so many keys."""
    feature: str | None = None
    """Feature map of linear attention: elu, relu …"""
    kv_heads: Whole | None = None
    """Heads of keys and values (grouped-query attention); by default as many as heads."""
    head_width: Whole | None = None
    """Width of a query and a key in one head; by default width / heads."""
    positions: str | None = None
    """Positions: learned, sinusoidal, rotary, alibi, relative, clipped or none; by default the architecture's."""
    norm: str | None = None
    """Norm: layer, layer_unbiased, rms, rms_zero_centered, batch or none; by default the architecture's."""
    order: Literal["pre", "post", "res_post", "sandwich", "none"] | None = None
    """Where the norms stand: before a branch, after its sum, on what it gives, before and on it, or nowhere."""
    qk_norm: Literal["head", "all"] | None = None
    """Norm of queries and keys: of each head by itself, or over all heads as one row; by default none."""
    parallel: bool | None = None
    """Attention and feed-forward read the same vectors, side by side."""
    activation: str | None = None
    """Activation of the feed-forward: gelu, relu, silu …"""
    softcap: Cap | None = None
    """Cap of the attention scores: they become softcap · tanh(score / softcap)."""
    std: Rate = 0.02
    """Standard deviation of fresh weights."""
    alike: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How strongly the heads of a fresh BERT begin by attending to equal words and near positions; 0: not at all."""


class LoraConfig(_Documented):
    """Low-rank adapters on a frozen model (LoRA, arXiv:2106.09685): y = x Wᵀ + (alpha / rank) x Aᵀ Bᵀ."""

    rank: Annotated[int, Field(ge=0, le=SIZE)] = 0
    """Train adapters of this rank instead of the weights (LoRA); 0: none."""
    alpha: Rate = 16.0
    """What the adapters give is multiplied by alpha / rank."""
    dropout: Share = 0.0
    """Dropout on what the adapters read."""
    on: Words = ("query", "value")
    """Linear maps that have adapters: query, key, value, out, gate, up, down; with commas between them."""

    @field_validator("on")
    @classmethod
    def _known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if not given or set(given) - set(LORA_MAPS):
            wrong = f"no map {min(set(given) - set(LORA_MAPS))!r}" if given else "no map at all"
            raise ValueError(f"there is {wrong} for adapters; there are {', '.join(LORA_MAPS)}")
        return tuple(name for name in LORA_MAPS if name in given)


class DpoConfig(_Documented):
    """Preferences: -log σ(beta · how much the chosen answer has gained on the rejected one) (DPO, arXiv:2305.18290)."""

    beta: Rate = 0.1
    """How much a preference weighs; the smaller, the farther answers go from those of model.start."""


class DistilConfig(_Documented):
    """A larger model as teacher: (1 - weight) · loss + weight · T² KL(teacher ‖ model) (arXiv:1503.02531)."""

    teacher: str | None = None
    """A model with the same vocabulary, whose probabilities of each next token are learnt (distillation)."""
    temperature: Rate = 1.0
    """T: logits of both are divided by it."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Weight of the teacher; the rest is that of the data."""


class OptimConfig(_Documented):
    """AdamW (arXiv:1711.05101), or Muon for the matrices of the blocks and AdamW for the rest."""

    kind: Literal["adamw", "muon"] = "adamw"
    """The optimiser: AdamW, or Muon for the matrices of the blocks."""
    rate: Rate = 1e-3
    """Learning rate, at its highest."""
    muon_rate: Rate = 0.02
    """Learning rate of Muon, at its highest."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """Betas of AdamW."""
    eps: Rate = 1e-8
    """Epsilon of AdamW."""
    decay: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 0.1
    """Weight decay of matrices; vectors and norms have none."""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """Clip gradients to this norm; 0: not at all."""
    average: Share = 0.0
    """Decay of an exponential moving average of the weights; 0: none."""


class ScheduleConfig(_Documented):
    """The learning rate over time: it warms up, then follows a cosine, or stays and falls at the end (WSD)."""

    kind: Literal["cosine", "wsd", "constant"] = "cosine"
    """Schedule of the learning rate after the warm-up."""
    warmup: Count = 100
    """Warm-up steps."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Learning rate at the end, as a share of the highest."""
    fall: Share = 0.2
    """Share of all steps over which the rate falls at the end (wsd)."""


class ParallelConfig(_Documented):
    """How a model is spread over processes that torchrun starts."""

    kind: Literal["ddp", "fsdp"] = "ddp"
    """A whole copy of the model in each process (ddp), or weights in shards (fsdp)."""
    tensor: Whole = 1
    """Tensor parallelism: processes that share each layer's heads and feed-forward."""


class TrainConfig(_Documented):
    """A whole run. `batch` counts the examples of one optimiser step, over all processes and accumulated parts."""

    task: Task = "language"
    """What to train: a language model, answers to instructions, preferences between answers, masked words, translation,
    classes of texts or images, sentence vectors."""
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelChoice = ModelChoice()
    lora: LoraConfig = LoraConfig()
    dpo: DpoConfig = DpoConfig()
    distil: DistilConfig = DistilConfig()
    optim: OptimConfig = OptimConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    parallel: ParallelConfig = ParallelConfig()
    freeze: Words = ()
    """Parts of the model that are not trained: embeddings, layers:0-3, encoder.layers:0-3; with commas between."""
    objectives: dict[str, Rate] = Field(default={"words": 1.0})
    """Weights of the objectives of task masked: words, adjacent, inverted, inference."""
    steps: Whole = 1000
    """Optimiser steps."""
    batch: Whole = 16
    """Examples in a step, over all processes and accumulated parts."""
    accumulate: Whole = 1
    """Parts of a batch that a process computes one after the other."""
    length: Whole = 128
    """Tokens in a window, or in a text at most."""
    seed: Count = 0
    """Seed of fresh weights, the order of examples and random draws."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights; with bfloat16 the optimiser keeps float32 copies."""
    checkpointing: bool = False
    """Activation checkpointing: compute activations again in the backward pass instead of keeping them."""
    compile: bool = False
    """Use torch.compile; needs a C++ compiler."""
    smoothing: Share = 0.0
    """Label smoothing."""
    evaluate_every: Whole = 200
    """Steps between two evaluations on the validation data."""
    evaluate_batches: Count = 0
    """Batches of validation data to evaluate; 0: all."""
    save_every: Whole = 200
    """Steps between two checkpoints."""
    keep: Whole = 2
    """Checkpoints to keep, besides the best one."""
    patience: Count = 0
    """Stop early after so many evaluations without a better loss; 0: never."""
    log_every: Whole = 10
    """Steps between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    samples: Count = 3
    """Sample texts to write at each evaluation."""
    scored: Count = 0
    """Held-out pairs to translate and score (chrF, BLEU) at each evaluation; needs sacrebleu."""

    @field_validator("objectives")
    @classmethod
    def _known(cls, given: dict[str, float]) -> dict[str, float]:
        if not given or set(given) - set(OBJECTIVES):
            wrong = f"no objective {min(set(given) - set(OBJECTIVES))!r}" if given else "no objective at all"
            raise ValueError(f"there is {wrong}; there are {', '.join(OBJECTIVES)}")
        return given
