// Megatron-LM's --pipeline-model-parallel-layout: the blocks of a transformer in each stage, as one text. E stands for
// the layers before the blocks (the embedding), t for a block, L for the layers after them (the last norm, the head and
// the loss), | for the end of a stage, x*3 and (...)*3 for three times; commas have no meaning: "Et|(tt|)*3,L". Stages
// are in the model's order: with v stages on each of p ranks, rank r has stages r, r + p, ... The blocks are the
// model's longest run of equal ones (fold_layers.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// Whether a text of stages is a layout, and not a list of numbers.
bool is_layout(const std::string& text);

// The first layer of every stage except the first. Throws InputError at `where` for a text of another form, a model
// without repeated blocks, and a layout that does not have each of its parts once, in order.
std::vector<int> stages_of_layout(const std::string& text, const ModelGraph& model, const std::string& where);

// The layout of stages that begin with these layers (without the first stage's 0); "": some cut is within a block, or
// no block repeats.
std::string layout_of_stages(std::span<const int> first_layers, const ModelGraph& model);

}  // namespace sluice
