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
    return work.normalized + head * plan.value_step * plan.tile_stride + row * tile.num_nodes;
}

// For the rows of a head: sum_j A~_ij x_ij[c] for the channels that it reads, then sum_j A~_ij, each times the scale.
inline void gather_edges(const Workspace &work, const Tile &tile, int head, float *out) {
    const Plan &plan = work.plan;
    for (int row = 0; row < tile.num_rows; ++row) {
        float *to = out + (tile.first_node + tile.first_row + row) * plan.out_width + plan.gathered_at(head);
        const float *weights = work.weights + row * tile.row_stride;
        const float factor = work.rows[row].inverse_sum * work.rows[row].scale;
        aggregate(to, factor, weights, read_by(work, tile, head, row), plan.tile_stride, plan.value_width,
                  tile.num_nodes);
        Lanes sum = {};
        for (int j = 0; j < tile.num_nodes; j += kLanes) sum += load(weights + j);
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

// The gradient of the normalized edges: for each channel the sum over the heads that read it of A~_ij d_gathered_i.
inline void gather_edges_backward(Workspace &work, const Tile &tile, const float *d_out) {
    const Plan &plan = work.plan;
    const int n = tile.num_nodes, stride = plan.tile_stride, step = plan.value_step;
    for (int row = 0; row < tile.num_rows; ++row) {
        const float *d_row = d_out + (tile.first_node + tile.first_row + row) * plan.out_width;
        for (int c = 0; c < plan.edge_width; ++c) {
            const int first = step > 0 ? c / step : 0, last = step > 0 ? first + 1 : plan.num_heads;
            for (int j = 0; j < n; j += kLanes) {
                Lanes sum = {};
                for (int head = first; head < last; ++head)
                    sum += load(work.attention + head * stride + row * n + j) *
                           d_row[plan.gathered_at(head) + c - head * step];
                store(work.d_read + c * stride + row * n + j, sum);
            }
        }
    }
    clear_beyond(work.d_read, plan.edge_width, plan, tile);
}

}  // namespace egt::EGT_TARGET
