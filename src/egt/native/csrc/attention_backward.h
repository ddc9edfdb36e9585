// Gradients of logits, softmax, gates and aggregation of a tile; everything else is computed again on the way.
#pragma once

#include "attention.h"
#include "edge_values.h"
#include "gemm.h"
#include "lanes.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// m[c, j] += sum over `Rows` rows of x[row, j] q[row, c] for all channels of a head.
template <int Rows>
EGT_INLINE void add_outer(float *m, int stride, int channels, int n, const float *const *q, const float *x) {
    for (int c = 0; c < channels; c += 2) {
        // The last of an odd number of channels is added once only: its twin gets zeros.
        const bool two = c + 1 < channels;
        Lanes q0[Rows], q1[Rows];
#pragma GCC unroll 4
        for (int row = 0; row < Rows; ++row) {
            q0[row] = splat(q[row][c]);
            q1[row] = two ? splat(q[row][c + 1]) : Lanes{};
        }
        float *m0 = m + c * stride, *m1 = m + (two ? c + 1 : c) * stride;
        for (int j = 0; j < n; j += kLanes) {
            Lanes sum0 = {}, sum1 = {};
#pragma GCC unroll 4
            for (int row = 0; row < Rows; ++row) {
                const Lanes lanes = load(x + row * n + j);
                sum0 += q0[row] * lanes;
                sum1 += q1[row] * lanes;
            }
            store(m0 + j, load(m0 + j) + sum0);
            store(m1 + j, load(m1 + j) + sum1);
        }
    }
}

// m[c, k] = x[k] q[row, c] for the pairs k of all rows.
inline void set_outer_rows(float *m, int stride, int channels, const Tile &tile, const float *q, int64_t q_stride,
                           const float *x) {
    for (int row = 0; row < tile.num_rows; ++row) {
        const TileRow &place = tile.rows[row];
        for (int k = 0; k < place.count; k += kLanes) {
            const Lanes lanes = load(x + place.start + k);
            for (int c = 0; c < channels; ++c) store(m + c * stride + place.start + k, lanes * q[row * q_stride + c]);
        }
    }
}

// The gradient of the keys of a tile by that of their products with the rows q, x: summed over the rows of all pairs, or
// one of each listed pair. Row r of the factors is q + r * q_stride.
inline void add_outer_rows(const Plan &plan, float *m, const Tile &tile, const float *q, int64_t q_stride,
                           const float *x) {
    const int stride = plan.key_stride, channels = plan.head_width;
    if (plan.listed) return set_outer_rows(m, stride, channels, tile, q, q_stride, x);
    for (int row = 0; row < tile.num_rows; row += 4) {
        with_constant<4>(std::min(4, tile.num_rows - row), [&](auto Rows) EGT_LAMBDA_INLINE {
            const float *factors[Rows];
            for (int k = 0; k < Rows; ++k) factors[k] = q + (row + k) * q_stride;
            add_outer<Rows>(m, stride, channels, tile.rows[row].count, factors, x + tile.rows[row].start);
        });
    }
}

// One head: adds the attention's part to d_H_hat (in d_EG's first half), writes dG, and the attention weights A~ times
// the row's scale, which the gradient of V needs. Row r of the gradients of the output is d_out + r * out_width.
template <bool Gated, bool Noisy>
EGT_INLINE void attend_head_backward(Workspace &work, const Tile &tile, int head, const float *d_out) {
    const Plan &plan = work.plan;
    const int in_head = head * plan.tile_stride;
    attend_head<Gated, Noisy>(work, tile, head);
    // With a_j = A~_j <d_out, V_j>: dS_j S_j = scale a_j, and the gradient of the scale is sum_j a_j.
    for (int row = 0; row < tile.num_rows; ++row) {
        RowStatistics &statistics = work.rows[row];
        const TileRow &place = tile.rows[row];
        const float *values = work.values + head * plan.head_width * plan.key_stride + place.keys;
        float *weights = work.weights + place.lanes, *attention = work.attention + in_head + place.start;
        Lanes sum = {};
        for_each_block(place.count, [&](int first, auto Vectors) EGT_LAMBDA_INLINE {
            Lanes product[Vectors];
            const float *d_row = d_out + int64_t{row} * plan.out_width;
            dot_block<Vectors>(product, d_row + head * plan.head_width, values + first, plan.key_stride,
                               plan.head_width);
            if (plan.value_width > 0)
                add_gathered_block<Vectors>(product, d_row + plan.gathered_at(head),
                                            read_by(work, tile, head, row) + first, plan);
            for (int v = 0; v < Vectors; ++v) {
                const int j = first + v * kLanes;
                const Lanes normalized = load(weights + j) * statistics.inverse_sum;
                const Lanes a = normalized * product[v];
                sum += a;
                store(attention + j, normalized * statistics.scale);
                store(weights + j, a);
            }
        });
        statistics.total = sum_of(sum);
    }
    for (int row = 0; row < tile.num_rows; ++row) {
        const RowStatistics &statistics = work.rows[row];
        const int at = in_head + tile.rows[row].start, in_rows = tile.rows[row].lanes;
        const float softmax_shift = statistics.scale * statistics.total * statistics.inverse_sum;
        const float gate_shift = statistics.scaled ? statistics.total / (1.0f + statistics.gate_sum) : 0.0f;
        float *dE = work.d_EG + at, *dG = work.d_EG + plan.num_heads * plan.tile_stride + at;
        for (int j = 0; j < tile.rows[row].count; j += kLanes) {
            const Lanes a = load(work.weights + in_rows + j) * statistics.scale;
            const Lanes exponentials = load(work.exponentials + in_rows + j);
            store(dE + j, a - exponentials * softmax_shift + load(work.d_H_hat + at + j));
            if (Gated) {
                const Lanes gates = load(work.gates + in_rows + j);
                Lanes shift = splat(gate_shift * statistics.others);
                if (Noisy && statistics.others != 1.0f) shift = own_pair(work, tile, row, j) ? splat(gate_shift) : shift;
                store(dG + j, (a + gates * shift) * (1.0f - gates));
            }
        }
    }
}

template <bool Gated, bool Noisy>
inline void attend_tile_backward(Workspace &work, const Tile &tile, const float *d_out) {
    const Plan &plan = work.plan;
    const int d_k = plan.head_width;
    const float *first_d_out = d_out + (tile.first_node + tile.first_row) * plan.out_width;
    for (int head = 0; head < plan.num_heads; ++head) {
        attend_head_backward<Gated, Noisy>(work, tile, head, first_d_out);
        add_outer_rows(plan, work.d_values + head * d_k * plan.key_stride, tile, first_d_out + head * d_k,
                       plan.out_width, work.attention + head * plan.tile_stride);
    }
    if (plan.value_width > 0) gather_edges_backward(work, tile, d_out);
}

// From d_EG's first half (the whole gradient of H_hat) to the gradients of Q and K.
inline void logits_backward(Workspace &work, const Tile &tile, float *d_qkv) {
    const Plan &plan = work.plan;
    const int d_k = plan.head_width;
    for (int head = 0; head < plan.num_heads; ++head) {
        const int at = head * plan.tile_stride, channel = head * d_k;
        for (int pair = 0; pair < tile.width; pair += kLanes)
            store(work.d_logit + at + pair, load(work.d_EG + at + pair) * load(work.logit_slope + at + pair));
        clear_beyond(work.d_logit + at, 1, plan, tile);
        for (int row = 0; row < tile.num_rows; ++row) {
            float *to = d_qkv + (tile.first_node + tile.first_row + row) * plan.qkv_width + channel;
            const TileRow &place = tile.rows[row];
            aggregate(to, 1.0f, work.d_logit + at + place.start, work.keys + channel * plan.key_stride + place.keys,
                      plan.key_stride, d_k, place.count);
        }
        add_outer_rows(plan, work.d_keys + channel * plan.key_stride, tile, tile.qkv_row(plan, 0) + channel,
                       plan.qkv_width, work.d_logit + at);
    }
}

// Gradients of Q (written to d_qkv), K and V (added to the buffers of the graph) and of E and G (left in d_EG).
inline void attend_backward(Workspace &work, const Tile &tile, const float *d_out, float *d_qkv) {
    const Plan &plan = work.plan;
    if (plan.attends) {
        if (plan.noisy) prepare_noise(work, tile);
        if (plan.gated)
            plan.noisy ? attend_tile_backward<true, true>(work, tile, d_out)
                       : attend_tile_backward<true, false>(work, tile, d_out);
        else
            plan.noisy ? attend_tile_backward<false, true>(work, tile, d_out)
                       : attend_tile_backward<false, false>(work, tile, d_out);
    } else {
        std::copy(work.d_H_hat, work.d_H_hat + plan.num_heads * plan.tile_stride, work.d_EG);
    }
    clear_beyond(work.d_EG, plan.EG.rows, plan, tile);
    logits_backward(work, tile, d_qkv);
}

}  // namespace egt::EGT_TARGET
