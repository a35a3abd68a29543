"""Generation: one decoding loop for any model, and beam search.

for event in stream(model, [Request(prompt="Once")], tokenizer=tokenizer):
    print(event.text, end="")
"""

from headway.decoding.beam import beam
from headway.decoding.request import Broken, Event, Request, Result
from headway.decoding.stream import Batch, generate, stream

__all__ = ["stream", "generate", "beam", "Batch", "Request", "Result", "Event", "Broken"]
