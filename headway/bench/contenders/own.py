"""headway itself, as its user calls it."""

from typing import Any

from headway.bench.contenders import ContenderSetup, FirstToken


def _load(setup: ContenderSetup) -> Any:
    """Weights in the precision asked for; int8 and int4 are headway's own quantised weights."""
    from headway.hub.load import load

    if setup.precision in ("float32", "bfloat16"):
        return load(setup.directory, dtype=setup.precision)
    options: dict[str, Any] = {"weights": setup.precision}
    return load(setup.directory, **options)


class OwnLanguage(FirstToken):
    def __init__(self, setup: ContenderSetup) -> None:
        self.setup = setup

    def load(self) -> None:
        self.model = _load(self.setup).model
        config = self.model.config
        # No token ends a text, so that all have the same work.
        self.model.config = config.replace(special=config.special.replace(end=()))

    def generate(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        from headway.decoding import generate

        return [list(one.tokens) for one in generate(self.model, prompts, max_new_tokens=new)]

    def logits(self, prompt: list[int]) -> Any:
        import torch

        return self.model.session(capacity=len(prompt) + 1).read(torch.tensor([prompt]))[0]


class OwnSentence:
    def __init__(self, setup: ContenderSetup) -> None:
        self.setup = setup

    def load(self) -> None:
        self.model = _load(self.setup).model

    def encode(self, texts: list[str]) -> Any:
        return self.model.encode(texts)


class OwnTranslation:
    def __init__(self, setup: ContenderSetup) -> None:
        self.setup = setup

    def load(self) -> None:
        self.model = _load(self.setup).model
        config = self.model.config
        # Every text gets as many tokens as are asked for: nothing ends one, and nothing is forced on its last place.
        self.model.config = config.replace(
            special=config.special.replace(end=()), forced=config.forced.replace(last=None)
        )

    def translate(self, sources: list[list[int]], beams: int, new: int) -> list[list[int]]:
        from headway.decoding import Request, beam

        requests = [Request(prompt=tuple(source), max_new_tokens=new) for source in sources]
        return [list(found[0].tokens) for found in beam(self.model, requests, beams=beams)]
