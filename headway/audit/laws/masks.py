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
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Contrast, apart, values_apart
from headway.audit.search.find import search, strips
from headway.audit.search.localise import SOURCE, recorded
from headway.audit.search.search_context import Dice, Scene


def masks(scene: Scene) -> Finding:
    """Hidden places in the text, hidden places in the source, and who reads both ways."""
    found = []
    if scene.subject.missing("keep") is None:
        whole = scene.subject.missing("positions") is None and not scene.subject.adapter.counts_columns
        found.append(search(scene, "masks", draw, deleted if whole else unheard))
    if scene.subject.adapter.reads_source:
        masked = scene.subject.adapter.call is not None or scene.subject.adapter.source_mask is not None
        found += [search(scene, "masks", draw, unheard_source)] if masked else []
        found += [encoder_reads_both_ways(scene)] if scene.subject.adapter.encodes_both_ways else []
    elif scene.subject.adapter.causal is False:
        found.append(reads_both_ways(scene))
    tried = [one for one in found if one.status != NOT_APPLICABLE]
    if not tried:
        return Finding(
            "masks", NOT_APPLICABLE, why="its call takes no mask, and it does not say that it reads both ways"
        )
    worst = next((one for one in tried if one.status == BROKEN), tried[0])
    return replace(worst, trials=sum(one.trials for one in tried), deviation=_largest(tried, worst))


def _largest(tried: list[Finding], worst: Finding) -> float | None:
    if worst.status != HOLDS:
        return worst.deviation
    return max((one.deviation for one in tried if one.deviation is not None), default=None)


def draw(scene: Scene, random: Dice) -> Case:
    """Some places, anywhere but not everywhere."""
    length = scene.a_length(random, least=3)
    many = random.randint(1, max(1, (length - 1) // 2))
    places = tuple(sorted(random.sample(range(length), many))) if length > 1 else ()
    reach = scene.subject.missing("vectors") is None
    content = random.turn(["tokens", "large"]) if reach else "tokens"
    return Case(
        random.randrange(1 << 30), length, random.randint(1, 2), changed=places, source=length + 2, content=content
    )


def deleted(scene: Scene, case: Case) -> Contrast | None:
    """Without these inputs, at the places where the others stand; then with them, hidden."""
    gone = _gone(case)
    left = case.length - int(gone.sum())
    a = scene.subject.adapter
    if not gone.any() or left < max(1, a.shortest) or left % a.multiple:
        return None
    whole, real = case.reading(scene.subject.adapter), (~gone).nonzero()[:, 0]
    places = torch.arange(case.length).expand(case.items, -1)
    short = replace(whole, inputs=whole.inputs[:, real], labels=whole.labels[:, real], positions=places[:, real])
    # Gaps between positions and no mask: some libraries take that for several texts in one row.
    short = replace(short, keep=torch.ones_like(short.labels, dtype=torch.bool))
    told = f"hiding {_named(case)} differs from leaving {'it' if len(case.changed) == 1 else 'them'} out"
    return Contrast((short,), (_hidden(replace(whole, positions=places), gone, case),), told)


def unheard(scene: Scene, case: Case) -> Contrast | None:
    """Hidden inputs of one kind and of another: where a model takes no positions, deleting would move the others."""
    gone = _gone(case)
    if not gone.any() or gone.all():
        return None
    whole = case.reading(scene.subject.adapter)
    before = _hidden(whole, gone, replace(case, content="tokens"))
    after = _hidden(replace(whole, inputs=_changed(scene, whole.inputs, gone, case.seed)), gone, case)
    return Contrast((before,), (after,), f"results change with {_named(case)}, which is hidden")


def unheard_source(scene: Scene, case: Case) -> Contrast | None:
    """The same for what is hidden in a source."""
    whole = case.reading(scene.subject.adapter)
    assert whole.source is not None and whole.source_labels is not None
    places = [place for place in case.changed if place < whole.source.shape[1]]
    gone = torch.zeros(whole.source.shape[1], dtype=torch.bool)
    gone[places] = True
    if not gone.any() or gone.all():
        return None
    marks = whole.source_labels.masked_fill(gone, NOBODY)
    one = replace(whole, source_labels=marks, source_keep=marks >= 0)
    many = scene.subject.adapter.source_vocabulary or scene.subject.adapter.vocabulary
    other = torch.where(gone, (whole.source + 1 + case.seed % 5) % (many or 2), whole.source)
    over = Overwrite(marks < 0, LARGE) if case.content == "large" else None
    told = f"results change with place {', '.join(map(str, places))} of the source, which is hidden"
    return Contrast((one,), (replace(one, source=other, source_overwrite=over),), told)


def _gone(case: Case) -> Tensor:
    gone = torch.zeros(case.length, dtype=torch.bool)
    gone[list(case.changed)] = True
    return gone


def _hidden(whole: Reading, gone: Tensor, case: Case) -> Reading:
    marks = whole.labels.masked_fill(gone, NOBODY)
    over = Overwrite(marks < 0, LARGE) if case.content == "large" else None
    return replace(whole, labels=marks, keep=marks >= 0, overwrite=over)


def _changed(scene: Scene, inputs: Tensor, gone: Tensor, seed: int) -> Tensor:
    where = gone.reshape(1, -1, *[1] * (inputs.ndim - 2))
    return torch.where(where, other_inputs(scene.subject.adapter, inputs, seed), inputs)


def _named(case: Case) -> str:
    return f"the input{'s' * (len(case.changed) > 1)} at {', '.join(map(str, case.changed))}"


ATTENTION = ("attn", "attention")
TOLD = "no result depends on a later input, as if a causal mask were laid on"


def reads_both_ways(scene: Scene) -> Finding:
    """The last input changes: an earlier result (or the item's only one) must move in some trial."""
    contrast = None
    for trial in range(scene.effort.trials):
        contrast = _last_changed(scene, scene.random("both ways", trial))
        if contrast is None:
            continue
        found = values_apart(scene.subject, contrast)
        if found.largest > scene.noise.tolerance:
            return Finding("masks", HOLDS, trial + 1)
    if contrast is None:
        return Finding("masks", NOT_APPLICABLE, why="it reads one input at a time")
    rows = strips(scene.subject, contrast, found, scene.noise.tolerance)
    return Finding(
        "masks", BROKEN, scene.effort.trials, 0.0, scene.noise.tolerance, _first_attention(scene, ""),
        example=Example(f"it claims to read both ways, but {TOLD}", rows, {}),
    )  # fmt: skip


def _last_changed(scene: Scene, random: Dice) -> Contrast | None:
    length = random.length(scene.subject.adapter, least=2, most=scene.effort.longest)
    if length < 2:
        return None
    whole = Case(random.randrange(1 << 30), length).reading(scene.subject.adapter)
    inputs = whole.inputs.clone()
    inputs[:, -1] = other_inputs(scene.subject.adapter, whole.inputs, length)[:, -1]
    marks = whole.labels.clone()
    marks[:, -1] = NOBODY
    return Contrast((replace(whole, labels=marks),), (replace(whole, labels=marks, inputs=inputs),), TOLD)


def encoder_reads_both_ways(scene: Scene) -> Finding:
    """The source's last input changes: some vector of an earlier one, anywhere in the encoder, must move."""
    seen, contrast = "", None
    for trial in range(scene.effort.trials):
        contrast = _source_changed(scene, scene.random("encoder", trial))
        before, after = (recorded(scene.subject, side) for side in (contrast.before, contrast.after))
        for key in before.keys() & after.keys():
            for one, two in zip(before[key].output, after[key].output, strict=False):
                if not len(one.labels) or not SOURCE <= int(one.labels[0]) < 2 * SOURCE:
                    continue
                seen = seen or key[0]
                if one.values.shape == two.values.shape and apart(one, two).largest > scene.noise.tolerance:
                    return Finding("masks", HOLDS, trial + 1)
    if not seen or contrast is None:
        return Finding("masks", NOT_APPLICABLE, why="no module gives a vector for each input of the source")
    told = f"its encoder ought to read both ways, but {TOLD}"
    found = values_apart(scene.subject, contrast)
    rows = strips(scene.subject, contrast, found, float("inf"))
    return Finding(
        "masks", BROKEN, scene.effort.trials, 0.0, scene.noise.tolerance, _first_attention(scene, "encoder"),
        example=Example(told, rows, {}),
    )  # fmt: skip


def _source_changed(scene: Scene, random: Dice) -> Contrast:
    length = random.length(scene.subject.adapter, least=2, most=scene.effort.longest)
    whole = Case(random.randrange(1 << 30), length, source=length + 2).reading(scene.subject.adapter)
    assert whole.source is not None and whole.source_labels is not None
    many = scene.subject.adapter.source_vocabulary or scene.subject.adapter.vocabulary or 2
    source, marks = whole.source.clone(), whole.source_labels.clone()
    source[:, -1] = (source[:, -1] + 1) % many
    marks[:, -1] = NOBODY
    one = replace(whole, source_labels=marks)
    return Contrast((one,), (replace(one, source=source),), TOLD)


def _first_attention(scene: Scene, within: str) -> str:
    """There is no first module to blame for what never happens: the first attention is where to look."""
    names = [name for name, _ in scene.subject.module.named_modules()]
    found = [name for name in names if within in name and any(word in name.lower() for word in ATTENTION)]
    return found[0] if found else ""
