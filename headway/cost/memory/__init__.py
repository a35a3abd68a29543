"""The memory of a model before it runs: weights, gradients, optimiser, activations, caches, and the peak in use.

Nothing is allocated. The model itself runs on fake tensors (`traced`): forwards, and for a step of training backwards
too. Caches are keys and values, a window of them, running totals, or a source.

>>> from headway.presets import preset
>>> found = memory_of(preset("gpt2"), Setting(batch=8, length=1024))
>>> found.weights, found.optimiser, found.cache_token  # 12 layers, 12 heads, 64 keys and 64 values of 4 bytes each
(497759232, 995518464, 73728)
"""

from dataclasses import asdict, dataclass, replace

from headway.config import AttentionConfig, Frozen, LanguageConfig, StackConfig
from headway.config.text import RecurrentConfig, Seq2SeqConfig
from headway.cost.input_lengths import writes
from headway.cost.memory.passes import KINDS
from headway.cost.memory.traced import walked
from headway.cost.optimiser import entries_of, learnt_of, optimiser_state, update_bytes
from headway.cost.setting import BYTES, Setting
from headway.ops.attention import record_of

AHEAD = 1024  # new tokens that are reserved at once (generate.reader)
PLACE = 9  # bytes of a column that tell where its token stands, and whether it is real


def reserved(length: int, new: int) -> int:
    """Columns that a session has room for from the start: the prompt and the next tokens."""
    return length + min(new, AHEAD)


def columns(tokens: int, capacity: int) -> int:
    """Columns in all once so many tokens are held: past what was reserved they double.

    >>> columns(100, 64), columns(60, 64)
    (128, 64)
    """
    while capacity < tokens:
        capacity = max(2 * capacity, 1)
    return capacity


def cache_bytes(config: Frozen, setting: Setting, tokens: int, capacity: int, *, places: bool = False) -> int:
    """All layers, all rows, after so many tokens; `places` counts what tells columns apart, too."""
    if isinstance(config, RecurrentConfig):
        words = setting.source_length * (config.annotation_width + config.attention_width)
        return setting.batch * ((words + config.hidden) * setting.itemsize + setting.source_length * places)
    found, stack = 0, _writer(config)
    for block, count in zip(stack.pattern, stack.counts, strict=True):
        one = layer_bytes(block.attention, setting, tokens, capacity, places=places)
        if block.cross is not None:
            one += setting.source_length * _column(block.cross, setting)
        found += count * setting.batch * one
    return found


def layer_bytes(c: AttentionConfig, setting: Setting, tokens: int, capacity: int, *, places: bool = False) -> int:
    """One layer, one row: a running total, a window, or everything."""
    need = record_of(c.mechanism).cache_of(c.mechanism)
    if need.kind == "none":
        raise ValueError(need.why)
    if need.kind == "total":
        return c.kv_heads * c.head_width * (c.value_width + 1) * max(4, setting.itemsize)
    # Where tokens stand is written down for a window, whose columns do not stay in order.
    held = need.window or columns(tokens, capacity)
    return held * (_column(c, setting) + PLACE * (places and bool(need.window)))


def token_bytes(config: Frozen, setting: Setting) -> int:
    """What one more token of one text adds, as long as it adds anything: 0 for running totals and one state."""
    if isinstance(config, RecurrentConfig):
        return 0
    stack, found = _writer(config), 0
    for block, count in zip(stack.pattern, stack.counts, strict=True):
        need = record_of(block.attention.mechanism).cache_of(block.attention.mechanism)
        found += 0 if need.kind == "total" else count * _column(block.attention, setting)
    return found


def _column(c: AttentionConfig, setting: Setting) -> int:
    return c.kv_heads * (c.head_width + c.value_width) * setting.itemsize


def _writer(config: Frozen) -> StackConfig:
    """The stack that is read token by token."""
    if isinstance(config, LanguageConfig):
        return config.stack
    if isinstance(config, Seq2SeqConfig):
        return config.decoder
    raise ValueError(f"{config.kind_or_name()} writes no text, and has no cache")


@dataclass(frozen=True)
class ModelMemory:
    """Bytes. Peaks are of everything that is in use at once, weights and inputs included.

    saved: activations that a pass keeps for its way back (with `aside`, what it keeps unseen by autograd's hooks);
    saved_checkpointed: the same where blocks are computed again instead. cache_token: of one more token of one text;
    cache: of all texts, with room for the new tokens.
    """

    weights: int
    gradients: int
    optimiser: int
    inputs: int
    saved: int
    aside: int
    saved_checkpointed: int
    logits: int
    peak_forward: int
    peak_step: int
    peak_step_checkpointed: int
    cache_token: int = 0
    cache: int = 0
    peak_generate: int = 0

    def as_json(self) -> dict[str, int]:
        return asdict(self)


def memory_of(config: Frozen, setting: Setting, *, optimiser: str = "adamw", new: int = 0) -> ModelMemory:
    """All of it; `new` tokens to generate after a prompt of the setting's length."""
    _check(config, setting)
    still, taught = walked(config, setting), walked(config, setting, learning=True)
    again = walked(config, setting, learning=True, forgets=True)
    weights, state = weight_bytes(config, setting), optimiser_state(config, setting, optimiser)
    update = update_bytes(config, setting, optimiser)
    written = writes(config)
    tokens = setting.length + new
    return ModelMemory(
        weights=weights,
        gradients=learnt_of(config, setting) * setting.itemsize,
        optimiser=state,
        inputs=taught.inputs,
        saved=taught.saved,
        aside=taught.aside,
        saved_checkpointed=again.kept,
        logits=still.output,
        peak_forward=weights + still.inputs + still.peak,
        peak_step=weights + state + taught.inputs + max(taught.peak, update),
        peak_step_checkpointed=weights + state + again.inputs + max(again.peak, update),
        cache_token=token_bytes(config, setting) if written else 0,
        cache=cache_bytes(config, setting, tokens, reserved(setting.length, new)) if written else 0,
        peak_generate=generate_peak(config, setting, new) if written else 0,
    )


def peak(config: Frozen, setting: Setting, phase: str, *, optimiser: str = "adamw", new: int = 0) -> int:
    """Bytes in use at most: step (as the setting says, with checkpointing or not), forward, generate."""
    _check(config, setting)
    weights = weight_bytes(config, setting)
    if phase == "generate":
        return generate_peak(config, setting, new)
    found = walked(config, setting, learning=phase == "step", forgets=setting.checkpointing)
    if phase == "forward":
        return weights + found.inputs + found.peak
    update = update_bytes(config, setting, optimiser)
    return weights + optimiser_state(config, setting, optimiser) + found.inputs + max(found.peak, update)


def generate_peak(config: Frozen, setting: Setting, new: int) -> int:
    """Weights, the caches with the room that is reserved, and the reading of the prompt beside them."""
    prompt = walked(config, replace(setting, logits=1))
    tokens = setting.length + new
    held = cache_bytes(config, setting, tokens, reserved(setting.length, new), places=True)
    return weight_bytes(config, setting) + held + prompt.inputs + prompt.peak


def weight_bytes(config: Frozen, setting: Setting) -> int:
    adapters = 0 if setting.lora is None else learnt_of(config, setting)
    return (entries_of(config) + adapters) * setting.itemsize


def _check(config: Frozen, setting: Setting) -> None:
    if config.kind_or_name() not in KINDS:
        raise ValueError(f"{config.kind_or_name()} configures no model with a price; there are {', '.join(KINDS)}")
    for name in ("batch", "length", "source_length"):
        size = getattr(setting, name)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"memory is counted in whole numbers: {name} is {size}, give a number of at least 1")
    if setting.dtype not in BYTES:
        raise ValueError(f"there is no dtype {setting.dtype!r} here; there are {', '.join(BYTES)}")
