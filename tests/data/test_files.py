"""Whole or not at all, and never in the place of something that is no file."""

import os
import threading
from pathlib import Path

import pytest

from headway.data.files import write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    for text in ("old", "näher"):
        assert write_whole(place, text) == place and place.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink() and real.read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "new")
    reader.join(5)
    assert heard == ["new"] and not pipe.is_file()


@pytest.mark.parametrize("name", ["missing/page.html", "there"])
def test_an_error_names_the_place_that_was_asked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError) as error:
        write_whole(tmp_path / name, "new")
    assert error.value.filename == str(tmp_path / name)
