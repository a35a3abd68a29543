"""The memory of a model before it runs: weights, gradients, optimiser, activations, caches, and what is in use at most.

Nothing is allocated. The model itself runs on fake tensors (`traced`): forwards, and for a step of training backwards
too.

>>> from headway.presets import preset
>>> found = memory_of(preset("gpt2"), Setting(batch=8, length=1024))
>>> found.weights, found.optimiser, found.cache_token
(497759232, 995518464, 73728)
"""

from dataclasses import asdict, dataclass, replace

from headway.config import Frozen
from headway.cost.memory.asked import KINDS
from headway.cost.memory.cache import cache_bytes, reserved, token_bytes
from headway.cost.memory.optimiser import optimiser_state, update_bytes
from headway.cost.memory.traced import entries_of, walked
from headway.cost.setting import BYTES, Setting

WRITERS = ("language", "seq2seq", "recurrent")


@dataclass(frozen=True)
class Memory:
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


def memory_of(config: Frozen, setting: Setting, *, optimiser: str = "adamw", new: int = 0) -> Memory:
    """All of it; `new` tokens to generate after a prompt of the setting's length."""
    _check(config, setting)
    still, taught = walked(config, setting), walked(config, setting, learning=True)
    again = walked(config, setting, learning=True, forgets=True)
    weights, state = weight_bytes(config, setting), optimiser_state(config, setting, optimiser)
    update = update_bytes(config, setting, optimiser)
    writes = config.kind_or_name() in WRITERS
    tokens = setting.length + new
    return Memory(
        weights=weights,
        gradients=weights,
        optimiser=state,
        inputs=taught.inputs,
        saved=taught.saved,
        aside=taught.aside,
        saved_checkpointed=again.kept,
        logits=still.output,
        peak_forward=weights + still.inputs + still.peak,
        peak_step=weights + state + taught.inputs + max(taught.peak, update),
        peak_step_checkpointed=weights + state + again.inputs + max(again.peak, update),
        cache_token=token_bytes(config, setting) if writes else 0,
        cache=cache_bytes(config, setting, tokens, reserved(setting.length, new)) if writes else 0,
        peak_generate=generate_peak(config, setting, new) if writes else 0,
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
    return entries_of(config) * setting.itemsize


def _check(config: Frozen, setting: Setting) -> None:
    if config.kind_or_name() not in KINDS:
        raise ValueError(f"{config.kind_or_name()} configures no model with a price; there are {', '.join(KINDS)}")
    for name in ("batch", "length", "source_length"):
        size = getattr(setting, name)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"memory is counted in whole numbers: {name} is {size}, give a number of at least 1")
    if setting.dtype not in BYTES:
        raise ValueError(f"there is no dtype {setting.dtype!r} here; there are {', '.join(BYTES)}")
