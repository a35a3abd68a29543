"""Generation: one decoding loop for any model, and beam search.

for event in stream(model, [Request(prompt="Once")], tokenizer=tokenizer):
    print(event.text, end="")
"""

from headway.decoding.beam import beam
from headway.decoding.request import Generation, NonFiniteLogits, Request, TokenEvent
from headway.decoding.stream import DecodingBatch, generate, stream

__all__ = ["stream", "generate", "beam", "DecodingBatch", "Request", "Generation", "TokenEvent", "NonFiniteLogits"]
