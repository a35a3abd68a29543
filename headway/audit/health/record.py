"""What the doctor writes down: a row for each head, for each depth, the logits, and the symptoms with their remedies.

A softmax is saturated where one weight is almost 1. Its output is then *in*sensitive to the scores: the Jacobian
diag(a) − a aᵀ is almost 0, so no gradient reaches the queries and keys through it. Scores of variance v saturate in
probability, the more often the larger v is; not always, since it takes one score well above all others of its row.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from headway.audit.report import plain_values

# A largest weight above this is called saturated: a (1 − a) is then below 0.0099, a twenty-fifth of its maximum ¼,
# so at most that much of a gradient passes.
SATURATED = 0.99

# The fields of a head that are measures, each with what it is.
MEASURES: dict[str, str] = {
    "variance": "variance of q·k over the keys that a row sees, before the scale, averaged over rows",
    "predicted": "that variance if entries are independent: head width x mean q² x variance of k over the keys",
    "q_rms": "root mean square of the entries of q",
    "k_rms": "standard deviation of the entries of k over the keys, root mean square over channels",
    "scale": "what q·k is multiplied by; 1/√(head width) gives q and k of variance 1 scores of variance 1",
    "spread": "standard deviation of the scores of a row as the softmax reads them, over the keys that it sees",
    "entropy": "entropy of a row of weights over log(number of keys it sees): 1 is uniform, 0 is one key",
    "saturated": f"share of rows with a weight above {SATURATED}: those hardly answer to their scores",
    "jacobian": "Frobenius norm of a row's softmax Jacobian, averaged over rows; never above 0.5",
    "jacobian_uniform": "the same norm if each row weighed all keys that it sees alike, √(n − 1) / n",
    "largest": "largest |q·k| before the scale, or of the scores themselves where q and k were not seen",
    "rounding": "how far a score may be off by the rounding of the dtype that holds it",
    "variation": "how much the head's output moves over positions, over that of the layer's liveliest head",
    "heard": "norm of the loss's gradient at the head's output, over that of the layer's loudest head",
    "stuck": "share of rows that put more than 0.99 on the one key that most rows look at",
    "twin": "an earlier head of the layer that has the same weights",
}  # fmt: skip
DEPTH_MEASURES: dict[str, str] = {
    "activation": "root mean square of what the block gives",
    "gradient": "norm of the loss's gradient at what the block gives",
    "finite": "whether all of it is finite",
}


@dataclass(frozen=True)
class Head:
    """One head of one attention. None: could not be measured (q and k were not seen, say). See MEASURES."""

    module: str
    head: int
    mechanism: str
    width: int | None
    keys: float | None
    variance: float | None
    predicted: float | None
    q_rms: float | None
    k_rms: float | None
    scale: float | None
    spread: float | None
    entropy: float | None
    saturated: float | None
    jacobian: float | None
    jacobian_uniform: float | None
    largest: float | None
    rounding: float | None
    stuck: float | None
    twin: int | None
    variation: float | None = None
    heard: float | None = None

    @property
    def usual_scale(self) -> float | None:
        """1/√(head width)."""
        return None if self.width is None else self.width**-0.5

    @property
    def place(self) -> str:
        return f"{self.module or 'the model'} head {self.head}"


@dataclass(frozen=True)
class Depth:
    """What one block gives, in the order in which blocks run; the first row is what the first block reads."""

    module: str
    activation: float
    gradient: float | None
    finite: bool


@dataclass(frozen=True)
class Logits:
    """The model's output: its largest number, and shares beyond what smaller dtypes hold."""

    largest: float
    beyond_float16: float
    beyond_bfloat16: float
    not_finite: float
    dtype: str


@dataclass(frozen=True)
class Symptom:
    """What is wrong and where, what was measured and expected, why it hurts, and what to change.

    `fix` has the remedy's number where it has one: {"scale": 0.25}, {"multiply": 0.1}.
    """

    name: str
    where: list[str]
    measured: str
    expected: str
    why: str
    remedy: str
    fix: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """A diagnosis. `notes` says what could not be seen and which loss the gradients are of."""

    heads: list[Head]
    depth: list[Depth]
    logits: Logits | None
    symptoms: list[Symptom]
    notes: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        return not self.symptoms

    def __getitem__(self, name: str) -> Symptom:
        found = next((one for one in self.symptoms if one.name == name), None)
        if found is None:
            has = ", ".join(one.name for one in self.symptoms) or "none"
            raise KeyError(f"there is no symptom {name}; there is {has}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values, with the definitions; NaN and inf as text."""
        return plain_values(asdict(self) | {"healthy": self.healthy, "measures": MEASURES | DEPTH_MEASURES})
