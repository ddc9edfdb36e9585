// One thread's work on a part: its buffers, its current graph, and its current tile of query rows.
#pragma once

#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// A run of complete query rows of one graph. Its pairs are consecutive in the packed layout.
struct Tile {
    int num_nodes;  // N of the graph = pairs per row
    int first_row, num_rows;
    int count, width;      // pairs, and pairs rounded up to whole vectors
    int row_stride;        // N rounded up to whole vectors: floats between two rows in the row buffers
    int64_t graph, first_node, first_pair;  // first_node: of the graph; first_pair: of the tile

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
struct Workspace {
    const Plan &plan;
    // of the current graph: keys and values, and their gradients
    float *keys, *values, *d_keys, *d_values;
    float *ends, *d_ends;        // B h of the outer sum, and its gradient
    float *kept_keys;            // bits: whom others may attend
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
        take(kept_keys, plan.pass.key_dropout_threshold > 0 ? key : 0);
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
        take(exponentials, 2 * tile);  // N rounded up is at most twice N, or there are less than 8 rows of 8
        take(gates, 2 * tile);
        take(weights, 2 * tile);
        take(normalized, backward || plan.value_width > 0 ? d_e * tile : 0);
        if (!backward) return;
        take(d_read, plan.value_width > 0 ? d_e * tile : 0);
        take(d_keys, d * key);
        take(d_values, values_rows * key);
        take(d_ends, plan.outer_sum() ? d_e * key : 0);
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

// Calls body(tile) for the tiles of a range of rows.
template <class Body>
inline void for_each_tile(const Plan &plan, const RowRange &range, Body body) {
    const int n = plan.size(range.graph), step = plan.rows_per_tile(n);
    for (int row = range.first_row; row < range.last_row; row += step) {
        Tile tile;
        tile.graph = range.graph;
        tile.num_nodes = n;
        tile.first_row = row;
        tile.num_rows = std::min(step, range.last_row - row);
        tile.count = tile.num_rows * n;
        tile.width = round_up(tile.count, kLanes);
        tile.row_stride = round_up(n, kLanes);
        tile.first_node = plan.node_start[range.graph];
        tile.first_pair = plan.pair_start[range.graph] + int64_t{row} * n;
        body(tile);
    }
}

// Calls body(first pair in the tile, pairs, pairs in whole vectors) for the chunks of a tile.
template <class Body>
inline void for_each_chunk(const Plan &plan, const Tile &tile, Body body) {
    for (int start = 0; start < tile.count; start += plan.chunk_pairs) {
        const int count = std::min(plan.chunk_pairs, tile.count - start);
        body(start, count, round_up(count, kLanes));
    }
}

// Zeroes the lanes behind the pairs of a tile, as far as a vector of the last row can reach.
inline void clear_beyond(float *x, int rows, const Plan &plan, const Tile &tile) {
    for (int row = 0; row < rows; ++row) store(x + row * plan.tile_stride + tile.count, Lanes{});
}

}  // namespace egt::EGT_TARGET
