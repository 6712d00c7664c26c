#!/bin/sh
# A sweep over numbers of GPUs, and its table.
set -e
folder=$(mktemp -d)
cat > "$folder/scaling.json" <<'JSON'
{"name": "scaling",
 "defaults": {"workload": "gpt_1.3b", "precision": "mixed", "clock": "virtual", "cluster": "dgx_a100_x2", "steps": 8,
              "train": false, "batch": 64, "microbatches": 32},
 "grid": [{"system": "single_device"}, {"system": ["1f1b", "zero_bubble"], "ranks": [2, 4, 8, 16]}]}
JSON
${SLUICE:-build/sluice} run "$folder/scaling.json" --progress none --out "$folder/scaling.jsonl" > "$folder/log"
${SLUICE:-build/sluice} compare "$folder/scaling.jsonl"
