// Counter-based randomness: the same numbers as egt.nn.randomness. What is drawn for a pair (i, j) and a head or channel t
// depends on the keys of its graph, i, j and t alone.
#pragma once

#include "lanes.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// The 32-bit mixing, on scalars and on lanes.
template <class Bits>
EGT_INLINE Bits mix(Bits x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

// The part of the random bits of each pair of a tile that its heads or channels share.
inline void hash_pairs(const Workspace &work, float *hash, const int64_t *keys, const Tile &tile) {
    const uint32_t k0 = static_cast<uint32_t>(keys[2 * tile.graph]);
    const uint32_t k1 = static_cast<uint32_t>(keys[2 * tile.graph + 1]);
    for (int row = 0; row < tile.num_rows; ++row) {
        const uint32_t i = tile.first_row + row, of_row = mix<uint32_t>(k0 ^ (i * 0x9E3779B1u));
        const TileRow &place = tile.rows[row];
        for (int k = 0; k < place.count; k += kLanes) {
            const BitLanes column = columns_of(work, place, k) * 0x85EBCA77u;
            store_bits(hash + place.start + k, mix<BitLanes>(column ^ of_row) ^ k1);
        }
    }
}

// The part of the random bits of a node i that its channels share: that of the pair (i, 0).
EGT_INLINE uint32_t hash_node(uint32_t k0, uint32_t k1, uint32_t i) {
    return mix<uint32_t>(mix<uint32_t>(k0 ^ (i * 0x9E3779B1u))) ^ k1;
}

// What is drawn for a node i as such, or for a graph (i = 0): the bits of the pair (i, 0) and t = 0.
EGT_INLINE uint32_t bits_of(const int64_t *keys, int64_t graph, uint32_t i) {
    const uint32_t k0 = static_cast<uint32_t>(keys[2 * graph]), k1 = static_cast<uint32_t>(keys[2 * graph + 1]);
    return mix<uint32_t>(hash_node(k0, k1, i));
}

// Draws the keys of a graph that others may attend.
inline void draw_keys(Workspace &work, int64_t graph) {
    const EgtPairPass &pass = work.plan.pass;
    if (pass.key_dropout_threshold == 0) return;
    const int n = work.plan.size(graph);
    for (int first = 0; first < n; first += kLanes) {
        BitLanes keep = {};
        for (int lane = 0; lane < kLanes && first + lane < n; ++lane)
            keep[lane] = bits_of(pass.key_dropout_keys, graph, first + lane) < pass.key_dropout_threshold ? 0 : ~0u;
        store_bits(work.kept_keys + first, keep);
    }
}

// Which of the columns of eight pairs of a row may be attended.
EGT_INLINE IntLanes kept_columns(const Workspace &work, const TileRow &row, int k) {
    if (!work.plan.listed) return (IntLanes)load_bits(work.kept_keys + k);
    const BitLanes columns = columns_of(work, row, k);
    IntLanes keep = {};
    for (int lane = 0; lane < kLanes && k + lane < row.count; ++lane) {
        int32_t bits;
        __builtin_memcpy(&bits, work.kept_keys + columns[lane], sizeof bits);
        keep[lane] = bits;
    }
    return keep;
}

// The factor of a branch of a graph: 0 where the graph skips it.
inline float path_factor(const int64_t *keys, int64_t threshold, double scale, int64_t graph) {
    if (threshold == 0) return 1.0f;
    return bits_of(keys, graph, 0) < threshold ? 0.0f : static_cast<float>(scale);
}

// True where the random bits of a head or channel say "keep".
EGT_INLINE IntLanes kept(const float *hash, int channel, int64_t threshold) {
    const BitLanes bits = mix<BitLanes>(load_bits(hash) ^ (static_cast<uint32_t>(channel) * 0xC2B2AE3Du));
    return (IntLanes)(bits >= static_cast<uint32_t>(threshold));
}

}  // namespace egt::EGT_TARGET
