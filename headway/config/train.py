"""What a training run is: its data, tokenizer, model, optimiser and lengths of time. All of it is saved with the run.

>>> TrainConfig(data=DataConfig(train=("book.txt",)), steps=100).schedule.warmup
100
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from headway.config.base import Frozen

OBJECTIVES = ("words", "adjacent", "inverted", "inference")  # of the task `masked`

Task = Literal["language", "masked", "seq2seq", "classify", "images", "embed"]
Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class _Said(Frozen):
    """Settings whose docstrings are the help of the command line."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def kind_or_name(cls) -> str:
        """How the command line calls it: OptimConfig is optim."""
        return cls.__name__.removesuffix("Config").removesuffix("Choice").lower()


class DataConfig(_Said):
    """Where examples come from: files, folders, globs, `-`, or sources by name (`python`, `stdlib`, `digits`, …)."""

    train: tuple[str, ...] = ()
    """Files, folders, globs, `-`, or sources by name."""
    validation: tuple[str, ...] = ()
    """None: the last `held` of the training data."""
    held: Share = 0.1
    """Share of the training data that is held out where no validation data is given."""
    format: Literal["auto", "text", "jsonl", "csv", "tsv"] = "auto"
    """Of the files; auto: by their names."""
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
    paired: bool = False
    """Classify two texts of a row together (columns first and second) instead of one."""
    pairs: tuple[str, ...] = ()
    """Labelled pairs (columns first, second and label) for the objective `inference`."""
    cut: bool = False
    """A text that is too long for the model is cut instead of refused."""
    augment: Literal["none", "shift", "flip", "flip-shift"] = "none"
    """Of images, while training: moved a little, mirrored."""


class TokenizerConfig(_Said):
    """How text becomes tokens: trained on the data, or read from a file or directory."""

    kind: Literal["byte", "character", "bpe", "wordpiece", "unigram"] = "bpe"
    """How text is cut."""
    vocabulary: Whole = 4096
    """Tokens to learn."""
    lower: bool = False
    """Small letters only."""
    path: str | None = None
    """A tokenizer.json, or a directory that has one."""


class ModelChoice(_Said):
    """Which model: one that exists (`start`), a published size (`preset`), a configuration, or sizes of one's own."""

    start: str | None = None
    """A directory that headway.load reads, or a run."""
    preset: str | None = None
    """A published size, as `headway info` lists them; the sizes below change it."""
    config: str | None = None
    """A configuration of one's own: a JSON file, or the JSON itself."""
    architecture: Literal["gpt", "llama", "bert", "transformer", "recurrent", "vit", "davit"] | None = None
    """The kind of model; by default the usual one of the task."""
    layers: Whole | None = None
    """Blocks."""
    width: Whole | None = None
    """Of the vectors."""
    heads: Whole | None = None
    """Of the attention."""
    hidden: Whole | None = None
    """Width of the feed-forward, or of the recurrent state."""
    dropout: Share | None = None
    """Share of activations that are set to 0."""
    patch: Whole | None = None
    """Side of a patch, in pixels."""
    depths: tuple[int, ...] | None = None
    """Of a DaViT: blocks of each stage."""
    widths: tuple[int, ...] | None = None
    """Of a DaViT: width of each stage."""
    stage_heads: tuple[int, ...] | None = None
    """Of a DaViT: heads, which are also the groups of channels, of each stage."""
    attention: str | None = None
    """The mechanism: softmax, linear, local, spatial … (`headway mechanisms`), or package.module:RECORD."""
    window: Whole | None = None
    """Of local attention: keys at a distance below this; of spatial attention and of a DaViT: side of a window."""
    dilation: Whole | None = None
    """Of local attention: every so many keys."""
    feature: str | None = None
    """Of linear attention: elu, relu …"""
    kv_heads: Whole | None = None
    """Heads of keys and values; fewer than heads share them."""
    head_width: Whole | None = None
    """Of a query and a key; by default width / heads."""
    positions: str | None = None
    """learned, sinusoidal, rotary, alibi, relative, clipped or none; by default what the architecture has."""
    norm: str | None = None
    """layer, rms, batch or none; by default what the architecture has."""
    activation: str | None = None
    """Of the feed-forward: gelu, relu, silu …"""
    softcap: Rate | None = None
    """Largest score: scores become softcap · tanh(score / softcap)."""
    std: Rate = 0.02
    """Deviation of fresh weights."""
    alike: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Of a fresh BERT in task masked: how strongly heads begin by looking at equal words and near places; 0: not."""


class OptimConfig(_Said):
    """AdamW (arXiv:1711.05101), or Muon for the matrices of the blocks and AdamW for the rest."""

    kind: Literal["adamw", "muon"] = "adamw"
    """The optimiser."""
    rate: Rate = 1e-3
    """Highest learning rate."""
    muon_rate: Rate = 0.02
    """Highest learning rate of Muon."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """How long AdamW remembers means and squares."""
    eps: Rate = 1e-8
    """Added to AdamW's denominator."""
    decay: Annotated[float, Field(ge=0)] = 0.1
    """Of matrices; vectors and norms are left alone."""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """Largest norm of all gradients together; 0: none."""
    average: Share = 0.0
    """Decay of the exponential moving average of the weights; 0: none."""


class ScheduleConfig(_Said):
    """The learning rate over time: it warms up, then follows a cosine, or stays and falls at the end (WSD)."""

    kind: Literal["cosine", "wsd", "constant"] = "cosine"
    """The learning rate over time."""
    warmup: Count = 100
    """Steps over which the rate rises."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1
    """The last rate, as a share of the highest."""
    fall: Share = 0.2
    """Of WSD: the share of all steps over which it falls."""


class ParallelConfig(_Said):
    """How a model is spread over processes that torchrun starts."""

    kind: Literal["ddp", "fsdp"] = "ddp"
    """Whole copies (ddp), or weights in shards (fsdp)."""
    tensor: Whole = 1
    """Processes that share each layer's heads and feed-forward."""


class TrainConfig(_Said):
    """A whole run. `batch` counts the examples of one optimiser step, over all processes and accumulated parts."""

    task: Task = "language"
    """What is learnt."""
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelChoice = ModelChoice()
    optim: OptimConfig = OptimConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    parallel: ParallelConfig = ParallelConfig()
    objectives: dict[str, Rate] = Field(default={"words": 1.0})
    """Of the task `masked`: words, adjacent, inverted, inference."""
    steps: Whole = 1000
    """Of the optimiser."""
    batch: Whole = 16
    """Examples of one step, over all processes and parts."""
    accumulate: Whole = 1
    """Parts that a process computes one after the other."""
    length: Whole = 128
    """Tokens of a window or text at most."""
    seed: Count = 0
    """Of fresh weights, order and draws."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights; with bfloat16 the optimiser keeps float32 copies."""
    checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them."""
    compile: bool = False
    """By torch.compile; needs a C++ compiler."""
    smoothing: Share = 0.0
    """Of labels."""
    evaluate_every: Whole = 200
    """Steps between two looks at the validation data."""
    evaluate_batches: Count = 0
    """Of the validation data; 0: all of it."""
    save_every: Whole = 200
    """Steps between two checkpoints."""
    keep: Whole = 2
    """Checkpoints, besides the best one."""
    patience: Count = 0
    """Evaluations without a better loss before it stops; 0: never."""
    log_every: Whole = 10
    """Steps between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Write event files for TensorBoard too."""
    samples: Count = 3
    """Texts to write at each evaluation."""
    scored: Count = 0
    """Held-out pairs to translate and score (chrF, BLEU) at each evaluation; needs sacrebleu."""

    @field_validator("objectives")
    @classmethod
    def _known(cls, given: dict[str, float]) -> dict[str, float]:
        if not given or set(given) - set(OBJECTIVES):
            wrong = f"no objective {min(set(given) - set(OBJECTIVES))!r}" if given else "no objective at all"
            raise ValueError(f"there is {wrong}; there are {', '.join(OBJECTIVES)}")
        return given
