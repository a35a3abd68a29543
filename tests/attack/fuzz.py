"""`make fuzz`: damaged files for every reader and hostile words for every command, counted, shrunk and kept.

    python -m tests.attack.fuzz --minutes 10 --seed 0          half of the time for each
    python -m tests.attack.fuzz --loads 50000 --commands 5000
    python -m tests.attack.fuzz --again                        what was found before

A case is drawn from the seed and its number, and is data: a reader or a command, and edits of files. One that ends in
an unexpected exception, a crash, a hang or a silent acceptance is made smaller and kept in tests/attack/findings.jsonl;
the tests try those again for ever.
"""

import argparse
import gc
import io
import json
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # threads do not outlive a fork
os.environ["HF_HUB_OFFLINE"] = "1"  # `missing/file` may be the id of a model

from headway.cli import VERBS
from headway.cli import main as main_of_headway
from tests.attack import edits
from tests.attack.pool import BAD, CACHE, Case, Result, results

FINDINGS = Path(__file__).with_name("findings.jsonl")
TOLD = 30.0  # seconds from one line of progress to the next
ENOUGH = 300  # findings after which a run stops: mend those first


def warm() -> None:
    """Import what cases need, so that a forked process need not."""
    import torch

    from headway.native import build

    for name in ("commands", "readers", "seeds"):
        import_module(f"tests.attack.{name}")
    for name in ("app.mechanism_table", "app.plan", "app.train", "app.show", "audit", "cost.price", "decoding", "look"):
        import_module(f"headway.{name}")
    for verb in VERBS:
        import_module(f"headway.cli.{verb}")
    torch.set_num_threads(1)
    with redirect_stdout(io.StringIO()):
        main_of_headway(["cost", "bert-tiny"])  # it imports what torch imports at the first fake tensor
    build.library()  # or each child would compile it in a cache of its own
    gc.collect()
    gc.freeze()  # what is imported is no garbage, and a child that looks for some copies every page


def prepare(base: Path) -> Path:
    """Whole files below `base`, and everything imported."""
    warm()
    from tests.app.machine_by_hand import machine, remember
    from tests.attack.seeds import plant

    (base / "seeds").mkdir()
    plant(base / "seeds")
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(base / CACHE)}):
        remember(machine())  # or the first plans would measure it, several at once
    return base


def loads(base: Path, seed: object) -> Iterator[Case]:
    """Cases of all readers, for ever."""
    from tests.attack.readers import READERS

    names, number = list(READERS), 0
    while True:
        chance = random.Random(f"load {seed} {number}")
        name = names[number % len(names)]
        reader = READERS[name]
        place = base / "seeds" / reader.seed
        count = chance.choices([1, 2, 3, 5], [60, 25, 10, 5])[0]
        made = [edits.draw(chance, place, chance.choice(reader.files)) for _ in range(count)]
        yield {"reader": name, "edits": made + (list(map(list, reader.finish)) if chance.random() < 0.6 else [])}
        number += 1


def commands(base: Path, seed: object) -> Iterator[Case]:
    """Commands, for ever."""
    from tests.attack.commands import draw

    number = 0
    while True:
        yield draw(random.Random(f"command {seed} {number}"), base / "seeds")
        number += 1


def undamaged() -> Iterator[Case]:
    """Every reader with its whole files, and every command that a hostile one is made of: all of them work.

    Otherwise the attack would end at the first refusal, and damage would never be met."""
    from tests.attack.commands import BASES
    from tests.attack.readers import READERS

    yield from ({"reader": name, "edits": []} for name in READERS)
    yield from ({"argv": [verb, *shlex.split(words)], "edits": []} for verb in BASES for words in BASES[verb])


def some(cases: Iterator[Case], count: int | None, seconds: float | None) -> Iterator[Case]:
    """So many of them, or as many as the time allows."""
    begun = time.monotonic()
    for number, case in enumerate(cases):
        if number == count or (seconds is not None and time.monotonic() - begun > seconds):
            return
        yield case


def smaller(case: Case, result: Result, base: Path) -> Case:
    """The same finding with fewer edits and words."""
    for part in ("edits", "argv"):
        at = len(case.get(part, ())) - 1
        while at >= (part == "argv"):
            tried = case | {part: [*case[part][:at], *case[part][at + 1 :]]}
            if _alike(try_one(tried, base), result):
                case = tried
            at -= 1
    return case


def try_one(case: Case, base: Path) -> Result:
    return next(results(iter([case]), base, 1, first=100))[1]


def _alike(one: Result, other: Result) -> bool:
    return (one["kind"], one.get("where")) == (other["kind"], other.get("where"))


def keep(case: Case, result: Result, base: Path) -> None:
    """A finding as a line of a file: what to do, and what was seen."""
    text = json.dumps(case | {"seen": result}).replace(f"{base}/", "")
    with FINDINGS.open("a") as file:
        file.write(text + "\n")


def findings() -> list[Case]:
    """What was found so far."""
    return [json.loads(line) for line in FINDINGS.read_text().splitlines()] if FINDINGS.exists() else []


def attack(cases: Iterator[Case], base: Path, workers: int, *, keeping: bool = True) -> Counter[str]:
    """Try all cases and count how they end; of findings alike, one is kept."""
    counts: Counter[str] = Counter()
    seen: set[tuple[str, ...]] = set()
    told_at = time.monotonic()
    for case, result in results(cases, base, workers):
        if result["kind"] == "hang":  # once more, alone
            result = try_one(case, base)
        counts[result["kind"]] += 1
        if time.monotonic() - told_at > TOLD:
            told_at = time.monotonic()
            print(f"{counts.total():,} so far: {dict(counts)}", file=sys.stderr, flush=True)
        alike = (result["kind"], case.get("reader", case.get("argv", [""])[0]) if result["kind"] != "exception" else "",
                 result.get("where", ""), result["text"].split(":")[0])  # fmt: skip
        if result["kind"] in BAD and alike not in seen:
            seen.add(alike)
            short = smaller(case, result, base) if keeping else case
            print(f"{result['kind']}: {result.get('where', '')} {result['text'][:300]}\n  {_brief(short)}", flush=True)
            if keeping:
                keep(short, result, base)
        if len(seen) >= ENOUGH:
            print(f"{ENOUGH} findings: stopped")
            break
    return counts


def _brief(case: Case) -> str:
    return json.dumps({key: value for key, value in case.items() if key != "seen"})[:400]


def told(name: str, counts: Counter[str], seconds: float) -> str:
    kinds = {"refused": "refused", "accepted": "accepted", "exception": "unexpected exceptions", "crash": "crashes",
             "hang": "hangs", "silent": "silent acceptances"}  # fmt: skip
    words = ", ".join(f"{counts[kind]:,} {word}" for kind, word in kinds.items())
    return f"{counts.total():,} {name} in {seconds:,.0f} s: {words}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged files and hostile commands, counted.")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--loads", type=int, default=None)
    parser.add_argument("--commands", type=int, default=None)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="try the findings that were kept")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # files in memory: a case makes dozens
    with tempfile.TemporaryDirectory(prefix="headway-attack-", dir=shared) as made:
        base = prepare(Path(made))
        if given.again:
            return again(findings(), base, given.workers)
        seconds = None if given.minutes is None else given.minutes * 30
        total: Counter[str] = Counter()
        named = given.loads is not None or given.commands is not None
        for name, make, count in (("loads", loads, given.loads), ("commands", commands, given.commands)):
            if count == 0 or (count is None and named and seconds is None):
                continue
            begun = time.monotonic()
            counts = attack(some(make(base, given.seed), count, seconds), base, given.workers)
            print(told(name, counts, time.monotonic() - begun), flush=True)
            total += counts
    return int(any(total[kind] for kind in BAD))


def again(cases: list[Case], base: Path, workers: int) -> int:
    """Findings that were kept: how they end now."""
    bad = 0
    for case, result in results(iter(cases), base, workers):
        if result["kind"] in BAD:
            bad += 1
            print(f"{result['kind']}: {result.get('where', '')} {result['text'][:300]}\n  {_brief(case)}")
    print(f"{len(cases)} tried again, {bad} are findings still")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
