#!/bin/sh
# One model on GPUs of 80 GB and of 8 GB: which system is the fastest that fits?
set -e
for memory in 80GiB 8GiB; do
  echo "== GPUs of $memory"
  ${SLUICE:-build/sluice} advise --workload gpt_1.3b --precision mixed --cluster "dgx_a100_x2,memory=$memory" \
    --ranks 8 --batch 64 --microbatches 32 --tensor 1 \
    --system data_parallel,fsdp,gpipe,1f1b,interleaved_1f1b,zero_bubble
done
