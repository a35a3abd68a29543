"""CTranslate2. Converted once from the directory; the precision is chosen when it is loaded."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from headway.bench.contenders import ContenderSetup, FirstToken
from headway.bench.contenders.sentences import SentenceReader
from headway.bench.contenders.transformers import silent


def converted(setup: ContenderSetup) -> str:
    """The directory that CTranslate2 reads, in float32."""
    silent()
    place = Path(setup.work) / "ctranslate2"
    if not place.exists():
        import_module("ctranslate2.converters").TransformersConverter(setup.directory).convert(str(place))
    return str(place)


class _Converted:
    def __init__(self, setup: ContenderSetup) -> None:
        self.setup, self.place = setup, converted(setup)
        self.options = {"compute_type": setup.precision, "inter_threads": 1, "intra_threads": setup.threads}

    def vocabulary(self) -> list[str]:
        """The names of the tokens: the library takes and gives them by name."""
        for name in ("vocabulary.json", "shared_vocabulary.json"):
            if (Path(self.place) / name).exists():
                return json.loads((Path(self.place) / name).read_text(encoding="utf-8"))
        raise FileNotFoundError(f"{self.place} has no vocabulary")


class CTranslate2Language(_Converted, FirstToken):
    def load(self) -> None:
        self.model: Any = import_module("ctranslate2").Generator(self.place, **self.options)
        self.names = self.vocabulary()

    def generate(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        found = self.model.generate_batch(
            [[self.names[token] for token in prompt] for prompt in prompts],
            max_length=new,
            min_length=new,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return [one.sequences_ids[0] for one in found]

    def logits(self, prompt: list[int]) -> Any:
        return np.array(self.model.forward_batch([[self.names[token] for token in prompt]]))[0, -1]


class CTranslate2Sentence(_Converted):
    def load(self) -> None:
        self.model: Any = import_module("ctranslate2").Encoder(self.place, **self.options)
        self.reader = SentenceReader(self.setup.directory)

    def encode(self, texts: list[str]) -> Any:
        return self.reader.encode(texts, self._hidden)

    def _hidden(self, rows: list[list[int]]) -> Any:
        return np.array(self.model.forward_batch(rows).last_hidden_state)


class CTranslate2Translation(_Converted):
    def load(self) -> None:
        self.model: Any = import_module("ctranslate2").Translator(self.place, **self.options)
        self.names = self.vocabulary()
        self.numbers = {name: number for number, name in enumerate(self.names)}

    def translate(self, sources: list[list[int]], beams: int, new: int) -> list[list[int]]:
        texts = [[self.names[token] for token in source] for source in sources]
        found = self.model.translate_batch(texts, beam_size=beams, max_decoding_length=new, min_decoding_length=new)
        return [[self.numbers[name] for name in one.hypotheses[0]] for one in found]
