// The factors of dropout of the node channel, drawn from the same numbers as egt.nn.randomness.
#pragma once

#include "nodes.h"
#include "randomness.h"
#include "target.h"

namespace egt::EGT_TARGET {

// The factors of node i of a graph: the random bits of the pair (i, 0) and of each channel t.
inline void draw_row(const EgtNodeFactors &call, int64_t graph, uint32_t i, float *factors) {
    const uint32_t k0 = mix<uint32_t>(static_cast<uint32_t>(call.keys[2 * graph] ^ call.salt0));
    const uint32_t k1 = mix<uint32_t>(static_cast<uint32_t>(call.keys[2 * graph + 1] ^ call.salt1));
    const uint32_t of_row = hash_node(k0, k1, i);
    const uint32_t threshold = static_cast<uint32_t>(call.threshold);
    const float factor = static_cast<float>(call.factor);
    for (int64_t t = 0; t < call.width; ++t) {
        const uint32_t bits = mix<uint32_t>(of_row ^ (static_cast<uint32_t>(t) * 0xC2B2AE3Du));
        factors[t] = bits < threshold ? 0.0f : factor;
    }
}

inline void node_factors(const EgtNodeFactors &call) {
    NodeTiles(call.num_rows, call.num_threads).for_each(call, [&](int, int64_t first, int count) {
        int64_t graph = 0, start = 0;
        for (int64_t row = first; row < first + count; ++row) {
            while (row - start >= call.sizes[graph]) start += call.sizes[graph++];
            draw_row(call, graph, static_cast<uint32_t>(row - start), call.factors + row * call.width);
        }
    });
}

}  // namespace egt::EGT_TARGET
