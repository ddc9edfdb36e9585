// What a call will do: offsets of the graphs, packed weights, tile sizes, and the parts that threads take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pair_pass.h"
#include "weights.h"

namespace egt {

inline int round_up(int64_t n, int multiple) { return static_cast<int>((n + multiple - 1) / multiple * multiple); }

// The smallest odd number of cache lines that holds n floats: rows of such a stride spread over all cache sets.
inline int spread_stride(int64_t n) {
    const int lines = round_up(n, 16) / 16;
    return 16 * (lines + 1 - lines % 2);
}

// Query rows [first_row, last_row) of one graph.
struct RowRange {
    int64_t graph;
    int first_row, last_row;
};

struct Plan {
    const EgtPairPass &pass;
    int node_width, edge_width, num_heads, head_width, hidden_width, qkv_width, out_width;
    int ends_at;  // where in a row of qkv A h is, with B h behind it
    int value_width, value_step;  // channels of an edge that a head gathers (0: none), and from one head's to the next's
    bool listed;   // pairs are a list
    bool sizes_match;  // false if sizes contradict the number of nodes or pairs, or a listed pair leaves its graph
    bool has_norm, gated;
    bool attends;  // node outputs (or their gradients) are wanted
    bool updates;  // edge outputs (or their gradients) are wanted
    bool noisy;    // some pairs may be masked or dropped
    std::vector<int64_t> node_start, pair_start;  // pair_start: of all pairs
    int64_t max_nodes = 0, longest_row = 0;
    FoldedLinear bias_and_gate, first;            // [E; G] behind the norm of e; W1 behind the norm of the FFN
    PackedMatrix EG, O, W1, W2;                   // forward maps
    PackedMatrix EG_back, O_back, W1_back, W2_back;  // their transposes
    int tile_pairs, chunk_pairs;                  // aims: pairs of a tile of query rows; pairs of a chunk of a tile
    int tile_stride, chunk_stride, key_stride;    // floats between two channels in the buffers of a tile, chunk, keys
    int pair_stride;                              // floats between two pairs in pair-major buffers
    std::vector<std::vector<RowRange>> parts;     // the rows of each part: a few parts for each thread

    Plan(const EgtPairPass &pass, bool attends, bool updates, bool backward);

    bool outer_sum() const { return updates && pass.outer_sum; }
    // Where in a row of the output is what a head gathered of its edges.
    int gathered_at(int head) const { return node_width + head * (value_width + 1); }
    int size(int64_t graph) const { return static_cast<int>(pass.sizes[graph]); }
    static constexpr int kMostTilePairs = 1024, kMostTileRows = 128;
    // The first pair of a row, and how many it has.
    int64_t first_pair(int64_t graph, int row) const {
        if (listed) return pass.row_start[node_start[graph] + row];
        return pair_start[graph] + pass.sizes[graph] * row;
    }
    int row_size(int64_t graph, int row) const {
        return listed ? static_cast<int>(first_pair(graph, row + 1) - first_pair(graph, row)) : size(graph);
    }
    // Rows of a graph that are computed.
    int num_rows(int64_t graph) const {
        return pass.query_rows > 0 ? static_cast<int>(std::min(pass.query_rows, pass.sizes[graph])) : size(graph);
    }

  private:
    bool list_matches() const;
    void pack_weights(bool backward);
    void share_rows();
};

inline Plan::Plan(const EgtPairPass &pass, bool attends, bool updates, bool backward)
    : pass(pass), attends(attends), updates(updates) {
    node_width = static_cast<int>(pass.node_width);
    edge_width = static_cast<int>(pass.edge_width);
    num_heads = static_cast<int>(pass.num_heads);
    head_width = node_width / num_heads;
    hidden_width = static_cast<int>(pass.hidden_width);
    ends_at = node_width * (pass.attends ? 3 : 2);
    qkv_width = ends_at + (pass.outer_sum ? 2 * edge_width : 0);
    value_step = pass.edge_values == 1 ? edge_width / num_heads : 0;
    value_width = pass.edge_values == 2 ? edge_width : value_step;
    out_width = pass.edge_values ? gathered_at(num_heads) : node_width;
    if (!attends) value_width = 0;
    listed = pass.row_start != nullptr;
    has_norm = pass.parameters.norm_weight != nullptr;
    gated = attends && pass.parameters.G_weight != nullptr;
    noisy = attends && (pass.allowed != nullptr || pass.mask_threshold > 0 || pass.dropout_threshold > 0 ||
                        pass.key_dropout_threshold > 0);
    node_start.assign(1, 0);
    pair_start.assign(1, 0);
    for (int64_t graph = 0; graph < pass.num_graphs; ++graph) {
        const int64_t n = std::max<int64_t>(pass.sizes[graph], 0);
        node_start.push_back(node_start.back() + n);
        pair_start.push_back(pair_start.back() + n * n);
        max_nodes = std::max(max_nodes, n);
    }
    sizes_match = node_start.back() == pass.num_nodes &&
                  (listed ? list_matches() : pair_start.back() == pass.num_pairs);
    if (!sizes_match) return;
    longest_row = max_nodes;
    if (listed) {
        longest_row = 0;
        for (int64_t row = 0; row < pass.num_nodes; ++row)
            longest_row = std::max(longest_row, pass.row_start[row + 1] - pass.row_start[row]);
    }
    // Wide edges: a tile fills part of the L2 cache. Narrow ones: larger tiles spread the cost of starting a row.
    // Rows of a list start at no cost, and keys and values of all pairs of a tile have to fit too.
    tile_pairs = listed ? 256 : std::clamp(32768 / (edge_width + num_heads), 128, kMostTilePairs);
    chunk_pairs = backward ? 192 : 128;
    const int64_t longest_tile = std::max<int64_t>(tile_pairs, longest_row);
    chunk_pairs = std::min(chunk_pairs, round_up(longest_tile, 16));
    tile_stride = spread_stride(longest_tile + 16);
    chunk_stride = spread_stride(chunk_pairs);
    pair_stride = spread_stride(edge_width);
    key_stride = listed ? tile_stride : spread_stride(max_nodes + 8);
    pack_weights(backward);
    share_rows();
}

inline bool Plan::list_matches() const {
    if (pass.row_start[0] != 0 || pass.row_start[pass.num_nodes] != pass.num_pairs) return false;
    for (int64_t row = 0; row < pass.num_nodes; ++row)
        if (pass.row_start[row] > pass.row_start[row + 1]) return false;
    for (int64_t graph = 0; graph < pass.num_graphs; ++graph) {
        const int64_t first = node_start[graph], last = node_start[graph + 1];
        bool inside = true;
        for (int64_t pair = pass.row_start[first]; pair < pass.row_start[last]; ++pair)
            inside &= first <= pass.target[pair] && pass.target[pair] < last;
        if (!inside) return false;
    }
    return true;
}

inline void Plan::pack_weights(bool backward) {
    const EgtPairParameters &p = pass.parameters;
    append_folded(bias_and_gate, p.E_weight, p.E_bias, num_heads, edge_width, p.norm_weight, p.norm_bias);
    if (gated) append_folded(bias_and_gate, p.G_weight, p.G_bias, num_heads, edge_width, p.norm_weight, p.norm_bias);
    EG = pack(bias_and_gate);
    if (backward) EG_back = pack_transposed(bias_and_gate);
    if (!updates) return;
    FoldedLinear out, second;
    append_folded(out, p.O_weight, p.O_bias, edge_width, num_heads, nullptr, nullptr);
    append_folded(first, p.W1_weight, p.W1_bias, hidden_width, edge_width, p.ffn_norm_weight, p.ffn_norm_bias);
    append_folded(second, p.W2_weight, p.W2_bias, edge_width, hidden_width, nullptr, nullptr);
    O = pack(out);
    W1 = pack(first);
    if (!backward) {
        W2 = pack(second);
        return;
    }
    O_back = pack_transposed(out);
    W1_back = pack_transposed(first);
    W2_back = pack_transposed(second);
}

// Cuts the rows of all graphs, in order, into runs with nearly equal numbers of pairs, a few for each thread.
inline void Plan::share_rows() {
    int64_t total = 0;
    for (int64_t graph = 0; graph < pass.num_graphs; ++graph)
        total += first_pair(graph, num_rows(graph)) - first_pair(graph, 0);
    constexpr int64_t kFewestPairs = 512;  // less is not worth waking a thread
    const int64_t parts_per_thread = listed ? 1 : 4;  // each holds gradients of all nodes of a large graph that is listed
    const int64_t wanted = pass.num_threads > 1 ? pass.num_threads * parts_per_thread : 1;
    const int64_t num_parts = std::max<int64_t>(1, std::min(wanted, total / kFewestPairs));
    parts.resize(num_parts);
    int64_t before = 0;  // pairs in front of the row
    for (int64_t graph = 0; graph < pass.num_graphs; ++graph) {
        const int rows = num_rows(graph);
        for (int row = 0; row < rows; ++row) {
            // A row belongs to the part that its middle falls into, an empty one behind all pairs to the last.
            const int64_t n = row_size(graph, row), middle = before + n / 2;
            std::vector<RowRange> &ranges = parts[std::min(num_parts - 1, middle * num_parts / std::max<int64_t>(1, total))];
            before += n;
            if (!ranges.empty() && ranges.back().graph == graph)
                ranges.back().last_row = row + 1;
            else
                ranges.push_back({graph, row, row + 1});
        }
    }
}

}  // namespace egt
