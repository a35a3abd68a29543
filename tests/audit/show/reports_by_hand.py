"""Reports as an audit leaves them, made by hand: every verdict, hostile tokens, deviations that are no numbers."""

from math import inf, nan

from headway.audit.report import (
    BROKEN,
    HOLDS,
    NOT_APPLICABLE,
    REFUTED,
    Example,
    Finding,
    ModuleDeviation,
    Report,
    Strip,
)

HOSTILE = ['</span><script>alert("x")</script>', '"><img src=x onerror=1>', "\x1b[31m\x00\r\n", "\u202eشمس", "שלום"]
HOSTILE += ["x" * 3000, "", " ", "\n\t", "\u0301", "\ud800", "猫猫", "👩\u200d🔬"]

SENTENCES = {
    "causal": "No output depends on a later input, neither its value nor its gradient.",
    "padding": "Padding changes nothing, on either side, in any amount, whatever it contains.",
    "batch": "An item's result does not depend on its companions.",
    "cache": "Step by step, or in chunks of any split, equals the whole at once.",
    "drift": "Lower precision stays as near to float64 as its rounding allows.",
    "positions": "Tokens in another order give the same results in that order.",
}


def strip(title: str, words: list[str], marks: dict[int, str], deviations: dict[int, float] | None = None) -> Strip:
    found = [(deviations or {}).get(place) for place in range(len(words))]
    return Strip(title, words, [marks.get(place, "") for place in range(len(words))], found)


def layers(count: int, parts: int = 5, *, wrong: int = 3) -> list[ModuleDeviation]:
    """Blocks of modules: exact at first, rounding later, and from one block on the deviation grows."""
    kinds = ["norm", "attention", "feedforward.first", "feedforward.second", "dropout"]
    found = []
    for block in range(count):
        for part in range(parts):
            deviation = 0.0 if block < 1 else 3e-8 * (part + 1) if block < wrong or part < 1 else 0.01 * 1.2 ** (block)
            name = f"stack.blocks.{block}.{kinds[part % 5]}{part // 5 or ''}"
            kind = "SelfAttention" if part == 1 else "Linear"
            found.append(ModuleDeviation(name, kind, deviation, agreed=(block, part) <= (wrong, 1)))
    return found


def causal() -> Finding:
    words = ["The", " cat", " sat", " on", " the", " mat"]
    changed = [*words[:5], " dog"]
    marks = {2: "broken", 3: "broken", 4: "broken", 5: "changed broken"}
    strips = [
        strip("the row", words, {5: "changed"}),
        strip("with another token at place 5", changed, marks, {0: 0.0, 1: 0.0, 2: 3e-4, 3: 0.02, 4: 0.31, 5: 0.9}),
    ]
    example = Example(
        "results before place 5 change with the input at 5",
        strips,
        {"seed": 7, "length": 6, "items": 1, "changed": [5]},
    )
    return Finding(
        "causal", BROKEN, 48, 0.31, 1.2e-6, "stack.blocks.3.attention", example=example, layers=layers(4), seconds=2.5
    )


def padding() -> Finding:
    words = ["<pad>"] * 40 + ["to", " be"]
    marks = dict.fromkeys(range(40), "padding") | {41: "broken"}
    found = strip("padded left, 40 places", words, marks, {40: 1e-9, 41: nan})
    return Finding(
        "padding",
        BROKEN,
        12,
        nan,
        2e-6,
        why="With NaN in the padding, NaN comes out.",
        example=Example("Padding on the left gives NaN at place 41.", [found], {"seed": 3, "left": 40}),
        layers=[ModuleDeviation("embed", "Embedding", 0.0, True), ModuleDeviation("blocks.0", "Block", nan, True)],
        details=[{"dtype": "float32", "drift": 1.25e-7, "modules": 3}, {"dtype": "bfloat16", "drift": inf, "why": "x"}],
    )


def everything() -> Report:
    order = Example("Turned around, place 0 differs.", [strip("turned", ["b", "a"], {0: "broken"}, {0: 0.5})], {})
    drift = [{"module": f"blocks.{place}", "float32": 1e-7 * place} for place in range(20)]
    findings = [
        causal(),
        padding(),
        Finding("batch", HOLDS, 30, 3.2e-16, 1e-15),
        Finding("drift", HOLDS, 4, 1.1e-7, 1e-6, details=drift),
        Finding("cache", NOT_APPLICABLE, why="The model takes no cache: its forward has no argument for one."),
        Finding("positions", REFUTED, 5, 0.5, example=order),
        Finding("reflection", REFUTED, 5, 0.0),
    ]
    notes = ["Masks were passed as attention_mask, 1 = real, since the model is of the transformers library."]
    return Report("gpt2-small", "LanguageModel, 124 M parameters, float32, tokens to logits", findings, notes, 14.2, 7)


def hostile() -> Report:
    marks = dict(enumerate(["changed", "padding", "hidden", "segment", "broken", "broken changed", "of-no-kind"]))
    rows = [strip(HOSTILE[0], HOSTILE, marks, {4: inf, 5: -1.0, 6: 0.0})]
    bad = "".join(HOSTILE)
    finding = Finding(
        "causal",
        BROKEN,
        1,
        inf,
        nan,
        module=HOSTILE[0],
        why=bad,
        example=Example(bad, rows, {HOSTILE[0]: HOSTILE[1]}),
        layers=[ModuleDeviation(HOSTILE[0], HOSTILE[1], inf, False), ModuleDeviation("", "", 0.0, True)],
        details=[{HOSTILE[0]: bad, "b": None, "c": [1], "d": True}],
    )
    return Report(bad, bad, [finding, Finding("cache", NOT_APPLICABLE, why=bad)], [bad], nan)


def deep() -> Report:
    long = ["word"] * 900
    marks = {700: "changed"} | dict.fromkeys(range(701, 900), "broken")
    example = Example("A long one.", [strip("a long row", long, marks, dict.fromkeys(range(701, 900), 0.25))], {})
    modules = layers(48, 10, wrong=30)
    found = Finding("causal", BROKEN, 9, 0.25, 1e-6, modules[301].module, example=example, layers=modules)
    return Report("deep", "48 blocks of ten", [found])
