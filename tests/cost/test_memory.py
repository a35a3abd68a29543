"""Memory on paper: caches, parameters, units, and what fits."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from headway.config import Linear, Local
from headway.cost.memory import ModelMemory, cache_bytes, memory_of, peak, traced
from headway.cost.memory.fit import _searched, largest, read_bytes
from headway.cost.optimiser import entries_of
from headway.cost.setting import Setting
from headway.models import count
from headway.nn.cache import BlockCache
from headway.presets import preset
from tests.cost.memory_cases import CASES, gpt, ints, llama
from tests.fresh import fresh
from tests.thorough import THOROUGH


def held(caches: list[BlockCache]) -> int:
    return sum(one.nbytes for cache in caches for one in cache.parts)


CACHED: dict[str, Any] = {
    "growing": gpt(),
    "groups": llama(layers=2),
    "window": gpt(attention={"mechanism": Local(window=5)}),
    "total": llama(attention={"mechanism": Linear()}),
}


@pytest.mark.parametrize(("name", "dtype"), [*((name, "float32") for name in CACHED), ("groups", "bfloat16")])
def test_cache_is_exact(name: str, dtype: str) -> None:
    config, setting = CACHED[name], Setting(batch=3, dtype=dtype)
    session = fresh(config, dtype=getattr(torch, dtype)).session(capacity=13)
    text = ints(3, 17, below=config.vocabulary)
    session.read(text[:, :11])
    for at in range(11, 17):
        session.read(text[:, at : at + 1])
    assert cache_bytes(config, setting, 17, 13) == held(session.caches)


def test_cache_of_a_source_is_exact() -> None:
    case = CASES["marian"]()
    source, setting = case.inputs["source"], replace(case.setting, length=7)
    session = fresh(case.config).session(source, capacity=7)
    session.read(case.inputs["target"][:, :7])
    assert cache_bytes(case.config, setting, 7, 7) == held(session.caches)


@pytest.mark.parametrize("name", ["words", "classes", "sentence", "bart", "t5", "one way", "deit", "davit", "additive"])
def test_parameters_are_the_models(name: str) -> None:
    config = CASES[name]().config
    assert entries_of(config) == count(config)


def test_gpt2_by_hand() -> None:
    found = memory_of(preset("gpt2"), Setting(batch=2, length=128), new=100)
    assert isinstance(found, ModelMemory)
    assert found.weights == found.gradients == 4 * 124_439_808
    assert found.optimiser == 2 * found.weights
    assert found.cache_token == 12 * 2 * 768 * 4
    assert found.cache == 2 * (128 + 100) * found.cache_token
    assert found.logits == 2 * 128 * 50257 * 4
    assert found.saved_checkpointed < found.saved
    assert found.as_json()["peak_step"] == found.peak_step > found.weights + found.optimiser + found.saved


def test_half_precision_keeps_copies() -> None:
    full, half = (memory_of(gpt(), Setting(batch=3, length=67, dtype=dtype)) for dtype in ("float32", "bfloat16"))
    assert 2 * half.weights == full.weights
    assert half.optimiser == 3 * full.weights
    assert half.saved < full.saved


def test_a_large_preset_is_priced_without_it() -> None:
    whole: Any = preset("llama2-70b")
    config = whole.replace("stack", layers=1)
    found = peak(config, Setting(length=1024, dtype="bfloat16"), "forward")
    assert found > 2 * entries_of(config) > 2 * 32000 * 8192 * 2


@pytest.mark.parametrize(("what", "phase", "memory"), [("batch", "step", 900_000), ("length", "generate", 400_000)])
def test_one_more_does_not_fit(what: str, phase: str, memory: int) -> None:
    config, setting = gpt(), Setting(batch=2, length=5)
    found = largest(config, setting, memory, what, phase)
    assert found.count > 2
    near = [replace(setting, **{what: found.count + more}) for more in (0, 1)]
    assert peak(config, near[0], phase) == found.bytes <= memory < peak(config, near[1], phase) == found.more


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 64, 99, 100])
def test_search_is_exact(limit: int) -> None:
    assert _searched(lambda count: count, limit, 100) == limit
    assert _searched(lambda count: count**3 // 7, limit**3 // 7, 100) >= limit


def test_length_ends_with_the_table_of_positions() -> None:
    found = largest(gpt(length=64), Setting(), 10**9, "length", "forward")
    assert (found.count, found.more) == (64, None)
    assert found.sentence.endswith("the model takes no more")


def test_nothing_fits() -> None:
    found = largest(gpt(), Setting(), 1000)
    assert found.count == 0
    assert found.sentence.startswith("not even a batch of 1 fits into 1,000 bytes")


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 8 * 10**9), ("8GB", 8 * 10**9), ("8GiB", 8 * 2**30), ("1.5 MiB", 3 * 2**19), ("700", 700), ("2k", 2000),
     ("7B", 7), ("1T", 10**12), ("3KiB", 3072), (11, 11)],
)  # fmt: skip
def test_units(text: str | int, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "G", "8X", "-3G", "0", "8 G G", "0.1B", "eight", "1e9"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount of memory"):
        read_bytes(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what": "width"}, "batch or length"),
        ({"phase": "train"}, "no phase"),
        ({"phase": "generate"}, "writes no text"),
    ],
)
def test_questions_without_an_answer(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        largest(CASES["vit"]().config, Setting(), 10**9, **options)
    with pytest.raises(ValueError, match="follows from its image"):
        largest(CASES["vit"]().config, Setting(), 10**9, "length")


def test_sizes_are_whole_numbers() -> None:
    with pytest.raises(ValueError, match="batch is 0"):
        memory_of(gpt(), Setting(batch=0))


DEEP = ["gpt dropout", "llama", "words", "marian", "t5", "vit"] if THOROUGH else ["llama", "t5"]


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("how", [{}, {"learning": True}, {"learning": True, "forgets": True}], ids=str)
def test_deep_stacks_follow_from_shallow_ones(name: str, how: dict[str, bool]) -> None:
    """Two and three blocks say what seven take, to the byte."""
    case = CASES[name]()
    stacks = {n: s.replace(layers=7) for n in ("stack", "encoder", "decoder") if (s := getattr(case.config, n, None))}
    deep = case.config.replace(**stacks)
    whole = traced._walk_of(traced._run(deep, case.setting, how.get("learning", False), how.get("forgets", False)))
    assert traced.walked(deep, case.setting, **how) == whole


def test_stacks_that_alternate() -> None:
    near = gpt(attention={"mechanism": Local(window=5)}).stack.block
    config = gpt(layers=1).replace("stack", layers=11, alternates=(near, near))
    whole = traced._walk_of(traced._run(config, Setting(batch=2, length=61), True, False))
    assert traced.walked(config, Setting(batch=2, length=61), learning=True) == whole
