"""transformers and sentence-transformers, by their own loops."""

from typing import Any

from headway.bench.contenders import ContenderSetup, FirstToken


def silent() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


class TransformersLanguage(FirstToken):
    def __init__(self, setup: ContenderSetup) -> None:
        silent()
        self.setup = setup

    def load(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        dtype = getattr(torch, self.setup.precision)
        self.model: Any = AutoModelForCausalLM.from_pretrained(self.setup.directory, dtype=dtype).eval()
        self.model.generation_config.eos_token_id = None

    def generate(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        import torch

        tokens = torch.tensor(prompts)
        with torch.inference_mode():
            found = self.model.generate(
                tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False, pad_token_id=0
            )
        return found[:, tokens.shape[1] :].tolist()

    def logits(self, prompt: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            return self.model(torch.tensor([prompt]), logits_to_keep=1).logits[0, -1]


class TransformersSentence:
    def __init__(self, setup: ContenderSetup) -> None:
        silent()
        self.setup = setup

    def load(self) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        kind = {"dtype": getattr(torch, self.setup.precision)}
        self.model: Any = SentenceTransformer(self.setup.directory, device="cpu", model_kwargs=kind)

    def encode(self, texts: list[str]) -> Any:
        return self.model.encode(texts, convert_to_tensor=True, show_progress_bar=False)


class TransformersTranslation:
    def __init__(self, setup: ContenderSetup) -> None:
        silent()
        self.setup = setup

    def load(self) -> None:
        import torch
        from transformers import AutoModelForSeq2SeqLM

        dtype = getattr(torch, self.setup.precision)
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(self.setup.directory, dtype=dtype).eval()
        self.model.generation_config.forced_eos_token_id = None

    def translate(self, sources: list[list[int]], beams: int, new: int) -> list[list[int]]:
        import torch

        pad, longest = self.model.config.pad_token_id, max(map(len, sources))
        tokens = torch.tensor([source + [pad] * (longest - len(source)) for source in sources])
        with torch.inference_mode():
            found = self.model.generate(
                tokens, attention_mask=(tokens != pad).long(), num_beams=beams, max_new_tokens=new, min_new_tokens=new
            )
        return found[:, 1:].tolist()  # without the token that a decoder begins with
