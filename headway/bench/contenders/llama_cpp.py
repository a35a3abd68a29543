"""llama.cpp by its own C functions, through llama-cpp-python: no sampler of Python's between two tokens."""

import ctypes
from importlib import import_module
from typing import Any

import numpy as np

from headway.bench.contenders import ContenderSetup, FirstToken
from headway.bench.contenders.gguf_file import write_gguf

BATCH = 2048  # tokens that one call takes


class LlamaCppLanguage(FirstToken):
    def __init__(self, setup: ContenderSetup) -> None:
        llama_cpp: Any = import_module("llama_cpp")
        self.c, self.setup, self.path = llama_cpp, setup, write_gguf(setup.directory, setup.work, setup.precision)
        self.model: Any = None
        self.silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silence, ctypes.c_void_p())
        llama_cpp.llama_backend_init()

    def load(self) -> None:
        c, setup = self.c, self.setup
        if self.model is not None:
            c.llama_free(self.context)
            c.llama_model_free(self.model)
        self.model = c.llama_model_load_from_file(self.path.encode(), c.llama_model_default_params())
        if not self.model:
            raise ValueError(f"llama.cpp cannot read {self.path}")
        options = c.llama_context_default_params()
        options.n_ctx = setup.rows * -(-setup.length // 256) * 256
        options.n_batch, options.n_seq_max = BATCH, setup.rows
        options.n_threads = options.n_threads_batch = setup.threads
        if setup.precision == "f32":  # keys and values in the precision of the row; float16 by default
            options.type_k = options.type_v = c.GGML_TYPE_F32
        self.context: Any = c.llama_init_from_model(self.model, options)
        self.vocabulary = c.llama_vocab_n_tokens(c.llama_model_get_vocab(self.model))
        self.batch: Any = c.llama_batch_init(BATCH, 0, 1)

    def generate(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        last = [int(row.argmax()) for row in self._read(prompts, 0)]
        found = [[token] for token in last]
        for step in range(new - 1):
            logits = self._read([[token] for token in last], len(prompts[0]) + step)
            last = [int(row.argmax()) for row in logits]
            for text, token in zip(found, last, strict=True):
                text.append(token)
        return found

    def logits(self, prompt: list[int]) -> Any:
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        return self._read([prompt], 0)[0].copy()

    def _read(self, texts: list[list[int]], start: int) -> list[Any]:
        """The logits after each text; all begin at the same position and have the same length."""
        batch, length = self.batch, len(texts[0])
        if len(texts) * length > BATCH:
            raise ValueError(f"{len(texts)} texts of {length} tokens are more than {BATCH}")
        for place, token in enumerate(token for text in texts for token in text):
            row, position = divmod(place, length)
            batch.token[place], batch.pos[place] = token, start + position
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, row
            batch.logits[place] = position == length - 1
        batch.n_tokens = len(texts) * length
        if self.c.llama_decode(self.context, batch) != 0:
            raise ValueError("llama.cpp could not decode")
        ends = range(length - 1, batch.n_tokens, length)
        return [
            np.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, place), shape=(self.vocabulary,))
            for place in ends
        ]
