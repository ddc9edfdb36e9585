// What the heads gather for the rows of a tile: values, and edges where there are edge values.
#pragma once

#include "attention.h"
#include "edge_values.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

template <bool Gated, bool Noisy>
inline void attend_tile(Workspace &work, const Tile &tile, float *out) {
    const Plan &plan = work.plan;
    for (int head = 0; head < plan.num_heads; ++head) {
        const float *values = work.values + head * plan.head_width * plan.key_stride;
        attend_head<Gated, Noisy>(work, tile, head);
        for (int row = 0; row < tile.num_rows; ++row) {
            float *to = out + (tile.first_node + tile.first_row + row) * plan.out_width + head * plan.head_width;
            const TileRow &place = tile.rows[row];
            aggregate(to, work.rows[row].inverse_sum * work.rows[row].scale, work.weights + place.lanes,
                      values + place.keys, plan.key_stride, plan.head_width, place.count);
        }
        if (plan.value_width > 0) gather_edges(work, tile, head, out);
    }
}

inline void attend(Workspace &work, const Tile &tile, float *out) {
    const Plan &plan = work.plan;
    if (plan.noisy) prepare_noise(work, tile);
    if (plan.gated)
        plan.noisy ? attend_tile<true, true>(work, tile, out) : attend_tile<true, false>(work, tile, out);
    else
        plan.noisy ? attend_tile<false, true>(work, tile, out) : attend_tile<false, false>(work, tile, out);
}

}  // namespace egt::EGT_TARGET
