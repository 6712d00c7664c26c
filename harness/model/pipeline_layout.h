// Megatron-LM's --pipeline-model-parallel-layout: which blocks of a transformer each stage has, in one text. E stands
// for what comes before the blocks (the embedding), t for a block, L for what comes after them (the last norm, the head
// and the loss), | for the end of a stage, x*3 and (...)*3 for three times; commas mean nothing: "Et|(tt|)*3,L". Stages
// come in the model's order, so that of v stages on each of p ranks rank r has stages r, r + p, ... The blocks are the
// model's longest run of equal ones (fold_layers.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// Whether a text of stages is a layout, and no list of numbers.
bool is_layout(const std::string& text);

// The first layer of every stage but the first. Throws InputError at `where` for a text of another form, a model in
// which nothing repeats, and a layout that does not have each of its parts once, in order.
std::vector<int> stages_of_layout(const std::string& text, const ModelGraph& model, const std::string& where);

// The layout of stages that begin with these layers (without the first stage's 0); "": some cut is within a block, or
// nothing repeats.
std::string layout_of_stages(std::span<const int> first_layers, const ModelGraph& model);

}  // namespace sluice
