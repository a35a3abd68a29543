"""Bytes of the caches that a text is written with: keys and values, a window of them, running totals, a source.

>>> from headway.presets import preset
>>> token_bytes(preset("gpt2"), Setting())  # 12 layers, 12 heads, 64 keys and 64 values of 4 bytes each
73728
"""

from headway.config import AttentionConfig, Frozen, LanguageConfig, StackConfig
from headway.config.recurrent import RecurrentConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.cost.setting import Setting
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
