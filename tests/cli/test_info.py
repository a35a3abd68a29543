"""`headway info`: the tree, what it counts, and that nothing is loaded for it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from torch import nn

import headway
from headway.cli import main
from headway.config import LanguageConfig, Special
from headway.config.text import DenseConfig, SentenceConfig
from headway.models import parameters
from headway.models.outline import outline
from headway.presets import names
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from tests.fresh import fresh

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 17, 11, 6, 2, 3


def tiny() -> LanguageConfig:
    config = gpt2(width=WIDTH, heads=HEADS, layers=LAYERS)
    return config.model_copy(update={"vocabulary": VOCABULARY, "length": LENGTH, "special": Special()})


def shown(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["info", *arguments]) == 0
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


TREE = """
                           shape            parameters
{name}                                           1,710
├─ tokens                  17 × 6                  102
├─ positions               11 × 6                   66
└─ stack                                         1,542
   ├─ blocks.0-2           3 times 510           1,530
   │  ├─ attention                                 168
   │  │  ├─ qkv            18 × 6 + 18             126
   │  │  └─ out            6 × 6 + 6                42
   │  ├─ attention_norm    6 + 6                    12
   │  ├─ feedforward                               318
   │  │  ├─ up             24 × 6 + 24             168
   │  │  └─ down           6 × 24 + 6              150
   │  └─ feedforward_norm  6 + 6                    12
   └─ norm                 6 + 6                    12
language in the layout of gpt2: 1,710 parameters
tied: lm_head.weight is transformer.wte.weight
on disk: 3.4 kB in bfloat16
in memory: 13.7 kB in float64, 6.8 kB in float32, 3.4 kB in bfloat16, 3.4 kB in float16
"""


def test_a_directory_as_a_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    headway.save(fresh(tiny()).bfloat16(), "m")
    found = shown("m", capsys=capsys)
    squeezed = re.compile(r"[ ]+")
    assert squeezed.sub(" ", found).strip() == squeezed.sub(" ", TREE.format(name="m")).strip()


def test_published_counts_without_allocating(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown("llama2_7b", "--json", capsys=capsys))
    assert found["parameters"] == 6_738_415_616
    assert found["memory"]["bfloat16"] == 2 * 6_738_415_616
    assert found["stored"] is None
    blocks = found["tree"]["children"][1]["children"][0]
    assert (blocks["name"], blocks["repeats"]) == ("blocks.0-31", 32)


def test_the_parts_add_up_to_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("davit-tiny", "t5-small", "bert-base", "vit-b16"):
        tree = json.loads(shown(name, "--json", capsys=capsys))["tree"]
        pending, total = [(tree, 1)], 0
        while pending:
            node, times = pending.pop()
            times *= node["repeats"]
            total += times * sum(prod(shape) for shape in node["shapes"].values())
            pending += [(child, times) for child in node["children"]]
        assert total == tree["parameters"]


def prod(shape: list[int]) -> int:
    return 1 if not shape else shape[0] * prod(shape[1:])


def test_without_a_target_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys=capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(names())
    assert lines[0].split() == ["gpt2", "language"]
    assert [row["name"] for row in json.loads(shown("--json", capsys=capsys))] == list(names())


def test_no_tensor_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers that are no numbers any more do not matter; headers do."""
    headway.save(fresh(tiny()), tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    right = shown(str(tmp_path / "m"), capsys=capsys)
    content = bytearray(file.read_bytes())
    content[-64:] = b"\xff" * 64
    file.write_bytes(content)
    assert shown(str(tmp_path / "m"), capsys=capsys) == right
    with pytest.raises(ValueError, match="hash"):
        headway.load(tmp_path / "m")


def test_what_cannot_be_loaded_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headway.save(fresh(tiny()), tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    save_file({name: x for name, x in tensors.items() if "ln_1" not in name}, file)
    assert main(["info", str(tmp_path / "m")]) == 0
    assert "cannot be loaded: 'transformer.h.0.ln_1.weight' is missing (and 5 more tensors)" in capsys.readouterr().err
    save_file({**tensors, "transformer.wte.weight": tensors["transformer.wte.weight"][:-1].clone()}, file)
    assert main(["info", str(tmp_path / "m")]) == 0
    assert "has shape (16, 6), and config.json makes it (17, 6)" in capsys.readouterr().err
    file.unlink()
    assert main(["info", str(tmp_path / "m")]) == 0
    found = capsys.readouterr()
    assert "1,710 parameters" in found.out and "on disk" not in found.out
    assert "holds no safetensors; these are the sizes of its config.json" in found.err


def test_a_sentence_encoder_with_its_linear_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = bert(width=6, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)
    model = fresh(SentenceConfig(encoder=encoder, limit=11, dense=DenseConfig(width=5)))
    headway.save(model, tmp_path / "m")
    found = json.loads(shown(str(tmp_path / "m"), "--json", capsys=capsys))
    assert [child["name"] for child in found["tree"]["children"]] == ["encoder", "dense"]
    assert found["tree"]["children"][1]["parameters"] == 5 * 6 + 5
    assert found["parameters"] == parameters(model)
    assert found["stored"] == {"float32": 4 * parameters(model)}


def test_an_unknown_target_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "gtp2"]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("headway: 'gtp2' is neither a directory nor a preset (did you mean")


def test_a_directory_that_hides_a_preset_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    headway.save(fresh(tiny()), "gpt2")
    assert main(["info", "gpt2"]) == 0
    found = capsys.readouterr()
    assert "1,710 parameters" in found.out
    assert found.err == "note: gpt2 is a directory here; the preset of that name is preset:gpt2\n"
    for quiet, count in (("./gpt2", "1,710"), ("preset:gpt2", "124,439,808"), ("bert-base", "parameters")):
        assert count in shown(quiet, capsys=capsys)


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_target_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    headway.save(fresh(tiny()), tmp_path / "m")
    monkeypatch.chdir(tmp_path / "m")
    assert main(["info", text]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("headway: the target is empty")


def test_neighbours_collapse_only_where_they_are_alike() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(3, 3), nn.Dropout()])
    found = outline(nn.ModuleDict({"layers": layers}))
    assert [(child.name, child.repeats) for child in found.children] == [
        ("layers.0-1", 2), ("layers.2", 1), ("layers.3", 1),
    ]  # fmt: skip
    assert found.parameters == 6 + 6 + 9 + 12


def test_a_shared_tensor_is_counted_once() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    found = outline(model)
    assert found.parameters == 15
    assert [child.shared for child in found.children] == [(), ("weight",)]


def test_the_list_of_presets_needs_no_torch() -> None:
    code = "import sys; from headway.cli import main; main(['info']); sys.exit('torch' in sys.modules)"
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, timeout=120)
    assert done.returncode == 0
