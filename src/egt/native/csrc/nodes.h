// The node side of a layer, a tile of rows after the other: all that a node becomes depends on its own row.
#pragma once

#include "activations.h"
#include "lanes.h"
#include "products.h"
#include "rows.h"
#include "target.h"

namespace egt::EGT_TARGET {

// The rows of a call in nearly equal tiles, as many for each thread.
struct NodeTiles {
    int64_t num_rows;
    int count, step;

    NodeTiles(int64_t num_rows, int64_t num_threads) : num_rows(num_rows) {
        constexpr int kMost = 11 * kMaxBlockRows;  // more rows would leave the L2 cache when channels are wide
        constexpr int kFewest = 2 * kMaxBlockRows;
        const int64_t needed = (num_rows + kMost - 1) / kMost;
        const int64_t even = (needed + num_threads - 1) / num_threads * num_threads;
        count = static_cast<int>(std::max<int64_t>(needed, std::min(even, num_rows / kFewest)));
        step = count > 0 ? static_cast<int>((num_rows + count - 1) / count) : 0;
    }

    // Calls body(tile, first row, rows).
    template <class Call, class Body>
    void for_each(const Call &call, Body body) const {
        for_each_part(count, static_cast<int>(call.num_threads), call.run_parallel, [&](int tile) {
            const int64_t first = std::min<int64_t>(num_rows, int64_t{tile} * step);
            const int rows = static_cast<int>(std::min<int64_t>(step, num_rows - first));
            if (rows > 0) body(tile, first, rows);
        });
    }
};

inline void norm_linear(const EgtNormLinear &call) {
    const int d = static_cast<int>(call.width), d_out = static_cast<int>(call.out_width);
    const Panels W = pack_panels(call, call.weight, d, d_out, true);
    NodeTiles(call.num_rows, call.num_threads).for_each(call, [&](int, int64_t first, int count) {
        const auto [x, gamma, beta, bias, rest] =
            take_rows<5>({{count, d}, {1, d}, {1, d}, {1, d_out}, {count, kPanelWidth}});
        read_rows(gamma, call.norm_weight), read_rows(beta, call.norm_bias), read_rows(bias, call.bias);
        read_rows(x, call.x + first * d);
        Norm{gamma, beta, static_cast<float>(call.eps)}.apply(x, x);
        multiply_out(call.y + first * d_out, bias.data, 0, given(x), W, rest);
    });
}

inline void node_update(const EgtNodeUpdate &call) {
    const int d = static_cast<int>(call.width), m = static_cast<int>(call.hidden_width);
    const int o = static_cast<int>(call.out_width);
    const Panels O = pack_panels(call, call.O_weight, o, d, true);
    const Panels W1 = pack_panels(call, call.W1_weight, d, m, true), W2 = pack_panels(call, call.W2_weight, m, d, true);
    NodeTiles(call.num_rows, call.num_threads).for_each(call, [&](int, int64_t first, int count) {
        const auto [h, update, hidden, gamma, beta, O_bias, W1_bias, W2_bias, rest] = take_rows<9>(
            {{count, d}, {count, d}, {count, m}, {1, d}, {1, d}, {1, d}, {1, m}, {1, d}, {count, kPanelWidth}});
        read_rows(gamma, call.norm_weight), read_rows(beta, call.norm_bias), read_rows(O_bias, call.O_bias);
        read_rows(W1_bias, call.W1_bias), read_rows(W2_bias, call.W2_bias);
        read_rows(h, call.h + first * d);
        const GivenRows out{call.out + first * o, count, o, o};
        if (call.D1 == nullptr) {
            add_to_rows(h, O_bias.data);
            multiply_rows(h, h.data, h.stride, out, O);
        } else {
            multiply_rows(update, O_bias.data, 0, out, O);
            add_scaled_rows(h, update, call.D1 + first * d);
        }
        if (call.h1 != nullptr) write_rows(h, call.h1 + first * d);
        Norm{gamma, beta, static_cast<float>(call.eps)}.apply(update, h);
        multiply_rows(hidden, W1_bias.data, 0, given(update), W1);
        const bool keeps = call.hidden != nullptr, values = keeps_values(call.activation);
        if (keeps && !values) write_rows(hidden, call.hidden + first * m);
        activate(call.activation, hidden.data, nullptr, hidden.stride, count, m);
        if (keeps && values) write_rows(hidden, call.hidden + first * m);
        if (call.D2 == nullptr) {
            add_to_rows(h, W2_bias.data);
            multiply_out(call.h_new + first * d, h.data, h.stride, given(hidden), W2, rest);
        } else {
            multiply_rows(update, W2_bias.data, 0, given(hidden), W2);
            add_scaled_rows(h, update, call.D2 + first * d);
            write_rows(h, call.h_new + first * d);
        }
    });
}

}  // namespace egt::EGT_TARGET
