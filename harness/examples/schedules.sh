#!/bin/sh
# Synchronous schedules of GPT with 1.3 billion parameters on 8 A100: the same batch, the same stages.
set -e
folder=$(mktemp -d)
${SLUICE:-build/sluice} run --system single_device,gpipe,1f1b,interleaved_1f1b,zero_bubble,dualpipe \
  --workload gpt_1.3b --precision mixed --clock virtual --cluster dgx_a100_x2 --ranks 8 --batch 64 --microbatches 32 \
  --steps 8 --no-train --progress none --out "$folder/runs.jsonl" > "$folder/log"
${SLUICE:-build/sluice} compare "$folder/runs.jsonl" --baseline single_device
