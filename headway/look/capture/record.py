"""Keeps what was seen: one attention for each, and calls that go on where one ended as rows of it."""

import torch

from headway.look.capture.attention import Attention, held_weights
from headway.look.capture.held import HeldCall, call_of, held_call
from headway.look.capture.sight import Kernel, Scores, Sight
from headway.look.capture.wanted import Wanted
from headway.ops.attention import Call, record_of


class Recorder:
    """`found` in order of running; of layers that nobody wants only the number is known."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.found = wanted, list[Attention]()
        self._count = 0
        self._latest: dict[str, Attention | None] = {}  # None: not wanted

    @torch.no_grad()
    def see(self, name: str, sight: Sight) -> None:
        if isinstance(sight, Scores):
            if self._counts(name):
                self._add(Attention(name, "softmax", [held_weights(sight, self.wanted)]))
            return
        call = call_of(sight) if isinstance(sight, Kernel) else sight
        if 0 not in (*call.q.shape, call.k.shape[2]) and not self._joined(name, call) and self._counts(name):
            self._add(Attention(name, record_of(call.spec).name, [held_call(call)]))

    def _counts(self, name: str) -> bool:
        self._count += 1
        self._latest[name] = None
        return self.wanted.has_layer(self._count - 1)

    def _add(self, attention: Attention) -> None:
        self.found.append(attention)
        self._latest[attention.name] = attention

    def _joined(self, name: str, call: Call) -> bool:
        """One query that sees the keys of the call before, and perhaps more, is a further row of it."""
        if call.q.shape[2] != 1 or name not in self._latest:
            return False
        before = self._latest[name]
        if before is None:
            return True
        last = before.calls[-1]
        if not isinstance(last, HeldCall) or not last.goes_on(call):
            return False
        before.calls.append(held_call(call, last.keys))
        return True
