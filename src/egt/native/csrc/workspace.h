// One thread's work on a part: its buffers, its current graph, and its current tile of query rows.
#pragma once

#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// A query row of a tile.
struct TileRow {
    int start, count;  // its pairs, in the buffers of the tile
    int lanes;         // its first pair in the row buffers, where each row has whole vectors of its own
    int keys;          // its first key, in the buffers of keys: all rows have those of the graph, or each row its own
};

// A run of complete query rows of one graph. Its pairs are consecutive.
struct Tile {
    int first_row, num_rows;
    int count, width;  // pairs, and pairs rounded up to whole vectors
    int64_t graph, first_node, first_pair;  // first_node: of the graph; first_pair: of the tile
    TileRow rows[Plan::kMostTileRows];

    const float *qkv_row(const Plan &plan, int row) const {
        return plan.pass.qkv + (first_node + first_row + row) * plan.qkv_width;
    }
};

// What the attention of one row and head needs besides its vectors.
struct RowStatistics {
    float top;          // the highest logit
    float inverse_sum;  // 1 / sum of the exponentials; 0 if there is nothing to attend
    float gate_sum;     // sum of the gates, those of other nodes `others` times each
    float others;       // 1 / (1 - p) with key dropout, else 1
    float scale;        // ln(1 + gate_sum) with centrality, else 1
    float total;        // backward: the gradient of the scale
    bool scaled;
};

// All buffers are channel-major. Lanes beyond the pairs of a tile hold finite numbers in activations and zeros in
// gradients, so that sums over whole vectors are right. A row is written left to right in whole vectors: what spills
// over its end is overwritten by the row after it.
//
// Keys are those of the graph, or those of the pairs of the tile where these are a list: then d_keys, d_values and d_ends
// take the places of what they are the gradients of.
struct Workspace {
    const Plan &plan;
    // of the current graph, or the current tile of a list: keys and values, and their gradients
    float *keys, *values, *d_keys, *d_values;
    float *ends, *d_ends;        // B h of the outer sum, and its gradient
    float *kept_keys;            // bits of the nodes of the graph: whom others may attend
    float *columns;              // bits of the pairs of the current tile of a list: j
    float edge_path, ffn_path;  // factors of the two branches of the edge channel
    // of the current tile
    float *edges, *EG, *H_hat, *open, *mask_hash, *dropout_hash, *edge_dropout_hash, *ffn_dropout_hash;
    float *d_read;  // gradient of `normalized` through edge values
    float *normalized, *inverse_std, *d_edges, *d_H_hat, *d_EG, *logit_slope, *d_logit, *attention;
    // of the current chunk of a tile
    float *edges_normalized, *edges_inverse_std, *hidden, *d_hidden, *d_normalized;
    float *by_pair;  // pair-major: pair_stride floats per pair
    // of the rows of the current head, each row in whole vectors of its own
    float *exponentials, *gates, *weights;
    RowStatistics rows[Plan::kMostTileRows];

    // Sizes are counted and pieces are handed out by the same list.
    template <class Take>
    void lay_out(Take take, bool backward) {
        const size_t d = plan.node_width, d_e = plan.edge_width, H = plan.num_heads, m = plan.hidden_width;
        const size_t tile = plan.tile_stride, chunk = plan.chunk_stride, key = plan.key_stride;
        const size_t values_rows = plan.attends ? d : 0;
        take(keys, d * key);
        take(values, values_rows * key);
        take(ends, plan.outer_sum() ? d_e * key : 0);
        take(kept_keys, plan.pass.key_dropout_threshold > 0 ? plan.max_nodes + kLanes : 0);
        take(columns, plan.listed ? tile : 0);
        take(EG, 2 * H * tile);
        take(H_hat, H * tile);
        take(open, tile);
        take(mask_hash, tile);
        take(dropout_hash, tile);
        take(edge_dropout_hash, plan.pass.edge_dropout_threshold > 0 ? tile : 0);
        take(ffn_dropout_hash, plan.pass.ffn_dropout_threshold > 0 ? tile : 0);
        take(inverse_std, tile);
        take(edges, d_e * tile);
        take(edges_normalized, d_e * chunk);
        take(edges_inverse_std, chunk);
        take(hidden, plan.updates ? m * chunk : 0);
        take(exponentials, 2 * tile);  // see for_each_tile
        take(gates, 2 * tile);
        take(weights, 2 * tile);
        take(normalized, backward || plan.value_width > 0 ? d_e * tile : 0);
        if (!backward) return;
        take(d_read, plan.value_width > 0 ? d_e * tile : 0);
        take(d_keys, plan.listed ? 0 : d * key);
        take(d_values, plan.listed ? 0 : values_rows * key);
        take(d_ends, plan.outer_sum() && !plan.listed ? d_e * key : 0);
        take(d_edges, d_e * tile);
        take(d_H_hat, H * tile);
        take(d_EG, 2 * H * tile);
        take(logit_slope, H * tile);
        take(d_logit, H * tile);
        take(attention, H * tile);
        take(d_hidden, plan.updates ? m * chunk : 0);
        take(d_normalized, d_e * chunk);
        take(by_pair, size_t(plan.chunk_pairs) * plan.pair_stride);
    }

    Workspace(const Plan &plan, Scratch &scratch, bool backward) : plan(plan) {
        size_t total = 0;
        lay_out([&](float *&, size_t floats) { total += Scratch::padded(floats); }, backward);
        scratch.start(total);
        lay_out([&](float *&piece, size_t floats) { piece = scratch.take(floats); }, backward);
        if (plan.listed) d_keys = keys, d_values = values, d_ends = ends;
        if (backward) std::fill_n(by_pair, size_t(plan.chunk_pairs) * plan.pair_stride, 0.0f);
        // Without an edge update nothing reaches H_hat from there.
        if (backward && !plan.updates) std::fill_n(d_H_hat, size_t(plan.num_heads) * plan.tile_stride, 0.0f);
    }
};

// Keys and values of a graph in channel-major form, zero beyond the last node.
inline void load_graph(Workspace &work, int64_t graph) {
    const Plan &plan = work.plan;
    const int n = plan.size(graph), d = plan.node_width;
    const float *qkv = plan.pass.qkv + plan.node_start[graph] * plan.qkv_width;
    load_channels(qkv + d, plan.qkv_width, n, d, work.keys, plan.key_stride);
    if (plan.attends) load_channels(qkv + 2 * d, plan.qkv_width, n, d, work.values, plan.key_stride);
    if (plan.outer_sum())
        load_channels(qkv + plan.ends_at + plan.edge_width, plan.qkv_width, n, plan.edge_width, work.ends,
                      plan.key_stride);
}

// Calls body(tile) for the tiles of a range of rows. The row buffers of a tile are at most twice as long as it may be.
template <class Body>
inline void for_each_tile(const Plan &plan, const RowRange &range, Body body) {
    Tile tile;
    tile.graph = range.graph;
    tile.first_node = plan.node_start[range.graph];
    for (int row = range.first_row; row < range.last_row;) {
        tile.first_row = row;
        tile.first_pair = plan.first_pair(range.graph, row);
        tile.count = tile.num_rows = 0;
        int lanes = 0;
        do {
            const int n = plan.row_size(range.graph, row), in_vectors = round_up(n, kLanes);
            const bool full = tile.count + n > plan.tile_pairs || lanes + in_vectors > 2 * plan.tile_pairs;
            if (tile.num_rows > 0 && full) break;
            tile.rows[tile.num_rows++] = {tile.count, n, lanes, plan.listed ? tile.count : 0};
            tile.count += n;
            lanes += in_vectors;
        } while (++row < range.last_row && tile.num_rows < Plan::kMostTileRows);
        tile.width = round_up(tile.count, kLanes);
        body(tile);
    }
}

// Zeroes the lanes behind the pairs of a tile, as far as a vector of the last row can reach.
inline void clear_beyond(float *x, int rows, const Plan &plan, const Tile &tile) {
    for (int row = 0; row < rows; ++row) store(x + row * plan.tile_stride + tile.count, Lanes{});
}

// Keys and values of the pairs of a tile of a list, likewise, and their columns.
inline void load_listed(Workspace &work, const Tile &tile) {
    const Plan &plan = work.plan;
    const int d = plan.node_width, d_e = plan.edge_width;
    const int64_t *target = plan.pass.target + tile.first_pair;
    const auto gather = [&](int channel, int channels, float *to) {
        const float *qkv = plan.pass.qkv + channel;
        gather_channels([=, &plan](int pair) EGT_LAMBDA_INLINE { return qkv + target[pair] * plan.qkv_width; },
                        tile.count, channels, to, plan.key_stride);
    };
    gather(d, d, work.keys);
    clear_beyond(work.keys, d, plan, tile);
    if (plan.attends) {
        gather(2 * d, d, work.values);
        clear_beyond(work.values, d, plan, tile);
    }
    if (plan.outer_sum()) gather(plan.ends_at + d_e, d_e, work.ends);
    for (int pair = 0; pair < tile.count; pair += kLanes) {
        BitLanes columns = {};
        for (int lane = 0; lane < kLanes && pair + lane < tile.count; ++lane)
            columns[lane] = static_cast<uint32_t>(target[pair + lane] - tile.first_node);
        store_bits(work.columns + pair, columns);
    }
}

// The columns j of eight pairs of a row, from its pair k on.
EGT_INLINE BitLanes columns_of(const Workspace &work, const TileRow &row, int k) {
    if (work.plan.listed) return load_bits(work.columns + row.start + k);
    const BitLanes iota = {0, 1, 2, 3, 4, 5, 6, 7};
    return iota + static_cast<uint32_t>(k);
}

// Where eight pairs of a row of the tile lead to the node itself.
EGT_INLINE IntLanes own_pair(const Workspace &work, const Tile &tile, int row, int k) {
    return (IntLanes)(columns_of(work, tile.rows[row], k) == static_cast<uint32_t>(tile.first_row + row));
}

// Calls body(first pair in the tile, pairs, pairs in whole vectors) for the chunks of a tile.
template <class Body>
inline void for_each_chunk(const Plan &plan, const Tile &tile, Body body) {
    for (int start = 0; start < tile.count; start += plan.chunk_pairs) {
        const int count = std::min(plan.chunk_pairs, tile.count - start);
        body(start, count, round_up(count, kLanes));
    }
}

}  // namespace egt::EGT_TARGET
