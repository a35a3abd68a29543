"""What a load found: every tensor accounted for."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.config.generation import GenerationDefaults
from headway.hub.parts import parts_of

NAMED = 3  # tensors that a line names
BLOCK = 2**18  # bytes copied at a time, where a tensor has to be copied to be hashed
TOGETHER = 2  # tensors hashed at the same time: hashlib and torch work outside of Python's lock


class ModelHash:
    """Of a model that was loaded: the hash of its weights as stored, and that of weights, configuration and tokenizer.

    Hashing 500 MB takes longer than anything else of a load. Where there is nothing to compare the hash with, `weights`
    is the function that reads the files again, and it is called when somebody asks.

    >>> ModelHash(lambda: "ab").weights, ModelHash("ab", lambda weights: weights + "c").model
    ('ab', 'abc')
    """

    def __init__(self, weights: str | Callable[[], str] = "", model: Callable[[str], str] | None = None) -> None:
        self._weights, self._model = weights, model

    def __bool__(self) -> bool:
        """Whether there is one: weights that were not read from a file have none."""
        return self._weights != ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelHash) and (self.weights, self.model) == (other.weights, other.model)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"ModelHash({'' if callable(self._weights) else self._weights[:12]})"

    @cached_property
    def weights(self) -> str:
        return self._weights() if callable(self._weights) else self._weights

    @cached_property
    def model(self) -> str:
        return self.weights if self._model is None or not self else self._model(self.weights)

    def with_meaning(self, model: Callable[[str], str]) -> "ModelHash":
        """The same weights with a configuration and a tokenizer: `model` makes one hash of the weights' own."""
        return ModelHash(lambda: self.weights, model) if self else self


@dataclass(frozen=True)
class Receipt:
    """Of one load.

    `hash` is of the model: its weights as stored, by our names, its configuration and its tokenizer, whatever the
    layout and the sharding; "" of weights that were not read from a file. `weights_hash` is of the weights alone. Both
    are computed when they are first asked for, unless the writer of the weights noted a hash to compare them with.
    `verified` were compared with the hash that their writer noted, `unverified` had none to compare with.
    """

    path: str
    family: str
    expected: int
    found: int
    tied: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    parameters: int
    dtype: str
    hashes: ModelHash = field(default_factory=ModelHash)
    verified: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    nonfinite: tuple[tuple[str, int], ...] = ()  # tensors with numbers that are NaN or infinite, and how many
    overflowed: tuple[tuple[str, int], ...] = ()  # the same of numbers that are finite in the file
    weights: str = ""  # int8 or int4, where linear maps are stored so
    name: str = ""  # of a model of a hub, with its commit
    stored: str = ""  # the dtype in the file, where the numbers have become another
    pooling: str = ""  # how a text becomes one vector, where the directory does not say it
    generation_defaults: GenerationDefaults | None = None  # settings of decoding that the directory suggests

    def __str__(self) -> str:
        """One line.

        >>> print(Receipt("m", "gpt2", 3, 3, ("lm_head.weight",), (), (), 12, "float32", ModelHash("ab" * 32)))
        m: gpt2, 12 parameters in float32; tensors: 3 expected, 3 found, 1 tied, 0 unused, 0 missing; hash abababababab
        """
        stands = self.dtype + (f" (stored as {self.stored})" if self.stored else "")
        stands += f", {self.weights} weights" if self.weights else ""
        if not self.hashes:
            return f"{self.path}: {self.family}, {self.parameters:,} parameters in {stands}, not read from a file"
        return (
            f"{self.name or self.path}: {self.family}, {self.parameters:,} parameters in {stands}; tensors: "
            f"{self.expected} expected, {self.found} found, {len(self.tied)} tied, {len(self.unused)} unused, "
            f"{len(self.missing)} missing; hash {self.hash[:12]}" + "".join(f"; {one}" for one in self._more())
        )

    def _more(self) -> Iterator[str]:
        if self.verified:
            yield f"verified by hash: {', '.join(self.verified)}"
        if self.unverified:
            yield f"nothing to verify by: {', '.join(self.unverified)}"
        if self.warning:
            yield self.warning
        if self.pooling:
            yield f"no modules.json says how a text becomes one vector: {self.pooling}"
        if self.generation_defaults is not None:
            followed, ignored = self.generation_defaults.followed, self.generation_defaults.ignored
            yield from [f"decodes with {', '.join(followed)}"] if followed else []
            yield from [f"suggested for decoding, not followed: {', '.join(ignored)}"] if ignored else []

    @property
    def hash(self) -> str:
        return self.hashes.model

    @property
    def weights_hash(self) -> str:
        return self.hashes.weights

    @property
    def generation_settings(self) -> tuple[str, ...]:
        """Every setting of decoding that the directory suggests, in its own words."""
        return () if self.generation_defaults is None else self.generation_defaults.lines

    @property
    def warning(self) -> str:
        """What is wrong with the numbers; "" where all are finite.

        >>> Receipt("m", "gpt2", 3, 3, (), (), (), 12, "float32", nonfinite=(("norm.bias", 5),)).warning
        'not finite (NaN or infinite): 5 of 12 weights, norm.bias 5'
        """
        return "; ".join(
            f"{what}: {sum(count for _, count in found):,} of {self.parameters:,} weights, "
            + ", ".join(f"{name} {count:,}" for name, count in found[:NAMED])
            + (f" and {len(found) - NAMED} more tensors" if len(found) > NAMED else "")
            for what, found in (
                ("not finite (NaN or infinite)", self.nonfinite), (f"too large for {self.dtype}", self.overflowed),
            )
            if found
        )  # fmt: skip


class Hasher:
    """The hash of a set of tensors, taken one by one in any order; a tensor must not change before `hexdigest`."""

    def __init__(self) -> None:
        self._digests: dict[str, Future[str]] = {}
        self._waiting: deque[Future[str]] = deque()
        self._threads = ThreadPoolExecutor(TOGETHER)

    def add(self, name: str, tensor: Tensor) -> None:
        self._digests[name] = found = self._threads.submit(_digest, name, tensor.detach())
        self._waiting.append(found)
        if len(self._waiting) > 2 * TOGETHER:  # those that wait hold their memory
            self._waiting.popleft().result()

    def hexdigest(self) -> str:
        with self._threads:
            lines = "\n".join(f"{name} {self._digests[name].result()}" for name in sorted(self._digests))
        return hashlib.sha256(lines.encode()).hexdigest()


def _digest(name: str, tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
    # In blocks: a tensor that lies the other way round in its file is never copied as a whole.
    rows = max(1, BLOCK * len(tensor) // max(1, tensor.nbytes)) if tensor.ndim else 1
    for block in [tensor] if tensor.is_contiguous() else tensor.split(rows):
        digest.update(block.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def model_hash(weights: str, config: Frozen, words: str) -> str:
    """The hash of weights, configuration and tokenizer (`words`) together: two models of one hash compute the same.

    Options that have their default are left out, so that one that is new in headway changes no hash; so is the layout.
    """
    said = json.dumps(config.model_dump(mode="json", exclude_defaults=True, exclude={"family"}), sort_keys=True)
    return hashlib.sha256("\n".join((weights, said, words)).encode()).hexdigest()


def nonfinite(tensor: Tensor) -> int:
    """How many numbers are NaN or infinite: one pass without a copy where none is.

    >>> nonfinite(torch.tensor([1.0, float("nan"), float("-inf")]))
    2
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return 0
    if all(bool(bound.isfinite()) for bound in torch.aminmax(tensor)):  # NaN is the least and the largest of all
        return 0
    return int((~tensor.isfinite()).sum())


def hash_of(model: nn.Module) -> str:
    """The hash of a model's weights: what a receipt says of them after it was saved and loaded."""
    hasher = Hasher()
    for name, part in parts_of(model).items():
        hasher.add(name, part)
    return hasher.hexdigest()
