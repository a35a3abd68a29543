"""The laws of models: each a sentence, what it needs of a model, and a way to try it; in the order of a report."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headway.audit.laws.batch import batch, segments
from headway.audit.laws.cache import cache
from headway.audit.laws.causal import causal
from headway.audit.laws.determinism import determinism
from headway.audit.laws.dtype import dtype
from headway.audit.laws.empty import empty
from headway.audit.laws.export import export
from headway.audit.laws.finite import finite
from headway.audit.laws.masks import masks
from headway.audit.laws.norm import norm
from headway.audit.laws.padding import padding, quarantine
from headway.audit.laws.positions import positions
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.search_context import SearchContext
from headway.config import nearest


@dataclass(frozen=True)
class Law:
    """`needs` are words of `AdaptedModel.missing`; `test` tries it where they are met."""

    name: str
    sentence: str
    test: Callable[[SearchContext], Finding]
    needs: tuple[str, ...] = ()

    def tried(self, context: SearchContext) -> Finding:
        """The finding; where the law cannot be tried, why."""
        why = context.subject.missing(*self.needs)
        return self.test(context) if why is None else Finding(self.name, NOT_APPLICABLE, why=why)


LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law(
            "causal", "No result depends on a later input, in its value or in its gradient.",
            causal, ("text", "places"),
        ),
        Law(
            "padding", "Padding on either side, of any amount and content, changes no result.",
            padding, ("text", "keep"),
        ),
        Law(
            "quarantine", "NaN and inf in padding reach no result and no gradient.",
            quarantine, ("text", "keep", "vectors"),
        ),
        Law("batch", "An item's result does not depend on its companions, their number or their order.", batch),
        Law("cache", "Reading in pieces with a cache equals reading at once.", cache, ("text", "places", "cache")),
        Law(
            "positions", "Results move with their inputs where that is claimed; else an example shows it.",
            positions, ("text",),
        ),
        Law(
            "masks", "A hidden key is as good as deleted; every attention has the mask that belongs to it.",
            masks, ("text",),
        ),
        Law("segments", "Texts packed into one row do not see each other.", segments, ("text", "places", "segments")),
        Law("determinism", "Equal runs are equal; training differs from use by dropout alone.", determinism),
        Law("dtype", "What fewer digits cost grows with their rounding, and with nothing else.", dtype),
        Law("export", "A model that is saved and read again is the same function.", export),
        Law("norm", "A norm looks at its own row (or column) alone, and gives it the length it promises.", norm),
        Law("finite", "Extreme inputs give finite values and finite gradients.", finite),
        Law("empty", "Rows without a real input give finite numbers, and disturb nobody.", empty),
    )
}  # fmt: skip


def select_laws(names: Iterable[str] | str | None) -> list[Law]:
    """The laws of these names, in the order of the table; all of them for None.

    >>> [law.name for law in select_laws("batch,causal")]
    ['causal', 'batch']
    """
    if names is None:
        return list(LAWS.values())
    asked = [one.strip() for one in (names.split(",") if isinstance(names, str) else names)]
    if not any(asked):
        raise ValueError(f"no law was named; there are {', '.join(LAWS)}")
    for name in asked:
        if name not in LAWS:
            raise ValueError(f"there is no law {name!r}{nearest(name, LAWS)}; there are {', '.join(LAWS)}")
    return [law for name, law in LAWS.items() if name in asked]
