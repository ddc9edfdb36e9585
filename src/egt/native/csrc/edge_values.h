// Edge values: what the heads gather of the normalized edges themselves. The caller maps it to values.
#pragma once

#include "attention.h"
#include "lanes.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// The normalized edges of a row, from the first channel that a head reads.
EGT_INLINE const float *read_by(const Workspace &work, const Tile &tile, int head, int row) {
    const Plan &plan = work.plan;
    return work.normalized + head * plan.value_step * plan.tile_stride + tile.rows[row].start;
}

// For the rows of a head: sum_j A~_ij x_ij[c] for the channels that it reads, then sum_j A~_ij, each times the scale.
inline void gather_edges(const Workspace &work, const Tile &tile, int head, float *out) {
    const Plan &plan = work.plan;
    for (int row = 0; row < tile.num_rows; ++row) {
        float *to = out + (tile.first_node + tile.first_row + row) * plan.out_width + plan.gathered_at(head);
        const TileRow &place = tile.rows[row];
        const float *weights = work.weights + place.lanes;
        const float factor = work.rows[row].inverse_sum * work.rows[row].scale;
        aggregate(to, factor, weights, read_by(work, tile, head, row), plan.tile_stride, plan.value_width, place.count);
        Lanes sum = {};
        for (int j = 0; j < place.count; j += kLanes) sum += load(weights + j);
        to[plan.value_width] = sum_of(sum) * factor;
    }
}

// product += <d_gathered, [x_ij, 1]>, the gradient of A~ through the edges that a head gathered.
template <int Vectors>
EGT_INLINE void add_gathered_block(Lanes (&product)[Vectors], const float *d_gathered, const float *edges,
                                   const Plan &plan) {
    Lanes more[Vectors];
    dot_block<Vectors>(more, d_gathered, edges, plan.tile_stride, plan.value_width);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) product[v] += more[v] + d_gathered[plan.value_width];
}

// The gradient of `Channels` channels of the edges to `Vectors` times eight keys: sum over heads of A~ d_gathered.
template <int Channels, int Vectors>
EGT_INLINE void edge_gradient_block(float *to, const float *attention, const float *d_gathered, int d_stride,
                                    int num_heads, int stride) {
    Lanes sum[Channels][Vectors] = {};
    for (int head = 0; head < num_heads; ++head) {
        Lanes a[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) a[v] = load(attention + head * stride + v * kLanes);
#pragma GCC unroll 2
        for (int c = 0; c < Channels; ++c) {
            const Lanes d = splat(d_gathered[head * d_stride + c]);
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) sum[c][v] += a[v] * d;
        }
    }
#pragma GCC unroll 2
    for (int c = 0; c < Channels; ++c)
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) store(to + c * stride + v * kLanes, sum[c][v]);
}

// The gradient of the normalized edges (in d_read), from the attention of all heads. Heads with channels of their own are
// taken one after the other, others all at once.
inline void gather_edges_backward(Workspace &work, const Tile &tile, const float *d_out) {
    const Plan &plan = work.plan;
    const int stride = plan.tile_stride;
    const int at_once = plan.value_step > 0 ? 1 : plan.num_heads;
    for (int row = 0; row < tile.num_rows; ++row) {
        const TileRow &place = tile.rows[row];
        const float *d_row = d_out + (tile.first_node + tile.first_row + row) * plan.out_width;
        for (int head = 0; head < plan.num_heads; head += at_once) {
            const float *attention = work.attention + head * stride + place.start;
            const float *d_head = d_row + plan.gathered_at(head);
            float *to = work.d_read + head * plan.value_step * stride + place.start;
            for (int c = 0; c < plan.value_width; c += 2)
                with_constant<2>(std::min(2, plan.value_width - c), [&](auto Channels) EGT_LAMBDA_INLINE {
                    for_each_block(place.count, [&](int j, auto Vectors) EGT_LAMBDA_INLINE {
                        edge_gradient_block<Channels, Vectors>(to + c * stride + j, attention + j, d_head + c,
                                                               plan.value_width + 1, at_once, stride);
                    });
                });
        }
    }
    clear_beyond(work.d_read, plan.edge_width, plan, tile);
}

}  // namespace egt::EGT_TARGET
