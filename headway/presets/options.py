"""A configuration in other sizes, by the words that people use: layers, width, heads, attention, positions.

>>> from headway.presets import preset
>>> small = resize(preset("gpt2"), layers=2, width=384, attention="local", window=64)
>>> small.stack.block.attention.heads, small.stack.block.feedforward.hidden, small.stack.block.attention.mechanism
(6, 1536, Local(window=64))
>>> resize(preset("gpt2"), positions="alibi").stack.bias
Alibi()
"""

from typing import Any, get_args

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Frozen,
    Rotary,
    SentenceConfig,
    Spec,
    StackConfig,
    VisionConfig,
    nearest,
    read_spec,
)
from headway.config.base import option_names
from headway.config.layers import stacks_of
from headway.config.spec import SPECS, spec_class

# Where positions live other than in a table beside the words: a rotation of queries and keys, or a bias of the scores.
ROTARY, BIASES = "rotary", ("alibi", "relative", "clipped")


def _but(config: type[Frozen], *names: str) -> tuple[str, ...]:
    return tuple(name for name in option_names(config) if name not in names)


# Every option of a part but those that follow from others or have a word of their own: a new one is known at once.
STACK = _but(StackConfig, "block", "alternates", "bias")
BLOCK = _but(BlockConfig, "attention", "cross", "feedforward")
ATTENTION = _but(
    AttentionConfig, "width", "source_width", "output_width", "project", "bias", "output_bias", "causal", "mechanism"
)
FEEDFORWARD = _but(FeedForwardConfig, "bias")
# Options that every family has a word for, of those that change what a model is.
USUAL = frozenset({"heads", "hidden", "activation", "eps", "dropout"})


def resize(config: Frozen, **options: Any) -> Any:
    """The configuration with these options changed, wherever in it they belong.

    `width` keeps heads as wide and the feed-forward in proportion where nothing is said of them. `attention` names
    another mechanism; its own options (window, feature …) stand beside it. `positions` are the model's own kinds, or
    rotary, alibi, relative, clipped.
    """
    if isinstance(config, SentenceConfig):
        own = {name: options.pop(name) for name in list(options) if name in ("pooling", "normalise", "limit", "prompt")}
        return config.replace(encoder=resize(config.encoder, **options), **own)
    stacks = stacks_of(config)
    if isinstance(config, VisionConfig):  # positions and windows stand on the grid that the patches will have
        config = config.replace(**{name: options.pop(name) for name in ("image", "patch") if name in options})
    inside = {"width", "attention", *STACK, *BLOCK, *ATTENTION, *FEEDFORWARD} if stacks else set()
    spec = _spec(config, options) if stacks else None
    top = {name: value for name, value in options.items() if name not in inside}
    places = _positions(config, top, options) if "positions" in top and stacks else {}
    _check(config, top, inside, spec)
    changed = {name: _stack(part, spec, places, options) for name, part in stacks_of(config).items()}
    return config.replace(**_followed(config, options), **_layout(config, options), **changed, **top)


def _followed(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Scales that are a power of the width, and go on being that."""
    stack = next(iter(stacks_of(config).values()), None)
    if "width" not in options or stack is None:
        return {}
    before = stack.block.width
    scales = [name for name in ("embedding_scale", "head_scale") if name in option_names(type(config))]
    powers = {before**power: options["width"] ** power for power in (0.5, -0.5)}
    return {name: powers[value] for name in scales if (value := getattr(config, name)) in powers and value != 1.0}


# And what a family's own layout has words for.
_SAID = dict.fromkeys(("llama", "mistral", "qwen2"), frozenset({"kv_heads", "head_width"}))


def _layout(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A model that its family has no words for is saved in headway's own layout."""
    changing = {"attention", "positions", *BLOCK, *ATTENTION, *FEEDFORWARD} - USUAL
    unsaid = changing & options.keys() - _SAID.get(config.family, frozenset())
    return {"family": "headway"} if unsaid and "family" not in options else {}


def _check(config: Frozen, top: dict[str, Any], inside: set[str], spec: Spec | None) -> None:
    known = [name for name in option_names(type(config)) if name not in ("kind", "stack", "encoder", "decoder")]
    for name in top:
        if name not in known:
            kinds = [kind for kind, found in SPECS.items() if name in option_names(found) and name != "kind"]
            if kinds and inside:
                raise ValueError(f"{name} is an option of {' or '.join(kinds)} attention: choose that with it")
            own = [] if spec is None else option_names(type(spec))
            words = sorted({*known, *inside, *own} - {"kind"})
            raise ValueError(
                f"a {config.kind_or_name()} model has no option {name!r}{nearest(name, words)}; there are "
                f"{', '.join(words)}"
            )


def _spec(config: Frozen, options: dict[str, Any]) -> Spec | None:
    """The mechanism that is asked for, with the options that are its own; on a grid of patches it stands on that."""
    asked = options.get("attention")
    if asked is None:
        return None
    if isinstance(asked, Spec):
        return asked
    if not isinstance(asked, str | dict):
        read_spec(asked)  # which says what it is to be
    kind = asked if isinstance(asked, str) else str(asked.get("kind"))
    names = [name for name in option_names(spec_class(kind)) if name != "kind"]
    own = {name: options.pop(name) for name in names if name in options and name not in _belongs_to_model(config)}
    if isinstance(config, VisionConfig):
        placed = {"grid": config.grid, "global_tokens": config.extra > 0}
        own = {name: value for name, value in placed.items() if name in names} | own
    return read_spec(asked, **own)


def _belongs_to_model(config: Frozen) -> tuple[str, ...]:
    return tuple(name for name in option_names(type(config)) if name == "window")


def _positions(config: Frozen, top: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Where positions live inside of a stack; what is left in `top` is the model's own kind."""
    kind = top["positions"]
    field = type(config).model_fields.get("positions")
    own = () if field is None else get_args(field.annotation)
    if kind not in (*own, ROTARY, *BIASES):
        words = (*own, ROTARY, *BIASES)
        raise ValueError(f"there are no positions {kind!r}{nearest(str(kind), words)}; there are {', '.join(words)}")
    if field is None or kind not in own:
        top.pop("positions")
        if field is not None:
            top["positions"] = "none"
    grid = config.grid if isinstance(config, VisionConfig) else None
    rotary = options.get("rotary") or (Rotary(grid=grid) if kind == ROTARY else None)
    return {"rotary": rotary, "bias": {"kind": kind} if kind in BIASES else None}


def _stack(c: StackConfig, spec: Spec | None, places: dict[str, Any], options: dict[str, Any]) -> StackConfig:
    bias = {"bias": places["bias"]} if places else {}
    block = _block(c.block, spec, places, options)
    others = tuple(_block(other, spec, places, options) for other in c.alternates)
    return c.replace(block=block, alternates=others, **bias, **_chosen(options, STACK))


def _block(c: BlockConfig, spec: Spec | None, places: dict[str, Any], options: dict[str, Any]) -> BlockConfig:
    width = options.get("width", c.width)
    parts: dict[str, Any] = {"attention": _attention(c.attention, c.width, width, spec, places, options)}
    if c.cross is not None:
        parts["cross"] = _cross(c.cross, parts["attention"], options)
    if c.feedforward is not None:
        parts["feedforward"] = _feedforward(c.feedforward, c.width, width, options)
    return c.replace(**parts, **_chosen(options, BLOCK))


def _attention(
    c: AttentionConfig, before: int, width: int, spec: Spec | None, places: dict[str, Any], options: dict[str, Any]
) -> AttentionConfig:
    changed = _chosen(options, ATTENTION) | ({"rotary": places["rotary"]} if places else {})
    if isinstance(changed.get("rotary"), bool):
        changed["rotary"] = Rotary() if changed["rotary"] else None
    if width != before:
        kept = "heads" in options or c.own_head_width is not None or width % c.head_width != 0
        heads = {} if kept else {"heads": width // c.head_width}
        changed = {"width": width, "source_width": None, "output_width": None, **heads, **changed}
    if "heads" in changed and "kv_heads" not in changed and c.own_kv_heads is not None:
        changed["kv_heads"] = max(1, changed["heads"] * c.kv_heads // c.heads)
    return c.replace(**changed, **({} if spec is None else {"mechanism": spec}))


def _cross(c: AttentionConfig, own: AttentionConfig, options: dict[str, Any]) -> AttentionConfig:
    """Cross-attention of the same size as the self-attention beside it; its mechanism stays as it is."""
    return c.replace(
        width=own.width, heads=own.heads, kv_heads=own.own_kv_heads, head_width=own.own_head_width,
        value_width=own.own_value_width, source_width=None, output_width=None,
    )  # fmt: skip


def _feedforward(c: FeedForwardConfig, before: int, width: int, options: dict[str, Any]) -> FeedForwardConfig:
    hidden = {} if width == before else {"hidden": max(1, c.hidden * width // before)}
    return c.replace(**hidden | _chosen(options, FEEDFORWARD))


def _chosen(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}
