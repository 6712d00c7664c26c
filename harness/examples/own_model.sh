#!/bin/sh
# A model in a file, its plan on four devices, and the order of a pipeline's operations.
set -e
folder=$(mktemp -d)
cat > "$folder/net.json" <<'JSON'
{"schema": "sluice/model/1", "name": "net", "inputs": [{"shape": [1024]}], "layers": [
  {"name": "up", "kind": "Linear", "in": 1024, "out": 4096},
  {"name": "relu1", "kind": "Activation", "function": "relu"},
  {"name": "middle", "kind": "Linear", "in": 4096, "out": 4096},
  {"name": "relu2", "kind": "Activation", "function": "relu"},
  {"name": "head", "kind": "Linear", "in": 4096, "out": 10},
  {"name": "loss", "kind": "CrossEntropyLoss"}]}
JSON
${SLUICE:-build/sluice} plan --system dapple --workload "$folder/net.json" --cluster flat:4 --batch 256 --microbatches 8
${SLUICE:-build/sluice} schedule --system zero_bubble --ranks 4 --microbatches 8 --text
