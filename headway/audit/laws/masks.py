"""A hidden key is as good as deleted, and every attention has the mask that belongs to it.

An encoder reads both ways, a decoder does not, and nobody attends to what is hidden in a source. A model that claims to
read both ways and never does has a causal mask where none belongs.
"""

from dataclasses import replace

import torch
from torch import Tensor

from headway.adapt.adapter import NOBODY, Overwrite, Reading
from headway.adapt.inputs import other_inputs
from headway.audit.laws.padding import LARGE
from headway.audit.laws.variants import combine
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison, apart, value_deviations
from headway.audit.search.find import search, token_rows
from headway.audit.search.localise import SOURCE, record_calls
from headway.audit.search.search_context import SearchContext, TrialRng


def masks(context: SearchContext) -> Finding:
    """Hidden places in the text, hidden places in the source, and who reads both ways."""
    found = []
    if context.subject.missing("keep") is None:
        whole = context.subject.missing("positions") is None and not context.subject.adapter.counts_columns
        found.append(search(context, "masks", draw, masked_is_deleted if whole else masked_is_ignored))
    if context.subject.adapter.reads_source:
        masked = context.subject.adapter.call is not None or context.subject.adapter.source_mask is not None
        found += [search(context, "masks", draw, masked_source_is_ignored)] if masked else []
        found += [encoder_reads_both_ways(context)] if context.subject.adapter.encodes_both_ways else []
    elif context.subject.adapter.causal is False:
        found.append(reads_both_ways(context))
    if not found:
        return Finding(
            "masks", NOT_APPLICABLE, why="its call takes no mask, and it does not say that it reads both ways"
        )
    return combine(found, "masks")


def draw(context: SearchContext, rng: TrialRng) -> Case:
    """Some places, anywhere but not everywhere."""
    length = context.draw_length(rng, least=3)
    many = rng.randint(1, max(1, (length - 1) // 2))
    places = tuple(sorted(rng.sample(range(length), many))) if length > 1 else ()
    reach = context.subject.missing("vectors") is None
    content = rng.turn(["tokens", "large"]) if reach else "tokens"
    return Case(rng.randrange(1 << 30), length, rng.randint(1, 2), changed=places, source=length + 2, content=content)


def masked_is_deleted(context: SearchContext, case: Case) -> Comparison | None:
    """Without these inputs, at the places where the others stand; then with them, hidden."""
    gone = _gone(case)
    left = case.length - int(gone.sum())
    a = context.subject.adapter
    if not gone.any() or left < max(1, a.shortest) or left % a.multiple:
        return None
    whole, real = case.reading(context.subject.adapter), (~gone).nonzero()[:, 0]
    places = torch.arange(case.length).expand(case.items, -1)
    short = replace(whole, inputs=whole.inputs[:, real], labels=whole.labels[:, real], positions=places[:, real])
    # Gaps between positions and no mask: some libraries take that for several texts in one row.
    short = replace(short, keep=torch.ones_like(short.labels, dtype=torch.bool))
    sentence = f"hiding {_named(case)} differs from leaving {'it' if len(case.changed) == 1 else 'them'} out"
    return Comparison((short,), (_hidden(replace(whole, positions=places), gone, case),), sentence)


def masked_is_ignored(context: SearchContext, case: Case) -> Comparison | None:
    """Hidden inputs of one kind and of another: where a model takes no positions, deleting would move the others."""
    gone = _gone(case)
    if not gone.any() or gone.all():
        return None
    whole = case.reading(context.subject.adapter)
    before = _hidden(whole, gone, replace(case, content="tokens"))
    after = _hidden(replace(whole, inputs=_changed(context, whole.inputs, gone, case.seed)), gone, case)
    return Comparison((before,), (after,), f"results change with {_named(case)}, which is hidden")


def masked_source_is_ignored(context: SearchContext, case: Case) -> Comparison | None:
    """The same for what is hidden in a source."""
    whole = case.reading(context.subject.adapter)
    assert whole.source is not None and whole.source_labels is not None
    places = [place for place in case.changed if place < whole.source.shape[1]]
    gone = torch.zeros(whole.source.shape[1], dtype=torch.bool)
    gone[places] = True
    if not gone.any() or gone.all():
        return None
    marks = whole.source_labels.masked_fill(gone, NOBODY)
    one = replace(whole, source_labels=marks, source_keep=marks >= 0)
    many = context.subject.adapter.source_vocabulary or context.subject.adapter.vocabulary
    other = torch.where(gone, (whole.source + 1 + case.seed % 5) % (many or 2), whole.source)
    over = Overwrite(marks < 0, LARGE) if case.content == "large" else None
    sentence = f"results change with place {', '.join(map(str, places))} of the source, which is hidden"
    return Comparison((one,), (replace(one, source=other, source_overwrite=over),), sentence)


def _gone(case: Case) -> Tensor:
    gone = torch.zeros(case.length, dtype=torch.bool)
    gone[list(case.changed)] = True
    return gone


def _hidden(whole: Reading, gone: Tensor, case: Case) -> Reading:
    marks = whole.labels.masked_fill(gone, NOBODY)
    over = Overwrite(marks < 0, LARGE) if case.content == "large" else None
    return replace(whole, labels=marks, keep=marks >= 0, overwrite=over)


def _changed(context: SearchContext, inputs: Tensor, gone: Tensor, seed: int) -> Tensor:
    where = gone.reshape(1, -1, *[1] * (inputs.ndim - 2))
    return torch.where(where, other_inputs(context.subject.adapter, inputs, seed), inputs)


def _named(case: Case) -> str:
    return f"the input{'s' * (len(case.changed) > 1)} at {', '.join(map(str, case.changed))}"


ATTENTION = ("attn", "attention")
TOLD = "no result depends on a later input, as if a causal mask were laid on"


def reads_both_ways(context: SearchContext) -> Finding:
    """The last input changes: an earlier result (or the item's only one) must move in some trial."""
    comparison = None
    for trial in range(context.effort.trials):
        comparison = _last_changed(context, context.random("both ways", trial))
        if comparison is None:
            continue
        found = value_deviations(context.subject, comparison)
        if found.largest > context.noise.tolerance:
            return Finding("masks", HOLDS, trial + 1)
    if comparison is None:
        return Finding("masks", NOT_APPLICABLE, why="it reads one input at a time")
    rows = token_rows(context.subject, comparison, found, context.noise.tolerance)
    return Finding(
        "masks", BROKEN, context.effort.trials, 0.0, context.noise.tolerance, _first_attention(context, ""),
        example=Example(f"it claims to read both ways, but {TOLD}", rows, {}),
    )  # fmt: skip


def _last_changed(context: SearchContext, rng: TrialRng) -> Comparison | None:
    length = rng.length(context.subject.adapter, least=2, most=context.effort.longest)
    if length < 2:
        return None
    whole = Case(rng.randrange(1 << 30), length).reading(context.subject.adapter)
    inputs = whole.inputs.clone()
    inputs[:, -1] = other_inputs(context.subject.adapter, whole.inputs, length)[:, -1]
    marks = whole.labels.clone()
    marks[:, -1] = NOBODY
    return Comparison((replace(whole, labels=marks),), (replace(whole, labels=marks, inputs=inputs),), TOLD)


def encoder_reads_both_ways(context: SearchContext) -> Finding:
    """The source's last input changes: some vector of an earlier one, anywhere in the encoder, must move."""
    seen, comparison = "", None
    for trial in range(context.effort.trials):
        comparison = _source_changed(context, context.random("encoder", trial))
        before, after = (record_calls(context.subject, side) for side in (comparison.before, comparison.after))
        for key in before.keys() & after.keys():
            for one, two in zip(before[key].output, after[key].output, strict=False):
                if not len(one.labels) or not SOURCE <= int(one.labels[0]) < 2 * SOURCE:
                    continue
                seen = seen or key[0]
                if one.values.shape == two.values.shape and apart(one, two).largest > context.noise.tolerance:
                    return Finding("masks", HOLDS, trial + 1)
    if not seen or comparison is None:
        return Finding("masks", NOT_APPLICABLE, why="no module gives a vector for each input of the source")
    sentence = f"its encoder ought to read both ways, but {TOLD}"
    found = value_deviations(context.subject, comparison)
    rows = token_rows(context.subject, comparison, found, float("inf"))
    return Finding(
        "masks", BROKEN, context.effort.trials, 0.0, context.noise.tolerance, _first_attention(context, "encoder"),
        example=Example(sentence, rows, {}),
    )  # fmt: skip


def _source_changed(context: SearchContext, rng: TrialRng) -> Comparison:
    length = rng.length(context.subject.adapter, least=2, most=context.effort.longest)
    whole = Case(rng.randrange(1 << 30), length, source=length + 2).reading(context.subject.adapter)
    assert whole.source is not None and whole.source_labels is not None
    many = context.subject.adapter.source_vocabulary or context.subject.adapter.vocabulary or 2
    source, marks = whole.source.clone(), whole.source_labels.clone()
    source[:, -1] = (source[:, -1] + 1) % many
    marks[:, -1] = NOBODY
    one = replace(whole, source_labels=marks)
    return Comparison((one,), (replace(one, source=source),), TOLD)


def _first_attention(context: SearchContext, within: str) -> str:
    """There is no first module to blame for what never happens: the first attention is where to look."""
    names = [name for name, _ in context.subject.module.named_modules()]
    found = [name for name in names if within in name and any(word in name.lower() for word in ATTENTION)]
    return found[0] if found else ""
