"""`headway plan`: which model for this data, in this time and memory."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output
from headway.config.base import nearest
from headway.config.train import TrainConfig

if TYPE_CHECKING:
    from headway.cost.time.machine import Machine

ALIKE = {"generate": "language", "translate": "seq2seq", "classification": "classify", "vision": "images"}


def plan(
    task: str,
    /,
    *data: Annotated[str, Parameter(allow_leading_hyphen=True)],
    budget: str = "1h",
    memory: str | None = None,
    output: Output = STDOUT,
    settings: Annotated[TrainConfig | None, Parameter(name="*", negative="")] = None,
) -> int:
    """Propose a model for data, a time and a memory, and print the command that trains it.

    The data's size is read (bytes, and the tokens of a sample), nothing is
    trained and nothing is written. A table shows some sizes with their
    price: memory and seconds of a step, steps in the budget, tokens seen.
    The one that is marked has the lowest loss to expect, by a published law
    of model size and tokens seen. Settings of `headway train` may be given, and stay as
    they are. A machine that was never measured is measured first, in a few
    seconds.

    For example:

        headway plan language book.txt --budget 2h --memory 8G
        headway plan classify reviews.csv --budget 20min --data.text body
        headway plan images digits --budget 90s --model.architecture davit
        headway plan language stdlib --budget 1d --json

    Parameters
    ----------
    task
        What is learnt: language, masked, seq2seq, classify, images or embed.
    data
        Files, folders, globs or sources by name, as `headway train` takes them.
    budget
        The time that training may take: 90s, 20min, 2h, 1d.
    memory
        Memory of a step at most: 512M, 8G, 16GiB; by default that of this machine.
    """
    _check(task, data)
    output.check()
    from headway.app.plan.show import read_seconds
    from headway.app.settings import merged, resolve

    seconds = read_seconds(budget)
    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    if "steps" in given:
        raise ValueError("a plan chooses the steps from the budget: leave --steps out, or see headway train --dry-run")
    given = merged(given, {"task": task, "data": {"train": list(data)}})
    config = resolve(given)
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.plan import Wanted, make_plan, read_input
    from headway.app.plan.show import as_json, data_text, plan_table, remarks

    limit = _bytes(memory)
    read = read_input(config, given)
    wanted = Wanted(seconds, limit, _machine())  # measuring takes seconds, so that every mistake is found before it
    found = make_plan(read, wanted)
    record = {"task": task} | as_json(found, wanted)
    output.write([plan_table(found)], record=record, title=data_text(found.known), notes=remarks(found))
    return 0


def _check(task: str, data: tuple[str, ...]) -> None:
    known = ("language", "masked", "seq2seq", "classify", "images", "embed")
    if task not in known:
        hint = f" (did you mean {ALIKE[task]}?)" if task in ALIKE else nearest(task, known)
        raise ValueError(f"there is no task {task!r}{hint}; there are {', '.join(known)}")
    if not data:
        raise ValueError("a plan needs data: name a file, a folder, or a source such as python")
    if wrong := [one for one in data if one.startswith("-") and one != "-"]:
        raise ValueError(f"there is no option {wrong[0]!r}; see headway plan --help")


def _bytes(memory: str | None) -> int | None:
    from headway.cost.memory.fit import read_bytes

    if memory is not None:
        return read_bytes(memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None  # the system does not say


def _machine() -> "Machine":
    from headway.cost.time.machine import measure, stored

    found, _ = stored()
    if found is not None:
        return found
    print("this machine was not measured yet: it is now, once, which takes a few seconds", file=sys.stderr)
    return measure(lambda line: print(line, file=sys.stderr))
