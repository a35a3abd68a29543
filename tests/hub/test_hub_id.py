"""Models by their id: in a cache that the test builds, and from a hub that it serves on 127.0.0.1."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import huggingface_hub.constants
import pytest
import torch

import headway as hw
from headway.cli import main
from headway.hub.hub_id import HubId
from headway.hub.target import Directory, Preset, resolve
from tests.cli.test_generate import tokenizer
from tests.decoding.tiny import CONFIGS
from tests.fresh import fresh
from tests.processes import Processes

COMMIT, OLDER = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"


def saved(place: Path, seed: int = 1) -> Path:
    words = tokenizer()
    config = CONFIGS["llama"].model_copy(update={"vocabulary": words.size, "length": 31})
    hw.save(fresh(config, seed=seed, std=0.3), place, tokenizer=words)
    return place


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in the layout of huggingface_hub: blobs, links to them, and names of commits."""
    place = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(place))
    monkeypatch.chdir(tmp_path)
    for commit, name, seed in ((COMMIT, "main", 1), (OLDER, "v1/old", 2)):
        folder = place / "models--tiny-org--tiny"
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (folder / "blobs").mkdir(exist_ok=True)
        for file in saved(tmp_path / f"made {seed}", seed).iterdir():
            blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
            blob.write_bytes(file.read_bytes())
            (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
        (folder / "refs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / name).write_text(commit)
    return place


def test_an_id_is_found_in_the_cache_without_a_network(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = hw.load("tiny-org/tiny")
    right = hw.load(cache.parent / "made 1")
    assert found.receipt.hash == right.receipt.hash
    assert str(found.receipt).startswith("tiny-org/tiny@0123456: headway, ")
    for text, revision, made in (
        ("tiny-org/tiny@v1/old", None, 2), ("tiny-org/tiny", "v1/old", 2), ("tiny-org/tiny", OLDER, 2),
        ("tiny-org/tiny", COMMIT[:9], 1), ("hub:tiny-org/tiny", None, 1),
    ):  # fmt: skip
        assert hw.load(text, revision=revision).receipt.hash == hw.load(cache.parent / f"made {made}").receipt.hash
    assert hw.generate("tiny-org/tiny", "the", max_new_tokens=5) == hw.generate(right.model, "the", max_new_tokens=5)
    for call in (
        ["generate", "tiny-org/tiny", "--prompt", "the", "--max-new-tokens", "5"], ["info", "tiny-org/tiny"],
        ["cost", "tiny-org/tiny@v1/old", "--length", "8"], ["convert", "tiny-org/tiny", "new"],
    ):  # fmt: skip
        assert main(call) == 0, capsys.readouterr().err
    assert hw.load(cache.parent / "new").receipt.hash == right.receipt.hash
    assert not (cache.parent / "new" / "config.json").is_symlink()


def test_a_directory_and_a_preset_come_first(cache: Path) -> None:
    assert isinstance(resolve("gpt2"), Preset)
    saved(cache.parent / "tiny-org" / "tiny", seed=3)
    found = resolve("tiny-org/tiny")
    assert isinstance(found, Directory) and found.path == Path("tiny-org/tiny")
    there = resolve("hub:tiny-org/tiny")
    assert isinstance(there, Directory) and there.path.name == COMMIT
    with pytest.raises(ValueError, match="tiny-org/tyni does not exist: a model is a directory"):
        resolve("tiny-org/tyni")  # its folder is here, so it is a path
    with pytest.raises(ValueError, match="no-org/tiny does not exist: a model is a directory"):
        resolve(Path("no-org/tiny"))


def test_what_cannot_be_is_one_sentence(cache: Path) -> None:
    with pytest.raises(ValueError, match=r"no-org/tiny does not exist: .* in the cache .*, and HF_HUB_OFFLINE is set"):
        hw.load("no-org/tiny")
    with pytest.raises(ValueError, match=r"tiny-org/tiny@v2 does not exist: .* HF_HUB_OFFLINE is set"):
        hw.load("tiny-org/tiny", revision="v2")
    with pytest.raises(ValueError, match="a revision is one of a model on a hub, org/name; gpt2 is none: leave it out"):
        hw.load("gpt2", revision="v2")
    with pytest.raises(ValueError, match="names a revision already"):
        hw.load("tiny-org/tiny@main", revision="v2")
    with pytest.raises(ValueError, match="hub:a:b is no id of a model"):
        hw.load("hub:a:b")
    (cache / "models--tiny-org--tiny" / "snapshots" / COMMIT / "model.safetensors").unlink()
    assert isinstance(resolve("tiny-org/tiny"), Directory)  # its sizes are known
    with pytest.raises(ValueError, match="no whole model in the cache"):
        hw.load("tiny-org/tiny")


@pytest.mark.parametrize("text", ["a/b", "a-1/b_2.c", "a/b@v1", "a/b@refs/pr/3"])
def test_ids(text: str) -> None:
    assert str(HubId.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["a", "a/b/c", "/a/b", "./a", "a/..", "a/b--c", "~/a", "a:b/c", "a/b.gguf", "a/b c", ""]
)
def test_no_ids(text: str) -> None:
    assert HubId.parse(text) is None


class Hub:
    """What a hub answers: files of repositories, and what is refused."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        parts = [part for part in urlsplit(path).path.split("/") if part]
        api = parts[:2] == ["api", "models"]
        parts = parts[2:] if api else parts
        name, rest = "/".join(parts[:2]), parts[2:]
        if name.startswith("gated/"):
            return 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"}, b"{}"
        if name not in self.repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        files = self.repositories[name]
        if rest[:1] == ["revision"] and rest[1] not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if not api:
            content = files["/".join(rest[2:])]
            etag = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            return 200, etag, content
        if rest[:1] == ["tree"]:
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in files.items()
            ]
            return 200, {}, json.dumps(rows).encode()
        siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
        said = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}
        return 200, {}, json.dumps(said).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self, body: bool = True) -> None:
                hub.asked.append(self.path)
                code, headers, content = hub.answer(self.path)
                self.send_response(code)
                for key, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if body:
                    self.wfile.write(content)

            def do_HEAD(self) -> None:
                self.do_GET(body=False)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub()
    files = {one.name: one.read_bytes() for one in saved(tmp_path / "made").iterdir()}
    rubbish = {
        "pytorch_model.bin": b"pickle",
        "onnx/model.onnx": b"x",
        "modeling.py": b"x",
        "consolidated.safetensors": b"x",
    }
    found.repositories["org/tiny"] = {**files, **rubbish, "LICENSE": b"You may.", "1_Pooling/config.json": b"{}"}
    found.repositories["org/pickles"] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    found.repositories["org/gguf"] = {"README.md": b"", "tiny-Q4_0.gguf": b"x"}
    yield found
    found.server.shutdown()


def test_an_id_is_downloaded_once_and_then_found(hub: Hub, tmp_path: Path, processes: Processes) -> None:
    setting = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    call = ["generate", "org/tiny", "--prompt", "the", "--max-new-tokens", "5"]

    def run(*words: str, **more: str) -> tuple[int, str, str]:
        child = processes.headway(*words, cwd=tmp_path, environment={**setting, **more})
        return child.wait(), child.stdout, child.stderr

    code, out, err = run("cost", "org/tiny", "--length", "8")
    assert code == 0, err
    fetched = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert "config.json" in fetched and "model.safetensors" not in fetched
    code, out, err = run(*call)
    assert code == 0, err
    assert "org/tiny@0123456" in err
    fetched = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert fetched >= {"model.safetensors", "tokenizer.json", "LICENSE"}
    assert not fetched & {"pytorch_model.bin", "model.onnx", "modeling.py", "consolidated.safetensors"}
    assert out == hw.generate(hw.load(tmp_path / "made").model, "the", max_new_tokens=5).text + "\n"

    asked = len(hub.asked)
    assert run(*call)[:2] == (0, out)
    assert run(*call, HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")[:2] == (0, out)
    assert len(hub.asked) == asked

    sentences = {
        "org/none": f"org/none does not exist: there is no directory here, and no model on {hub.url} that you may see",
        "org/tiny@v7": f"org/tiny has no revision 'v7' on {hub.url}",
        "gated/tiny": f"gated/tiny is gated: accept its terms at {hub.url}/gated/tiny, then log in with",
        "org/pickles": "its weights are pickles (pytorch_model.bin), which may run code when they are read and are not",
        "org/gguf": "it holds GGUF files; download one with `hf download` (tiny-Q4_0.gguf) and name the file",
    }
    for text, sentence in sentences.items():
        code, _, err = run("generate", text, "--prompt", "the")
        assert code == 2 and sentence in err and "Traceback" not in err, err
    code, _, err = run("generate", "org/other", "--prompt", "the", HF_ENDPOINT="http://127.0.0.1:9")
    assert code == 2 and "http://127.0.0.1:9 cannot be reached" in err and "Traceback" not in err
    assert not list((tmp_path / "home").rglob("*.bin"))


def test_a_model_of_a_hub_is_the_base_of_what_is_trained(cache: Path) -> None:
    (cache.parent / "book.txt").write_text("the cat sat on the mat. " * 90)
    run = hw.train("tiny-org/tiny", "book.txt", out="run", steps=2, batch=2, length=16, samples=0)
    card = (run.path / "model" / "README.md").read_text()
    assert "base_model: tiny-org/tiny" in card
    assert all(bool(weight.isfinite().all()) for weight in run.model.parameters()) and isinstance(
        run.model, torch.nn.Module
    )
