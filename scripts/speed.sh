#!/bin/sh
# docs/speed.md, measured on this machine: each work by itself, so that one that fails does not lose the others.
set -eu
python=${1:-.venv/bin/python}
rows=${ROWS:-runs/speed}
mkdir -p "$rows"
for work in decode prefill embed translate load; do
    # 1: a row could not be measured, and says so
    "$python" -m headway bench "$work" --json -o "$rows/$work.json" --files "$rows/files" || [ $? = 1 ]
done
"$python" -m headway bench report "$rows"/*.json -o docs/speed.md
