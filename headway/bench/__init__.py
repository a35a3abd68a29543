"""headway and its peers, side by side, in one run.

A work is a module with a table `CASES`: name -> function that takes a `Bench` and yields `Row`s. Another work is one
more line in `WORKS` and one more word in `headway.cli.bench`, where the command line offers it. The rest is shared:
`measure` (interleaved rounds, peak memory), `agree` (outputs are compared before times), `machine` (limits of this
machine), `row` (the figures and their verdict), `show` (table and plot).
"""

WORKS = {
    "attention": "headway.bench.attention",
    "decode": "headway.bench.decode",
    "prefill": "headway.bench.prefill",
    "embed": "headway.bench.embed",
    "translate": "headway.bench.translate",
    "load": "headway.bench.load",
    "models": "headway.bench.models",
    "train": "headway.bench.train",
    "predict": "headway.bench.predict",
    "look": "headway.bench.look",
}
