"""Models by their id on a hub, `org/name` or `org/name@revision`: in the local cache, or downloaded.

What the cache holds of a revision is used as it is, without a question to anybody; a newer commit has another revision.
Only who names an id that is not there goes to the network, by way of huggingface_hub with its settings (HF_HOME,
HF_ENDPOINT, HF_HUB_OFFLINE, the login). Of a repository come safetensors and small files, and no code.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headway.config.file_errors import first_line
from headway.config.read_file import read_object
from headway.hub.hashes import STEP
from headway.hub.store import INDEX, PICKLES, WEIGHTS

_WORD = r"[A-Za-z0-9][\w.-]{0,95}"
_ID = re.compile(rf"(?P<name>(?P<org>{_WORD}/)?{_WORD})(?:@(?P<revision>[\w./-]+))?")
_SNAPSHOT = re.compile(r"models--(?P<name>[\w.-]+)")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
MAIN = "main"
# Files that say something of a model; those that a repository keeps in folders belong to other formats.
SMALL = (
    "*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.md", "*.tiktoken", "readme*", "licen[cs]e*", "notice*",
    "copying*", "use_policy*",
)  # fmt: skip
FOLDERS = ("additional_chat_templates",)
SMALL_BYTES = 2**27  # of any of them: the largest tokenizers have 30 MB
FILES = (".gguf", ".safetensors", ".json", ".yaml", *PICKLES)  # how a path ends that is no id


@dataclass(frozen=True)
class HubId:
    """A repository and one of its revisions: a branch, a tag or a commit."""

    name: str
    revision: str = MAIN

    @classmethod
    def parse(cls, text: str, revision: str | None = None, *, bare: bool = False) -> "HubId | None":
        """What a text names, where it has the form of an id; `bare`: of one without an organisation, too.

        >>> HubId.parse("HuggingFaceTB/SmolLM2-135M@v1")
        HubId(name='HuggingFaceTB/SmolLM2-135M', revision='v1')
        >>> HubId.parse("./runs/first"), HubId.parse("gpt2")
        (None, None)
        """
        found = _ID.fullmatch(text)
        if found is None or ".." in text or "--" in text or not (bare or found["org"]) or text.endswith(FILES):
            return None
        if revision is not None and found["revision"] is not None:
            raise ValueError(f"{text} names a revision already: leave out revision={revision!r}")
        return cls(found["name"], revision or found["revision"] or MAIN)

    def __str__(self) -> str:
        return self.name if self.revision == MAIN else f"{self.name}@{self.revision}"

    @property
    def folder(self) -> Path:
        """Where the cache keeps it, whether it is there or not."""
        return Path(_hub().constants.HF_HUB_CACHE).expanduser() / f"models--{self.name.replace('/', '--')}"

    def cached(self, *, weights: bool) -> Path | None:
        """Its directory in the cache, if all is there that is needed."""
        commit = self._commit()
        place = None if commit is None else self.folder / "snapshots" / commit
        return place if place is not None and place.is_dir() and _whole(place, weights=weights) else None

    def _commit(self) -> str | None:
        reference = self.folder / "refs" / self.revision
        if reference.is_file():
            return reference.read_text(encoding="utf-8").strip()
        if not _COMMIT.fullmatch(self.revision):
            return None
        near = [one.name for one in self.folder.glob("snapshots/*") if one.name.startswith(self.revision)]
        return near[0] if len(near) == 1 else None

    def find(self, *, weights: bool) -> Path:
        """Its directory, downloaded where the cache does not have it; `weights`: not its small files alone."""
        return self.cached(weights=weights) or self._download(weights=weights)

    def _download(self, *, weights: bool) -> Path:
        hub = _hub()
        if hub.constants.HF_HUB_OFFLINE:
            raise ValueError(f"{self._not_here()}, and HF_HUB_OFFLINE is set: nothing is downloaded")
        endpoint = hub.constants.ENDPOINT
        try:
            info = hub.HfApi().model_info(self.name, revision=self.revision, files_metadata=True)
            sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
            files = self._chosen(sizes, weights=weights)
            return Path(hub.snapshot_download(self.name, revision=self.revision, allow_patterns=files))
        except ValueError:
            raise
        except hub.errors.GatedRepoError:
            raise ValueError(
                f"{self.name} is gated: accept its terms at {endpoint}/{self.name}, then log in with `hf auth login`"
            ) from None
        except hub.errors.RevisionNotFoundError:
            raise ValueError(f"{self.name} has no revision {self.revision!r} on {endpoint}") from None
        except hub.errors.RepositoryNotFoundError:
            raise ValueError(
                f"{self.name} does not exist: there is no directory here, and no model on {endpoint} that you may see; "
                "a private one needs `hf auth login`"
            ) from None
        except Exception as error:  # of httpx, of the operating system, of the hub's answers
            raise ValueError(f"{self._not_here()}, and {endpoint} cannot be reached: {first_line(error)}") from None

    def _not_here(self) -> str:
        return (
            f"{self} does not exist: there is no directory here, and no whole model in the cache {self.folder.parent}"
        )

    def _chosen(self, sizes: dict[str, int], *, weights: bool) -> list[str]:
        """The files to download, of all that the repository has."""
        small = [name for name, size in sizes.items() if _says_something(name) and size <= SMALL_BYTES]
        large = [name for name in sizes if _holds_weights(name, sizes)]
        if not any(Path(name).name in ("config.json", "modules.json") for name in small):
            raise ValueError(
                f"{self.name} has no config.json, so nobody can say what its tensors mean{_instead(sizes)}"
            )
        if weights and not large:
            raise ValueError(f"{self.name} has no {WEIGHTS}{_instead(sizes)}")
        return [*small, *(large if weights else ())]


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError:
        raise ValueError('models are found by id with huggingface_hub: pip install "headway[hub]"') from None
    return huggingface_hub


def _in_place(name: str) -> bool:
    """Whether a file lies where a model's files do: at the top, or in the folder of a step or of templates."""
    above, _, _ = name.rpartition("/")
    return not above or bool(STEP.fullmatch(above)) or above in FOLDERS


def _says_something(name: str) -> bool:
    own = name.rpartition("/")[2].lower()
    return _in_place(name) and any(fnmatchcase(own, pattern) for pattern in SMALL)


def _holds_weights(name: str, names: Iterable[str]) -> bool:
    """Whether headway reads weights from it: one file, or shards where there is an index."""
    above, _, own = name.rpartition("/")
    index = f"{above}/{INDEX}".removeprefix("/") in names
    return _in_place(name) and (bool(_SHARD.fullmatch(own)) if index else own == WEIGHTS)


def _instead(names: Iterable[str]) -> str:
    """What a repository without safetensors has, and what to do with it."""
    found = list(names)
    gguf = [name for name in found if name.endswith(".gguf")]
    if gguf:
        return f": it holds GGUF files; download one with `hf download` ({gguf[0]}) and name the file"
    pickles = [name for name in found if name.endswith(PICKLES) and _in_place(name)]
    if pickles:
        return (
            f": its weights are pickles ({pickles[0]}), which may run code when they are read and are not downloaded; "
            "ask its maker for safetensors"
        )
    if "adapter_model.safetensors" in found:
        return ": it holds an adapter, which belongs to another model"
    return ""


def _whole(place: Path, *, weights: bool) -> bool:
    """Whether a snapshot has a configuration, and every file of its weights where those are asked for."""
    if not any((place / name).is_file() for name in ("config.json", "modules.json")):
        return False
    if not weights:
        return True
    steps = [one for one in place.iterdir() if STEP.fullmatch(one.name) and one.is_dir()]
    first = [place, *(one for one in steps if one.name.startswith("0_"))]  # where the model itself is
    indices = [folder for folder in (place, *steps) if (folder / INDEX).is_file()]
    return all(map(_has_shards, indices)) and any((folder / WEIGHTS).is_file() or folder in indices for folder in first)


def _has_shards(folder: Path) -> bool:
    files = read_object(folder / INDEX).get("weight_map")
    return isinstance(files, dict) and all((folder / str(file)).is_file() for file in files.values())


def snapshot_name(path: Path) -> str:
    """`org/name@commit` of a directory in the cache; "" of any other.

    >>> snapshot_name(Path("/home/me/.cache/huggingface/hub/models--org--name/snapshots/0123456789abcdef"))
    'org/name@0123456'
    """
    found = _SNAPSHOT.fullmatch(path.parent.parent.name) if path.parent.name == "snapshots" else None
    return "" if found is None else f"{found['name'].replace('--', '/', 1)}@{path.name[:7]}"
