// The outer sum: A h_i + B h_j as part of the update of the edge channel. A h and B h lie behind Q|K|V of a node.
#pragma once

#include "lanes.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// Calls body(row, channel, place among the keys, place in the tile, lanes in the row) for the vectors of the edges of a tile.
template <class Body>
EGT_INLINE void for_each_vector(const Plan &plan, const Tile &tile, Body body) {
    for (int row = 0; row < tile.num_rows; ++row)
        for (int c = 0; c < plan.edge_width; ++c)
            for (int j = 0; j < tile.rows[row].count; j += kLanes)
                body(row, c, c * plan.key_stride + tile.rows[row].keys + j,
                     c * plan.tile_stride + tile.rows[row].start + j, tile.rows[row].count - j);
}

// e += dropout(A h_i + B h_j); `dropout` is that of the pairs of the tile.
template <class Dropout>
inline void add_outer_sum(Workspace &work, const Tile &tile, const Dropout &dropout) {
    const Plan &plan = work.plan;
    for_each_vector(plan, tile, [&](int row, int c, int key, int at, int lanes) EGT_LAMBDA_INLINE {
        const Lanes sum = load(work.ends + key) + tile.qkv_row(plan, row)[plan.ends_at + c];
        const Lanes added = dropout.acts() ? dropout(sum, c, at - c * plan.tile_stride) : sum;
        store_first(work.edges + at, lanes, load(work.edges + at) + added);
    });
}

// From the gradient of e1 (in d_edges) to those of A h_i (written to d_qkv) and B h_j (added to those of the graph, or one of
// each listed pair).
template <class Dropout>
inline void outer_sum_backward(Workspace &work, const Tile &tile, const Dropout &dropout, float *d_qkv) {
    const Plan &plan = work.plan;
    float *first = d_qkv + (tile.first_node + tile.first_row) * plan.qkv_width + plan.ends_at;
    for (int row = 0; row < tile.num_rows; ++row)
        std::fill_n(first + row * int64_t{plan.qkv_width}, plan.edge_width, 0.0f);
    for_each_vector(plan, tile, [&](int row, int c, int key, int at, int lanes) EGT_LAMBDA_INLINE {
        Lanes d = load(work.d_edges + at);
        if (dropout.acts()) d = dropout(d, c, at - c * plan.tile_stride);
        d = keep_where(first_lanes(lanes), d);
        first[row * int64_t{plan.qkv_width} + c] += sum_of(d);
        store(work.d_ends + key, plan.listed ? d : load(work.d_ends + key) + d);
    });
}

}  // namespace egt::EGT_TARGET
