"""A record of the user's own goes wherever a named mechanism goes: one file, one line in a table."""

import torch

from headway.config import AttentionConfig, Spec
from headway.nn import Attention
from headway.ops.attention import MECHANISMS, Mechanism, attend, softmax, weights


class Doubled(Spec):
    """Softmax attention, twice."""

    kind: str = "doubled"
    factor: float = 2.0


RECORD = Mechanism(
    "doubled",
    Doubled,
    reference=lambda call: call.spec.factor * softmax.reference(call),
    attend=lambda call: call.spec.factor * softmax.attend(call),
    weights=softmax.weights,
    operation=softmax.operation,
    laws=frozenset(),
)
Q, K = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7)


def test_a_record_in_place_of_a_name() -> None:
    torch.testing.assert_close(attend(Q, K, K, mechanism=RECORD), 2 * attend(Q, K, K))
    torch.testing.assert_close(attend(Q, K, K, mechanism=RECORD, factor=3.0), 3 * attend(Q, K, K))
    assert weights(Q, K, K, mechanism=RECORD).shape == (2, 3, 5, 5)


def test_one_line_in_the_table_and_it_has_a_name_and_a_layer(monkeypatch) -> None:
    monkeypatch.setitem(MECHANISMS, "doubled", RECORD)
    torch.testing.assert_close(attend(Q, K, K, mechanism="doubled"), 2 * attend(Q, K, K))
    plain = Attention(AttentionConfig(width=12, heads=3, project=False))
    layer = Attention(AttentionConfig(width=12, heads=3, project=False, mechanism="doubled"))
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(layer(x), 2 * plain(x))
