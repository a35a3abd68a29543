"""Sizes that no machine can hold, or nobody could wait for, are refused in one sentence before they are tried."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

import headway as hw
from headway.cli import main
from headway.config import StackConfig
from headway.config.size_limits import LAYERS, NEW_TOKENS, SAMPLES, SIZE, VOCABULARY, check_room, lift_limits
from headway.data.tokenizer import Tokenizer
from headway.hub.target import directory
from headway.presets import preset
from tests.attack.seeds import SAID

HUGE = "99999999999"
# Command -> words of its sentence. Each runs for at most a minute, in a process that may take 8 GB more than it has.
CASES = {
    "info big": f"at most {LAYERS:,}, not 2,147,483,648",
    "cost big": f"at most {LAYERS:,}, not 2,147,483,648",
    "generate big --prompt a": f"at most {LAYERS:,}, not 2,147,483,648",
    "train book.txt --model.start big --out o": f"at most {LAYERS:,}, not 2,147,483,648",
    "info deep": "says 2,000 layers (stack), and the files hold tensors of 2",
    "cost deep": "says 2,000 layers (stack), and the files hold tensors of 2",
    "generate deep --prompt a": "says 2,000 layers (stack), and the files hold tensors of 2",
    "train book.txt --model.start deep --out o": "says 2,000 layers (stack), and the files hold tensors of 2",
    f"train book.txt --model.layers {HUGE} --dry-run": f"at most {LAYERS:,}, not 99,999,999,999",
    f"train book.txt --batch {HUGE} --dry-run": "the largest that fits has",
    f"train book.txt --batch {HUGE} --out o": "the largest that fits has",
    "train book.txt --model.width 40000000 --dry-run": "the largest that fits has",
    f"train book.txt --model.hidden {HUGE} --dry-run": "the largest that fits has",
    "train book.txt --model.preset llama2-70b --dry-run": "the largest that fits has",
    f"train book.txt --tokenizer.vocabulary {HUGE} --dry-run": f"at most {VOCABULARY:,}, not 99,999,999,999",
    "train book.txt --tokenizer.vocabulary 100000000000000000000 --dry-run": "less than or equal to",
    "cost gpt2 --sweep layers=1..99999999": f"at most {LAYERS:,}, not 4,096",
    f"cost gpt2 --batch {10**23}": f"--batch has at most {SIZE:,}",
    f"cost gpt2 --past {10**23}": f"--past has at most {SIZE:,}",
    f"cost gpt2 --sweep batch=1,{10**23}": f"batch has at most {SIZE:,}",
    f"mechanisms --width {HUGE}": "the largest that fits has",
    f"mechanisms --heads {HUGE}": "the largest that fits has",
    f"generate small --prompt a --temperature 1 --n {HUGE}": f"at most {SAMPLES:,}, not 99,999,999,999",
    f"generate small --prompt a --max-tokens {HUGE}": f"at most {NEW_TOKENS:,}, not 99,999,999,999",
}
COMMANDS = """
import contextlib, io, json, resource, signal, sys
from headway.cli import main
import torch, headway.app.training_run
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 8 * 10**9, resource.RLIM_INFINITY))

def late(*_):
    raise TimeoutError

signal.signal(signal.SIGALRM, late)
found = {}
for command in json.load(sys.stdin):
    said = io.StringIO()
    signal.alarm(60)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(command.split())
    except BaseException as error:
        code = repr(error)[:200]
    signal.alarm(0)
    found[command] = (code, said.getvalue())
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers, and two whose config.json says more."""
    where = tmp_path_factory.mktemp("sizes")
    (where / "book.txt").write_text("".join(f"line {number} of a text with some words\n" for number in range(500)))
    for name, layers in {"small": 2, "deep": 2000, "big": 2**31}.items():
        hw.save(hw.build("gpt2", layers=2, width=8, heads=2, vocabulary=11, length=16), where / name)
        config = json.loads((where / name / "config.json").read_text())
        (where / name / "config.json").write_text(json.dumps({**config, "n_layer": layers}))
    return where


def test_every_size_that_nobody_has_is_one_sentence(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], input=json.dumps(list(CASES)), capture_output=True, text=True, cwd=place,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    wrong = {
        command: found[command]
        for command, words in CASES.items()
        if found[command][0] != 2 or words not in found[command][1] or "Traceback" in found[command][1]
    }
    assert not wrong
    assert not (place / "o" / "checkpoints").exists()


def test_force_lifts_the_limits(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says so where it refuses; a limit that is lifted for one command holds for the next."""
    assert main(["generate", str(place / "small"), "--prompt", "a", "--max-tokens", HUGE]) == 2
    assert "--force tries it all the same" in capsys.readouterr().err
    main(["generate", str(place / "small"), "--prompt", "a", "--max-tokens", HUGE, "--force", "--beam", "0"])
    assert "--force" not in capsys.readouterr().err
    block = preset("gpt2").stack.block
    with lift_limits():
        assert StackConfig(block=block, layers=10 * LAYERS).layers == 10 * LAYERS
        check_room(2**60, 8, "it", "entries")
    with pytest.raises(ValueError, match="a stack of layers has at most"):
        StackConfig(block=block, layers=LAYERS + 1)
    with pytest.raises(ValueError, match="the largest that fits has"):
        check_room(2**60, 8, "it", "entries")


def test_large_models_that_people_have_are_priced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "llama3-70b", "--batch", "4096", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["info", "cost", "generate", "train", "mechanisms"])
def test_force_is_in_the_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([verb, "--help-all" if verb == "train" else "--help"])
    assert "--force" in capsys.readouterr().out


CHARSMAPS = ["ffffffff", "04000000", "ffffffff00000000", "03000000000000", "01"]


def tokenizer_with(charsmap: str) -> str:
    table = base64.b64encode(bytes.fromhex(charsmap)).decode()
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": table}]},
        "post_processor": None, "decoder": None, "model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]},
    })  # fmt: skip


@pytest.mark.parametrize("charsmap", CHARSMAPS)
def test_a_damaged_table_of_characters_is_named(tmp_path: Path, charsmap: str) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer_with(charsmap))
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer that can be read: a table of characters"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize("name", SAID)
def test_no_family_makes_a_list_of_layers_that_nobody_has(name: str, tmp_path: Path) -> None:
    """Those that say of each layer what it sees made one before the number was looked at."""
    key = next(
        (key for key in ("num_hidden_layers", "n_layers", "num_layers", "encoder_layers") if key in SAID[name]), ""
    )
    huge = {key: 10**12} if key else {"text_config": SAID[name]["text_config"] | {"num_hidden_layers": 10**12}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, **SAID[name], **huge}))
    with pytest.raises(ValueError, match=f"a stack of layers has at most {LAYERS:,}, not 1,000,000,000,000"):
        directory(tmp_path).config.replace()
