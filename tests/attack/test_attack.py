"""A share of `make fuzz` in the daily suite: what was found before, and new damage of every reader and command."""

from pathlib import Path
from typing import Any

import pytest

from tests.processes import Processes
from tests.thorough import THOROUGH

SHARES = 4  # tests, so that several workers share them
LOADS, COMMANDS = 5000 if THOROUGH else 250, 500  # of each

CODE = """
import json, sys
from pathlib import Path
from tests.attack import fuzz

base, kind, share, count = Path(sys.argv[1]), *sys.argv[2:5]
fuzz.warm()
if kind == "again":
    sys.exit(fuzz.again(fuzz.findings()[int(share)::int(count)], base, 1))
if kind == "undamaged":
    cases = list(fuzz.undamaged())[int(share)::int(count)][::int(sys.argv[5])]
    wrong = [one for one in fuzz.results(iter(cases), base, 1) if one[1]["kind"] != "accepted"]
    sys.exit("\\n".join(map(str, wrong)) or 0)
make = {"loads": fuzz.loads, "commands": fuzz.commands}[kind]
counts = fuzz.attack(fuzz.some(make(base, f"daily {share}"), int(count), None), base, 1, keeping=False)
print(json.dumps(counts))
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> Path:
    """Whole files to damage, made without the checks of types that this suite switches on."""
    place = tmp_path_factory.mktemp("attack")
    made = attacked(
        processes,
        "from pathlib import Path; import sys; from tests.attack import fuzz\nfuzz.prepare(Path(sys.argv[1]))",
        place,
    )
    assert made.code == 0, made.stderr
    return place


def attacked(processes: Processes, code: str, *arguments: Any) -> Any:
    setting = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    child = processes.start(code, *map(str, arguments), cwd=Path(__file__).parents[2], environment=setting)
    child.wait(1500)
    return child


@pytest.mark.parametrize("share", range(SHARES))
def test_whole_files_are_read_and_plain_commands_work(base: Path, processes: Processes, share: int) -> None:
    """Once, every seed was refused for a hash that was no longer its own, and no damage was ever met."""
    done = attacked(processes, CODE, base, "undamaged", share, SHARES, 1 if THOROUGH else 3)
    assert done.code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("share", range(SHARES))
def test_what_was_found_before_is_refused_in_a_sentence(base: Path, processes: Processes, share: int) -> None:
    done = attacked(processes, CODE, base, "again", share, SHARES)
    assert done.code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("share", range(SHARES))
def test_a_damaged_file_is_refused_in_a_sentence_or_read_as_it_is(base: Path, processes: Processes, share: int) -> None:
    done = attacked(processes, CODE, base, "loads", share, LOADS)
    assert done.code == 0 and _bad(done.stdout) == 0, done.stdout + done.stderr


if THOROUGH:  # what a command is asked to do may take long (`plan` measures the machine first), and all count as hangs

    @pytest.mark.parametrize("share", range(SHARES))
    def test_a_hostile_command_ends_with_a_result_or_a_sentence(base: Path, processes: Processes, share: int) -> None:
        done = attacked(processes, CODE, base, "commands", share, COMMANDS)
        assert done.code == 0 and _bad(done.stdout) == 0, done.stdout + done.stderr


def _bad(out: str) -> int:
    import json

    counts = json.loads(out.splitlines()[-1])
    assert sum(counts.values()) > 0
    return sum(counts.get(kind, 0) for kind in ("exception", "crash", "hang", "silent"))
