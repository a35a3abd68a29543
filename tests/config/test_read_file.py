"""The readers of small files and of streams: nothing hangs or grows without limit, every refusal is a sentence."""

import gzip
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.app.settings import read, resolve
from headway.config.kinds import read_model
from headway.config.read_file import open_file, parse_json, parse_toml, parse_yaml, read_bytes, read_json, read_object
from headway.config.run_files import read_mapping, read_rows
from headway.config.size_limits import DEPTH, EXPANSION, JSON_BYTES, SETTINGS_BYTES
from headway.data.files import read_json as read_in_directory
from headway.data.lines import lines, lines_of
from headway.data.source import documents
from headway.data.stream import open_stream

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{b}: &{b} {{<<: [{','.join([f'*{a}'] * 9)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def special(path: Path, kind: str) -> Path:
    """A file that is no regular one, behind a link."""
    target = path.with_name(f"real-{path.name}")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "directory":
        target.mkdir()
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket is at most 107 characters
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(target.name)
        os.chdir(here)
    path.symlink_to(Path("/dev/zero") if kind == "device" else target)
    return path


READERS: dict[str, Callable[[Path], object]] = {
    "bytes": read_bytes,
    "json": read_json,
    "object": read_object,
    "directory of a model": read_in_directory,
    "settings": read,
    "model": lambda path: read_model(str(path)),
    "rows": lambda path: list(read_rows(path)),
    "lines": lambda path: list(lines(path)),
    "lines with their places": lambda path: list(lines_of(path)),
}


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "socket"])
@pytest.mark.parametrize("reader", READERS)
def test_only_regular_files_are_read(tmp_path: Path, reader: str, kind: str) -> None:
    path = special(tmp_path / "config.json", kind)
    with pytest.raises(ValueError, match=f"a {kind}, and a regular file is expected|there is no file") as error:
        READERS[reader](path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("reader", sorted(set(READERS) - {"rows"}))
def test_a_missing_file_is_named(tmp_path: Path, reader: str) -> None:
    with pytest.raises(ValueError, match=r"no such file|there is no file") as error:
        READERS[reader](tmp_path / "none.json")
    assert str(tmp_path / "none.json") in str(error.value)


def test_a_name_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="is no name of a file"):
        open_file("a\0b")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 70 + "]" * 70, '{"a":[' * 40 + "1" + "]}" * 40], ids=len
)
def test_depth_is_limited_in_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    for reader in set(READERS) - {"bytes", "rows", "lines", "lines with their places"}:
        with pytest.raises(ValueError, match=f"nested more than {DEPTH} levels deep|is not valid JSON"):
            READERS[reader](tmp_path / "config.json")
    assert [row for _, row in read_rows(tmp_path / "config.json")] == [None]


def test_as_deep_as_the_limit_is_read() -> None:
    assert parse_json("[" * DEPTH + "]" * DEPTH, "x")
    assert parse_yaml("[" * DEPTH + "]" * DEPTH, "x")
    with pytest.raises(ValueError, match="nested"):
        parse_yaml("[" * (DEPTH + 1) + "]" * (DEPTH + 1), "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested more than"),
        ("- " * 100_000, "nested more than"),
        ("{a: " * 100_000, "nested more than"),
        ("? " * 100_000, "nested more than"),
        (BOMB, "its aliases written out"),
        (MERGES, "its aliases written out"),
        ("a: &a [*a]", "stands for nothing before it"),
        ("a: *b", "stands for nothing before it"),
        ("a: {1: 2}", "has the key 1, which is int and not text"),
        ("a: [{yes: 2}]", "has the key True, which is bool and not text"),
        ("? [1, 2]\n: 3", "is not valid YAML"),
        ("a: 2020-99-99", "is not valid YAML"),
        ("a: !!int x", "is not valid YAML"),
        ("a: !!bool x", "is not valid YAML"),
        ("a: !!timestamp x", "is not valid YAML"),
        ("a: !!float ''", "is not valid YAML"),
        ("a: !!python/object/apply:os.getpid []", "is not valid YAML"),
        ("a: " + "9" * 5000, "is not valid YAML"),
        ("a: [", "is not valid YAML"),
        ("a: \x00", "is not valid YAML"),
    ],
    ids=lambda value: value[:12],
)
def test_yaml_that_is_damaged_or_grows_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=rf"^run.yaml .*{said}|^run.yaml {said}"):
        parse_yaml(text, "run.yaml")
    (tmp_path / "config.yaml").write_text(text)
    assert read_mapping(tmp_path / "config.yaml") is None
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read(tmp_path / "config.yaml")
    if "\0" not in text:
        with pytest.raises(ValueError, match="HEADWAY_TRAIN_STEPS"):
            resolve({}, environment={"HEADWAY_TRAIN_STEPS": text})


def test_yaml_with_a_few_aliases_is_read() -> None:
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: &c x\nd: *c", "x") == {"a": [1, 2], "b": [1, 2], "c": "x", "d": "x"}


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a." * 100_000 + "a = 1", "a = 1\na = 2", "a = 99-99", "x = {" + "a." * 5000]
)
def test_toml_that_is_damaged_or_deep_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^run.toml (is nested|is not valid TOML)"):
        parse_toml(text, "run.toml")


@pytest.mark.parametrize(("name", "limit"), [("a.json", JSON_BYTES), ("a.yaml", SETTINGS_BYTES)])
def test_files_that_are_too_large_are_refused_unread(tmp_path: Path, name: str, limit: int) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**40)  # a hole, of no size on the disk
    with pytest.raises(ValueError, match=rf"{name} has {2**40:,} bytes, and such a file at most {limit:,}"):
        read(tmp_path / name)


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"a": \xff}', b'{"a": ' + b"9" * 5000 + b"}", b"", b"{,}"])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is not (valid JSON|UTF-8 text): "):
        read_object(tmp_path / "config.json")


def test_a_bomb_of_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(100_000_000)))
    for name in (path, path.rename(tmp_path / "text.txt")):
        if name.exists():
            with pytest.raises(ValueError, match=f"becomes more than {EXPANSION} times its size"):
                list(documents([str(name)]))


def test_compressed_text_of_every_usual_kind_is_read(tmp_path: Path) -> None:
    """Also what is repeated, as in a log; and small files whatever they hold."""
    for name, text in {"log": "the same line\n" * 3000, "zeros": "0" * 1_000_000 + "\n"}.items():
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(text.encode()))
        with open_stream(path) as stream:
            assert stream.read() == text.encode()


def test_a_damaged_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(os.urandom(10_000))[:-20])
    with pytest.raises(ValueError, match=r"text\.gz is compressed with gzip and damaged"):
        list(lines(path))


def test_a_deep_line_of_jsonl_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' + "[" * 100_000 + "\n")
    with pytest.raises(ValueError, match=rf"line 2 of .*a\.jsonl is nested more than {DEPTH} levels deep"):
        list(documents([str(path)]))


def test_the_readers_need_no_torch(tmp_path: Path) -> None:
    import subprocess

    code = "import sys, headway.config.read_file, headway.config.size_limits; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
