// LSTM, one step and a whole sequence, written out over time. Gates stand side by side in torch's order i, f, g, o:
//   z = x W_ih^T + b_ih + h W_hh^T + b_hh,   i, f, o = sigmoid, g = tanh
//   c' = f c + i g,                          h' = o tanh c'
// The backward writes the gradients of z over the gates, so W needs no memory of its own.
// At padding c' is set to zero, and h' with it; nothing flows back from there.
#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// Views of the four gates of one step: [batch, 4 hidden] -> 4 x [batch, hidden].
struct Gates {
  at::Tensor i, f, g, o;
  explicit Gates(const at::Tensor& all) {
    const std::int64_t hidden = all.size(1) / 4;
    i = all.narrow(1, 0, hidden);
    f = all.narrow(1, hidden, hidden);
    g = all.narrow(1, 2 * hidden, hidden);
    o = all.narrow(1, 3 * hidden, hidden);
  }
};

void activate(const at::Tensor& z) {
  const std::int64_t hidden = z.size(1) / 4;
  z.narrow(1, 0, 2 * hidden).sigmoid_();
  z.narrow(1, 2 * hidden, hidden).tanh_();
  z.narrow(1, 3 * hidden, hidden).sigmoid_();
}

// One step back. gates: overwritten by dz. cell: c'. previous_cell: undefined for zeros. dh, dc: gradients of h' and c'
// (dc may be undefined for zero). real: 0 where the step is padding; may be undefined. Returns the gradient of c.
at::Tensor step_back(const at::Tensor& gates, const at::Tensor& cell, const at::Tensor& previous_cell,
                     const at::Tensor& dh, const at::Tensor& dc, const at::Tensor& real = {}) {
  const Gates gate(gates);
  const at::Tensor tanh_cell = cell.tanh();
  at::Tensor d_cell = at::tanh_backward(dh * gate.o, tanh_cell);
  if (dc.defined()) d_cell.add_(dc);
  if (real.defined()) d_cell.mul_(real);
  const at::Tensor d_o = at::sigmoid_backward(dh * tanh_cell, gate.o);
  const at::Tensor d_i = at::sigmoid_backward(d_cell * gate.g, gate.i);
  const at::Tensor d_g = at::tanh_backward(d_cell * gate.i, gate.g);
  at::Tensor d_previous = d_cell * gate.f;
  if (previous_cell.defined()) {
    gate.f.copy_(at::sigmoid_backward(d_cell * previous_cell, gate.f));
  } else {
    gate.f.zero_();
  }
  gate.i.copy_(d_i);
  gate.g.copy_(d_g);
  gate.o.copy_(d_o);
  return d_previous;
}

class LstmCellLayer final : public Layer {
 public:
  explicit LstmCellLayer(std::int64_t hidden) : hidden_(hidden) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor &x = in[0], &state = in[1];
    const at::Tensor bias = weights[2] + weights[3];
    at::Tensor gates = affine(x, weights[0], &bias);
    gates.addmm_(state.narrow(1, 0, hidden_), weights[1].t());
    activate(gates);
    at::Tensor y = at::empty_like(state, at::MemoryFormat::Contiguous);
    at::Tensor cell = y.narrow(1, hidden_, hidden_);
    cell.copy_(next_cell(gates, state));
    y.narrow(1, 0, hidden_).copy_(Gates(gates).o * cell.tanh());
    if (stash) stash->kept = {x, state, std::move(gates)};
    return y;
  }

  // Keeps {x, state, dz} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor &state = stash.kept[1], &gates = stash.kept[2];
    const at::Tensor d_cell = step_back(gates, next_cell(gates, state), state.narrow(1, hidden_, hidden_),
                                        dy.narrow(1, 0, hidden_), dy.narrow(1, hidden_, hidden_));
    std::vector<at::Tensor> result(2);
    if (needs_input[0]) result[0] = product(gates, weights[0]);
    if (needs_input[1]) result[1] = at::cat({product(gates, weights[1]), d_cell}, 1);
    return result;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const at::Tensor dz = stacked(stashes, 2);
    add_affine_gradients(dz, stacked(stashes, 0), gradients[0], &gradients[2]);
    add_affine_gradients(dz, stacked(stashes, 1).narrow(1, 0, hidden_), gradients[1], &gradients[3]);
    clear(stashes);
  }

 private:
  at::Tensor next_cell(const at::Tensor& gates, const at::Tensor& state) const {
    const Gates gate(gates);
    return (gate.i * gate.g).addcmul_(gate.f, state.narrow(1, hidden_, hidden_));
  }

  std::int64_t hidden_;
};

class LstmLayer final : public Layer {
 public:
  explicit LstmLayer(const Lstm& spec) : hidden_(spec.hidden), reverse_(spec.reverse) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    const std::int64_t batch = x.size(0), steps = x.size(1);
    const at::Tensor bias = weights[2] + weights[3];
    const at::Tensor real = in.size() > 1 ? real_tokens(in[1], x) : at::Tensor();
    // The input's share of all steps is one product; each step adds the state's share in place.
    at::Tensor gates = affine(as_rows(x), weights[0], &bias).view({batch, steps, 4 * hidden_});
    at::Tensor cells = at::empty({batch, steps, hidden_}, x.options());
    at::Tensor y = at::empty({batch, steps, hidden_}, x.options());
    const at::Tensor w_hh = weights[1].t();
    for (std::int64_t n = 0; n < steps; ++n) {
      const std::int64_t s = position(n, steps), before = n > 0 ? position(n - 1, steps) : -1;
      const at::Tensor z = gates.select(1, s);
      if (n > 0) z.addmm_(y.select(1, before), w_hh);
      activate(z);
      const Gates gate(z);
      at::Tensor cell = cells.select(1, s), h = y.select(1, s);
      at::mul_out(cell, gate.i, gate.g);
      if (n > 0) cell.addcmul_(gate.f, cells.select(1, before));
      if (real.defined()) cell.mul_(real.select(1, s));
      at::mul_out(h, gate.o, cell.tanh());
    }
    if (stash) {
      stash->kept = {x, std::move(gates), y, std::move(cells)};
      if (real.defined()) stash->kept.push_back(in[1]);
    }
    return y;
  }

  // Keeps {x, dz, h} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor &x = stash.kept[0], &gates = stash.kept[1], &cells = stash.kept[3];
    const at::Tensor real = stash.kept.size() > 4 ? real_tokens(stash.kept[4], x) : at::Tensor();
    const std::int64_t steps = x.size(1);
    at::Tensor d_cell, d_state;
    for (std::int64_t n = steps - 1; n >= 0; --n) {
      const std::int64_t s = position(n, steps);
      const at::Tensor z = gates.select(1, s);
      const at::Tensor previous = n > 0 ? cells.select(1, position(n - 1, steps)) : at::Tensor();
      const at::Tensor from_output = dy.select(1, s);
      d_cell = step_back(z, cells.select(1, s), previous, d_state.defined() ? d_state.add_(from_output) : from_output,
                         d_cell, real.defined() ? real.select(1, s) : at::Tensor());
      if (n > 0) d_state = product(z, weights[1]);
    }
    std::vector<at::Tensor> dx(needs_input.size());
    if (needs_input[0]) dx[0] = product(as_rows(gates), weights[0]).view(x.sizes());
    stash.kept.resize(3);
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const at::Tensor dz = stacked(stashes, 1), h = stacked(stashes, 2);
    const at::Tensor dz_rows = as_rows(dz);
    add_affine_gradients(dz_rows, as_rows(stacked(stashes, 0)), gradients[0], &gradients[2]);
    add_column_sums(dz_rows, gradients[3]);
    const std::int64_t others = dz.size(1) - 1;  // the first step has no state before it
    if (others > 0) {
      add_affine_gradients(as_rows(dz.narrow(1, reverse_ ? 0 : 1, others)),
                           as_rows(h.narrow(1, reverse_ ? 1 : 0, others)), gradients[1], nullptr);
    }
    clear(stashes);
  }

 private:
  std::int64_t position(std::int64_t n, std::int64_t steps) const { return reverse_ ? steps - 1 - n : n; }

  std::int64_t hidden_;
  bool reverse_;
};

}  // namespace

std::unique_ptr<Layer> make(const LstmCell& spec) { return std::make_unique<LstmCellLayer>(spec.hidden); }
std::unique_ptr<Layer> make(const Lstm& spec) { return std::make_unique<LstmLayer>(spec); }

}  // namespace sluice
