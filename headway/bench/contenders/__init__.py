"""headway and the libraries that it is measured against, one class each, with the same few methods.

    language models     load() · generate(prompts, new) -> tokens · logits(prompt) -> [V] · first_token(prompt)
    sentence encoders   load() · encode(texts) -> [N, D]
    translators         load() · translate(sources, beams, new) -> tokens

Making an object of such a class writes the files that its library reads (`load` is timed, conversion is not). Nothing
here imports torch or a peer before an object is made: each runs in a process of its own, often in another environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class ContenderSetup:
    """What a contender gets: the model on disk, a directory to convert it into, and how it is used."""

    directory: str  # config.json and model.safetensors
    work: str
    precision: str  # as the library calls it
    threads: int
    rows: int = 1  # texts at once
    length: int = 64  # tokens that a text may have


@dataclass(frozen=True)
class Peer:
    """A library: the package to look for, its class, and what it calls each precision."""

    name: str
    package: str
    make: str  # package.module:class
    precisions: Mapping[str, Sequence[str]]

    def labels(self, precision: str) -> dict[str, str]:
        """How a table names it -> what the library calls the precision.

        >>> Peer("x", "x", "x:X", {"int8": ("q8",), "bfloat16": ("bf16", "f16")}).labels("bfloat16")
        {'x bf16': 'bf16', 'x f16': 'f16'}
        """
        found = self.precisions.get(precision, ())
        return {self.name if len(found) == 1 else f"{self.name} {one}": one for one in found}


class FirstToken:
    """From files to the first token; a mixin of every language contender."""

    def first_token(self: Any, prompt: list[int]) -> int:
        self.load()
        return self.generate([prompt], 1)[0][0]


def make(path: str, setup: ContenderSetup) -> Any:
    """The contender that package.module:class names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)(setup)


_HERE = "headway.bench.contenders"
BOTH = {"float32": ("float32",), "bfloat16": ("bfloat16",)}
OURS = {"float32": ("float32",), "bfloat16": ("bfloat16",), "int8": ("int8",), "int4": ("int4",)}
CT2 = {"float32": ("float32",), "int8": ("int8",)}  # on CPU
GGUF = {"float32": ("f32",), "bfloat16": ("bf16", "f16"), "int8": ("q8_0",), "int4": ("q4_0",)}

LANGUAGE = (
    Peer("headway", "headway", f"{_HERE}.own:OwnLanguage", OURS),
    Peer("transformers", "transformers", f"{_HERE}.transformers:TransformersLanguage", BOTH),
    Peer("CTranslate2", "ctranslate2", f"{_HERE}.ctranslate2:CTranslate2Language", CT2),
    Peer("llama.cpp", "llama_cpp", f"{_HERE}.llama_cpp:LlamaCppLanguage", GGUF),
)
SENTENCE = (
    Peer("headway", "headway", f"{_HERE}.own:OwnSentence", OURS),
    Peer("sentence-transformers", "sentence_transformers", f"{_HERE}.transformers:TransformersSentence", BOTH),
    Peer("CTranslate2", "ctranslate2", f"{_HERE}.ctranslate2:CTranslate2Sentence", CT2),
    Peer("ONNX Runtime", "onnxruntime", f"{_HERE}.onnxruntime:OnnxRuntimeSentence", CT2),
)
TRANSLATION = (
    Peer("headway", "headway", f"{_HERE}.own:OwnTranslation", OURS),
    Peer("transformers", "transformers", f"{_HERE}.transformers:TransformersTranslation", BOTH),
    Peer("CTranslate2", "ctranslate2", f"{_HERE}.ctranslate2:CTranslate2Translation", CT2),
)
