"""Every tensor of a file accounted for: expected, found under which name, tied, unused; or a refusal that names it."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.config import Frozen
from headway.config.layers import stacks_of
from headway.config.size_limits import QUICK_LAYERS
from headway.hub.families.common import unfit
from headway.hub.family import Entry, Family, Table, Tied
from headway.hub.parts import part_names
from headway.hub.store import FLOATS, INDEX, Store
from headway.nn.quantized import QuantizedLinear


def canonical_names(family: Family, store: Store) -> dict[str, str]:
    """Name in the table -> name in the file, less what holds no weights."""
    found: dict[str, str] = {}
    for name in store.headers:
        known = family.canonical(name)
        if known in found:
            raise ValueError(f"{store.directory} holds {found[known]!r} and {name!r}, two names of one tensor")
        found[known] = name
    return found


def check_depth(config: Frozen, names: Collection[str], directory: Path) -> None:
    """Refuse more layers than the files have tensors for, before a model of that depth is built."""
    numbered: dict[str, set[str]] = {}
    for name in names:
        for found in re.finditer(r"(?<=[.])\d+(?=[.])", name):
            numbered.setdefault(name[: found.start()], set()).add(found[0])
    stored = max(map(len, numbered.values()), default=0)
    for name, stack in stacks_of(config).items():
        if not stack.shared and stack.layers > max(stored, QUICK_LAYERS):
            raise ValueError(
                f"config.json of {directory} says {stack.layers:,} layers ({name}), and the files hold tensors of "
                f"{stored:,}"
            )


def account(family: Family, table: Table, store: Store, names: dict[str, str]) -> tuple[str, ...]:
    """Every tensor of the table must be there, and every tensor that is there must be explained."""
    use_other_names(table, names)
    missing = [row.theirs for row in table if isinstance(row, Entry) and row.theirs not in names]
    if missing:
        raise ValueError(f"{store.directory} lacks {_some(missing)}; no weight is made up for it")
    known = {row.theirs for row in table}
    check_index(family, table, store)
    left = [name for known_as, name in names.items() if known_as not in known]
    ignored = [name for name in left if any(re.fullmatch(one, family.canonical(name)) for one in family.ignored)]
    unexplained = [name for name in left if name not in ignored]
    if unexplained:
        raise ValueError(
            f"{store.directory} holds {_some(unexplained)}, which a {family.name} of this config.json does not have"
        )
    return tuple(ignored)


def check_index(family: Family, table: Table, store: Store) -> None:
    """An index may name a tied tensor twice that its files hold once; anything else must be where it says."""
    second = {row.theirs for row in table if isinstance(row, Tied)}
    for name, file in store.absent.items():
        if family.canonical(name) not in second:
            raise ValueError(f"{store.directory / INDEX} says that {file} holds {name!r}, and it does not")


def use_other_names(table: Table, names: dict[str, Any]) -> None:
    """Where a file holds a tied tensor under its second name alone, that name serves."""
    for row in table:
        if isinstance(row, Tied) and row.same_as not in names and row.theirs in names:
            names[row.same_as] = names.pop(row.theirs)


def check_unused(family: Family, config: Frozen | None, store: Store, unused: tuple[str, ...]) -> None:
    """What is made anew must be what the file has, where another library would read it there."""
    for name in unused:
        made = family.remade(family.canonical(name), config)
        if made is None:
            continue
        stored = store.tensor(name)
        near = 1e-5 if stored.dtype in (torch.float32, torch.float64) else 1e-2
        if stored.shape != made.shape or not torch.allclose(stored.to(made.dtype), made, rtol=0, atol=near):
            raise ValueError(f"{store.directory}: {name!r} is not what config.json makes it, and would not be read")


def _some(names: list[str]) -> str:
    return f"{names[0]!r}" + (f" and {len(names) - 1} more tensors" if len(names) > 1 else "")


def check_cover(entries: list[Entry], shapes: Mapping[str, torch.Size]) -> None:
    covered = [name for entry in entries for name in entry.names]
    assert sorted(covered) == sorted(shapes), set(covered) ^ set(shapes)


def check_header(
    entry: Entry, store: Store, names: dict[str, str], shapes: Mapping[str, torch.Size], counts: Collection[str] = ()
) -> None:
    """Refuse a tensor of another shape, and one that is no floating-point number unless the model counts in it."""
    header, name = store.headers[names[entry.theirs]], names[entry.theirs]
    expected = entry.shape([shapes[ours] for ours in entry.names])
    if header.shape != expected:
        raise ValueError(f"{store.directory}: {name!r} has shape {header.shape}, and config.json makes it {expected}")
    if header.dtype not in FLOATS and not set(entry.names) & set(counts):
        raise ValueError(
            f"{store.directory}: {name!r} is stored as {header.dtype}; headway reads floating-point weights"
        )


SCALES = (".scale", ".minimum")  # how the names end of what belongs to quantised weights
_STORED = {"I8": torch.int8, "U8": torch.uint8, **FLOATS}


def check_stored(model: nn.Module, entries: list[Entry], store: Store, names: dict[str, str]) -> None:
    """Refuse quantised weights that are not of the type that config.json says: converting them changes the model."""
    stored = {
        part: tensor.dtype
        for name, layer in model.named_modules()
        if isinstance(layer, QuantizedLinear)
        for own, tensor in layer.named_buffers()
        for part in part_names(model)[f"{name}.{own}"]
    }
    for entry in entries:
        header, ours = store.headers[names[entry.theirs]], entry.names[0]
        if ours in stored and _STORED.get(header.dtype) != stored[ours]:
            raise ValueError(
                f"{store.directory}: {entry.theirs!r} is stored as {header.dtype}, and config.json makes it "
                f"{str(stored[ours]).removeprefix('torch.')}"
            )


def check_tied(table: Table, store: Store, names: dict[str, str]) -> tuple[str, ...]:
    tied = [row for row in table if isinstance(row, Tied)]
    for row in tied:
        if row.theirs in names and row.same_as in names:
            first, second = names[row.same_as], names[row.theirs]
            if not torch.equal(store.tensor(first), store.tensor(second)):
                raise ValueError(
                    f"{store.directory}: config.json ties {second!r} to {first!r}, and the file holds two different "
                    "tensors"
                )
    return tuple(row.theirs for row in tied)


def check_written(family: Family, layout: str, config: Any, said: Mapping[str, Any]) -> None:
    """What was written has to mean the same model when it is read again: a layout cannot say everything."""
    names = frozenset(row.theirs for row in family.table(config) if isinstance(row, Entry))
    try:
        again = family.read(json.loads(json.dumps(said)), names)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"this model cannot be read again from the layout of {layout} ({error}): save it with layout='headway'"
        ) from None
    for name, value in differences(config, again):
        loose = (*family.omitted_options, "family", *STARTS)
        if not any(name == one or name.startswith(f"{one}.") for one in loose):
            raise unfit(layout, name, value)


STARTS = tuple(f"{stack}.scaled_init" for stack in ("stack", "encoder", "decoder"))  # how weights began says no layout


def differences(ours: Any, theirs: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names of the options in which two configurations differ, and what they are in ours."""
    if isinstance(ours, Frozen) and type(ours) is type(theirs):
        for name, field in type(ours).model_fields.items():
            here = f"{place}.{field.alias or name}".removeprefix(".")
            yield from differences(getattr(ours, name), getattr(theirs, name), here)
    elif isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, place)
    elif ours != theirs:
        yield place, ours
