// Gradients of the node side: those of the rows tile by tile, then those of the weights, which sum over all rows.
#pragma once

#include "activations.h"
#include "gemm.h"
#include "lanes.h"
#include "nodes.h"
#include "products.h"
#include "rows.h"
#include "target.h"

namespace egt::EGT_TARGET {

// dW = dy^T x and db for a map y = W x + b of all rows, with x in panels; W is (rows, cols).
struct WeightGradient {
    const float *dy;
    const Panels &x;
    int rows;
    float *dW, *db;

    // The rows [first, first + count) of both.
    void compute(int first, int count) const {
        constexpr int kSome = 256;  // nodes at a time: a panel of them stays in the L1 cache
        const auto [sums, dy_columns] = take_rows<2>({{count, x.width}, {count, kSome}});
        const int stride = static_cast<int>(dy_columns.stride);
        std::fill_n(sums.data, count * sums.stride, 0.0f);
        std::fill_n(db + first, count, 0.0f);
        for (int node = 0; node < x.depth; node += kSome) {
            const int depth = std::min(kSome, x.depth - node);
            load_channels(dy + int64_t{node} * rows + first, rows, depth, count, dy_columns.data, stride);
            add_bias_gradient(db + first, count, dy_columns.data, stride, round_up(depth, kLanes));
            for (int index = 0; index < x.count; ++index) {
                float *to = sums.data + index * kPanelWidth;
                const float *panel = x.panel(index) + size_t(node) * kPanelWidth;
                multiply_panel(to, sums.stride, to, sums.stride, given(dy_columns), panel, depth);
            }
        }
        write_rows(sums, dW + int64_t{first} * x.width);
    }
};

// All of them, in parts that no two threads share.
template <class Call, size_t N>
void compute_gradients(const Call &call, const WeightGradient (&gradients)[N]) {
    constexpr int kFewest = 4 * kMaxBlockRows, kMost = 16 * kMaxBlockRows;
    struct Part {
        const WeightGradient &gradient;
        int first, count;
    };
    int64_t total = 0;
    for (const WeightGradient &gradient : gradients) total += gradient.rows;
    const int step = std::clamp(round_up(total / (4 * call.num_threads), kMaxBlockRows), kFewest, kMost);
    std::vector<Part> parts;
    for (const WeightGradient &gradient : gradients)
        for (int first = 0; first < gradient.rows; first += step)
            parts.push_back({gradient, first, std::min(step, gradient.rows - first)});
    for_each_part(static_cast<int>(parts.size()), static_cast<int>(call.num_threads), call.run_parallel,
                  [&](int part) { parts[part].gradient.compute(parts[part].first, parts[part].count); });
}

// Sums of the tiles for the affine part of a norm, added up in their order.
struct NormSums {
    int width, stride;
    std::vector<float> weight, bias;

    NormSums(int width, int num_tiles)
        : width(width), stride(round_up(width, kLanes)), weight(size_t(num_tiles) * stride), bias(weight.size()) {}
    void write(float *d_weight, float *d_bias) const {
        std::fill_n(d_weight, width, 0.0f);
        std::fill_n(d_bias, width, 0.0f);
        for (size_t tile = 0; tile < weight.size(); tile += stride)
            for (int c = 0; c < width; ++c) d_weight[c] += weight[tile + c], d_bias[c] += bias[tile + c];
    }
};

inline void norm_linear_backward(const EgtNormLinear &call, const EgtNormLinearGradients &gradients) {
    const int d = static_cast<int>(call.width), d_out = static_cast<int>(call.out_width);
    const Panels W = pack_panels(call, call.weight, d_out, d, false);
    const Panels normalized(static_cast<int>(call.num_rows), d);
    const NodeTiles tiles(call.num_rows, call.num_threads);
    NormSums sums(d, tiles.count);
    tiles.for_each(call, [&](int tile, int64_t first, int count) {
        const auto [x, d_x, gamma, beta, zeros] = take_rows<5>({{count, d}, {count, d}, {1, d}, {1, d}, {1, d}});
        read_rows(gamma, call.norm_weight), read_rows(beta, call.norm_bias);
        read_rows(x, call.x + first * d);
        std::fill_n(zeros.data, zeros.stride, 0.0f);
        multiply_rows(d_x, zeros.data, 0, {gradients.d_y + first * d_out, count, d_out, d_out}, W);
        Norm{gamma, beta, static_cast<float>(call.eps)}.apply_backward(
            x, d_x, sums.weight.data() + size_t(tile) * sums.stride, sums.bias.data() + size_t(tile) * sums.stride);
        write_panels(x, normalized, first);
        write_rows(d_x, gradients.d_x + first * d);
    });
    sums.write(gradients.d_norm_weight, gradients.d_norm_bias);
    compute_gradients(call, {{gradients.d_y, normalized, d_out, gradients.d_weight, gradients.d_bias}});
}

// x * factors for so many floats.
inline void scale(float *to, const float *x, const float *factors, int64_t count) {
    for (int64_t k = 0; k < count; ++k) to[k] = x[k] * factors[k];
}

inline void node_update_backward(const EgtNodeUpdate &call, const EgtNodeUpdateGradients &gradients) {
    const int d = static_cast<int>(call.width), m = static_cast<int>(call.hidden_width);
    const int o = static_cast<int>(call.out_width);
    const Panels O = pack_panels(call, call.O_weight, d, o, false);
    const Panels W1 = pack_panels(call, call.W1_weight, m, d, false);
    const Panels W2 = pack_panels(call, call.W2_weight, d, m, false);
    const int num_rows = static_cast<int>(call.num_rows);
    const Panels out = pack_panels(call, call.out, num_rows, o, false), normalized(num_rows, d);
    const bool values = keeps_values(call.activation);
    const Panels a = values ? pack_panels(call, call.hidden, num_rows, m, false) : Panels(num_rows, m);
    const std::unique_ptr<float[]> d_hidden(new float[call.num_rows * m]);
    // Gradients of the two maps behind the residual sums; without dropout they are those of the sums.
    const std::unique_ptr<float[]> dropped_update(call.D1 != nullptr ? new float[call.num_rows * d] : nullptr);
    const std::unique_ptr<float[]> dropped_ffn(call.D2 != nullptr ? new float[call.num_rows * d] : nullptr);
    const float *d_update = call.D1 != nullptr ? dropped_update.get() : gradients.d_h;
    const float *d_ffn = call.D2 != nullptr ? dropped_ffn.get() : gradients.d_h_new;
    const NodeTiles tiles(call.num_rows, call.num_threads);
    NormSums sums(d, tiles.count);
    tiles.for_each(call, [&](int tile, int64_t first, int count) {
        const auto [h1, d_h1, d_a, hidden, slopes, gamma, beta, zeros, rest] =
            take_rows<9>({{count, d}, {count, d}, {count, m}, {count, m}, {values ? 0 : count, m}, {1, d}, {1, d},
                          {1, std::max({d, m, o})}, {count, kPanelWidth}});
        read_rows(gamma, call.norm_weight), read_rows(beta, call.norm_bias);
        std::fill_n(zeros.data, zeros.stride, 0.0f);
        const int64_t from = first * d, floats = int64_t{count} * d;
        if (call.D2 != nullptr) scale(dropped_ffn.get() + from, gradients.d_h_new + from, call.D2 + from, floats);
        multiply_rows(d_a, zeros.data, 0, {d_ffn + from, count, d, d}, W2);
        read_rows(hidden, call.hidden + first * m);
        if (values) {
            for (int row = 0; row < count; ++row)
                for (int c = 0; c < m; c += kLanes)
                    store(d_a[row] + c, Elu::times_slope(load(d_a[row] + c), load(hidden[row] + c)));
        } else {
            activate(call.activation, hidden.data, slopes.data, hidden.stride, count, m);
            write_panels(hidden, a, first);
            for (int row = 0; row < count; ++row)
                for (int c = 0; c < m; c += kLanes)
                    store(d_a[row] + c, load(d_a[row] + c) * load(slopes[row] + c));
        }
        write_rows(d_a, d_hidden.get() + first * m);

        read_rows(h1, call.h1 + from);
        multiply_rows(d_h1, zeros.data, 0, given(d_a), W1);
        Norm{gamma, beta, static_cast<float>(call.eps)}.apply_backward(
            h1, d_h1, sums.weight.data() + size_t(tile) * sums.stride, sums.bias.data() + size_t(tile) * sums.stride);
        write_panels(h1, normalized, first);
        for (int row = 0; row < count; ++row)
            for (int c = 0; c < d; ++c) d_h1[row][c] += gradients.d_h_new[from + int64_t{row} * d + c];
        write_rows(d_h1, gradients.d_h + from);
        if (call.D1 != nullptr) scale(dropped_update.get() + from, gradients.d_h + from, call.D1 + from, floats);
        multiply_out(gradients.d_out + first * o, zeros.data, 0, {d_update + from, count, d, d}, O, rest);
    });
    sums.write(gradients.d_norm_weight, gradients.d_norm_bias);
    compute_gradients(call, {{d_update, out, d, gradients.d_O_weight, gradients.d_O_bias},
                             {d_hidden.get(), normalized, m, gradients.d_W1_weight, gradients.d_W1_bias},
                             {d_ffn, a, d, gradients.d_W2_weight, gradients.d_W2_bias}});
}

}  // namespace egt::EGT_TARGET
