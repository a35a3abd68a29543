"""Adapters on disk in the layout of the library peft: adapter_config.json and adapter_model.safetensors.

    W <- W + (alpha / rank) · B A        lora_B.weight: outputs x rank, lora_A.weight: rank x inputs

Names are those of the family's own tensors. Where a family keeps queries, keys and values in one tensor (GPT-2), the
adapters of its parts are one adapter of the sum of their ranks: their A one below the other, and each B in its own rows
and columns.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.file_errors import errors_of, errors_of_library
from headway.config.train import LoraConfig
from headway.data.files import read_json, write_json
from headway.hub.family import Entry, Family, family_named
from headway.hub.parts import parts_of
from headway.hub.safetensors_file import write
from headway.models.lora import LowRank, adapters_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
TASKS = {"language": "CAUSAL_LM", "seq2seq": "SEQ_2_SEQ_LM"}
# What an adapter may say besides, and the only value with which it is what headway computes.
SWITCHES: dict[str, Any] = {
    "alora_invocation_tokens": None, "bias": "none", "corda_config": None, "lora_bias": False, "megatron_config": None,
    "modules_to_save": None, "target_parameters": None, "trainable_token_indices": None, "use_dora": False,
    "use_qalora": False,
}  # fmt: skip


def is_adapter(path: str | Path) -> bool:
    """Whether a directory holds an adapter and no model."""
    return (Path(path) / CONFIG).is_file() and not (Path(path) / "config.json").is_file()


def read_adapter_config(place: Path) -> dict[str, Any]:
    """What an adapter says of itself; one that is not computed as above is refused by key and value."""
    said = read_json(place / CONFIG)
    with errors_of(place / CONFIG):
        if (kind := said.get("peft_type")) != "LORA":
            raise ValueError(f"headway reads adapters of peft_type LORA, not {kind}")
        for key, value in SWITCHES.items():
            if said.get(key, value) not in (value, [], {}, None):
                raise ValueError(f"headway does not read an adapter with {key}={said[key]!r}")
    return said


def base_of(place: Path) -> str:
    """The model that an adapter is made for, by its name or path."""
    base = read_adapter_config(place).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ValueError(f"{place / CONFIG} names no model that the adapter is made for: load that one with adapter=")
    return base


@dataclass(frozen=True)
class Merged:
    """What was added to a model."""

    place: str
    ranks: tuple[int, ...]
    tensors: int

    def __str__(self) -> str:
        ranks = " and ".join(map(str, self.ranks))
        return f"with the adapter {self.place} of rank {ranks} added to {self.tensors} tensors"


@torch.no_grad()
def merge_adapter(model: Any, place: Path, *, before: dict[str, Tensor] | None = None) -> Merged:
    """Add an adapter to the weights of a model, in place; each of its tensors is used, or it is refused.

    `before` gets a copy of each weight that is changed, as it was.
    """
    if not (place / CONFIG).is_file():
        raise ValueError(f"{place} is no adapter: it has no {CONFIG}")
    if model.config.weights is not None:
        raise ValueError(f"an adapter is added to floating-point weights, and these are {model.config.weights}")
    said, family = read_adapter_config(place), _family(model)
    rows = {row.theirs: row for row in family.table(model.config) if isinstance(row, Entry)}
    parts, ranks, pairs = parts_of(model), set(), _pairs(place, family)
    for name, (down, up) in pairs.items():
        entry = rows.get(f"{name}.weight")
        if entry is None:
            raise ValueError(
                f"{place / WEIGHTS} has an adapter of {name!r}, and a {model.config.family} has no such map"
            )
        expected = entry.shape([parts[one].shape for one in entry.names])
        expected = expected[::-1] if entry.turned else expected
        if (found := (up.shape[0], down.shape[1])) != tuple(expected) or up.shape[1] != down.shape[0]:
            raise ValueError(f"the adapter of {name!r} in {place} is of a map {found}, and the model's is {expected}")
        ranks.add(len(down))
        with errors_of(place / CONFIG):
            scale = _scale(said, name, len(down), place / CONFIG)
        # In float32 at least, and rounded once, where the weights are.
        change = scale * (up.to(_wide(up)) @ down.to(_wide(down)))
        change = change.t() if entry.turned else change
        for one, part in zip(entry.names, entry.forwards(change, [len(parts[n]) for n in entry.names]), strict=True):
            weight = parts[one]
            if before is not None:
                before[one] = weight.clone()
            weight.copy_(weight.to(_wide(weight)) + part.to(_wide(weight)))
    return Merged(str(place), tuple(sorted(ranks)), len(pairs))


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _family(model: Any) -> Family:
    if model.config.family == "sentence":
        raise ValueError("adapters of sentence encoders are not read: load the encoder in it")
    return family_named(model.config.family)


def _pairs(place: Path, family: Family) -> dict[str, tuple[Tensor, Tensor]]:
    """A and B of each map, by the family's name of it."""
    from safetensors.torch import load_file

    if not (place / WEIGHTS).is_file():
        raise ValueError(f"{place} has no {WEIGHTS}: an adapter without its weights")
    with errors_of_library(place / WEIGHTS, "safetensors file"):
        tensors = load_file(place / WEIGHTS)
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        said = re.fullmatch(rf"{re.escape(PREFIX)}(.+)\.lora_([AB])(?:\.default)?\.weight", name)
        if said is None or tensor.ndim != 2:
            raise ValueError(
                f"{place / WEIGHTS} holds {name!r}, which is no adapter of a linear map that headway reads"
            )
        found.setdefault(family.canonical(f"{said[1]}.weight").removesuffix(".weight"), {})[said[2]] = tensor
    if lacking := [name for name, pair in found.items() if len(pair) < 2]:
        raise ValueError(f"{place / WEIGHTS} has one half of the adapter of {lacking[0]!r}: lora_A and lora_B are two")
    return {name: (pair["A"], pair["B"]) for name, pair in found.items()}


def _scale(said: Mapping[str, Any], name: str, rank: int, path: Path) -> float:
    """alpha / rank, or alpha / √rank where it says so (arXiv:2312.03732)."""
    patterns = said.get("alpha_pattern") or {}
    own = next((value for key, value in patterns.items() if _is_named(name, key, path)), None)
    alpha = said.get("lora_alpha", 8) if own is None else own
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not isfinite(alpha):
        raise ValueError(f"{path} gives {name!r} the alpha {alpha!r}, which is no finite number")
    if not isinstance(rooted := said.get("use_rslora") or False, bool):
        raise ValueError(f"{path} has use_rslora={rooted!r}, which is neither true nor false")
    return alpha / rank**0.5 if rooted else alpha / rank


def _is_named(name: str, key: str, path: Path) -> bool:
    """Whether a name ends as a key says: an expression, of those whose search cannot take for ever."""
    if not re.fullmatch(r"[\w.^$\\*+-]{1,200}", key) or len(re.findall(r"[*+]", key)) > 3:
        raise ValueError(
            f"{path} has the key {key!r} in alpha_pattern: headway reads the end of a name there, with at most three "
            "of * and +"
        )
    try:
        return bool(re.match(rf"(.*\.)?({key})$", name))
    except re.error as error:
        raise ValueError(f"{path} has the key {key!r} in alpha_pattern, which is no expression: {error}") from None


def write_adapter(
    model: Any, config: LoraConfig, place: Path, base: str, adapters: Mapping[str, LowRank] | None = None
) -> None:
    """Write the adapters of a model into a directory that is there."""
    family = _family(model)
    table = [row for row in family.table(model.config) if isinstance(row, Entry) and row.theirs.endswith(".weight")]
    pairs = dict(_exported(family, table, model, adapters_of(model) if adapters is None else adapters))
    write(place / WEIGHTS, {
        f"{PREFIX}{name}.lora_{letter}.weight": tensor
        for name, pair in pairs.items() for letter, tensor in zip("AB", pair, strict=True)
    }, {"format": "pt"})  # fmt: skip
    modules = [family.exported(row.theirs, model.config).removesuffix(".weight") for row in table]
    ranks = {tail: len(pairs[name][0]) for name, tail in _tails(modules, list(pairs)).items()}
    usual = min(ranks.values())
    own = {tail: rank for tail, rank in ranks.items() if rank != usual}
    scale = config.alpha / config.rank
    turned = {family.exported(row.theirs, model.config).removesuffix(".weight") for row in table if row.turned}
    write_json(place / CONFIG, {
        "peft_type": "LORA", "task_type": TASKS.get(model.config.kind), "base_model_name_or_path": base,
        "r": usual, "lora_alpha": scale * usual, "lora_dropout": config.dropout, "target_modules": sorted(ranks),
        "rank_pattern": own, "alpha_pattern": {tail: scale * rank for tail, rank in own.items()},
        "fan_in_fan_out": bool(turned & set(pairs)), "bias": "none", "modules_to_save": None, "use_rslora": False,
        "use_dora": False, "inference_mode": True, "init_lora_weights": True,
    })  # fmt: skip


def _exported(
    family: Family, table: Sequence[Entry], model: nn.Module, adapters: Mapping[str, LowRank]
) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """The family's names of the maps, with A and B."""
    parts = parts_of(model)
    for entry in table:
        names = [name.removesuffix(".weight") for name in entry.names]
        mine = {name: adapters[name] for name in names if name in adapters}
        if not mine:
            continue
        down = torch.cat([one.down.detach() for one in mine.values()])
        ups, start = [], 0
        for name in names:
            block = down.new_zeros(len(parts[f"{name}.weight"]), len(down))
            if name in mine:
                up = mine[name].up.detach()
                block[:, start : start + up.shape[1]] = up
                start += up.shape[1]
            ups.append(block)
        up = entry.backwards(ups)
        yield (
            family.exported(entry.theirs, model.config).removesuffix(".weight"),
            (down, up.t().contiguous() if entry.turned else up),
        )


def _tails(modules: Sequence[str], adapted: Sequence[str]) -> dict[str, str]:
    """For each map with an adapter the shortest end of its name that no map without one has.

    >>> names = ["h.0.attn.c_proj", "h.0.mlp.c_proj", "h.0.attn.c_attn"]
    >>> _tails(names, ["h.0.attn.c_proj", "h.0.attn.c_attn"])
    {'h.0.attn.c_proj': 'attn.c_proj', 'h.0.attn.c_attn': 'c_attn'}
    """
    others = [name for name in modules if name not in set(adapted)]
    found = {}
    for name in adapted:
        words = name.split(".")
        tails = (".".join(words[start:]) for start in range(len(words) - 1, -1, -1))
        found[name] = next(t for t in tails if not any(one == t or one.endswith(f".{t}") for one in others))
    return found
