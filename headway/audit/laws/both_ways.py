"""Whoever claims to read both ways does: some result depends on a later input."""

from dataclasses import replace

from headway.adapt.adapter import NOBODY
from headway.adapt.inputs import other_inputs
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import apart
from headway.audit.search.contrast import Contrast, values_apart
from headway.audit.search.dice import Dice
from headway.audit.search.example import strips
from headway.audit.search.record import SOURCE, recorded
from headway.audit.search.scene import Scene

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
