// The pass over the rows of one part.
#pragma once

#include "attention_backward.h"
#include "attention_forward.h"
#include "edges.h"
#include "lanes.h"
#include "randomness.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// Gradients of K, V and B h of a graph that several parts share, as blocks of N rows; added up in the order of the parts.
struct SharedGraph {
    int64_t graph;
    std::vector<float> d_keys, d_values, d_ends;
};

// What one part hands back: sums that are added in a fixed order after all parts are done.
struct PartSums {
    ParameterSums parameters;
    std::vector<SharedGraph> graphs;
};

inline void forward_part(const Plan &plan, const std::vector<RowRange> &rows, Scratch &scratch, float *out,
                         float *e_new) {
    Workspace work(plan, scratch, false);
    for (const RowRange &range : rows) {
        if (!plan.listed) load_graph(work, range.graph);
        draw_keys(work, range.graph);
        for_each_tile(plan, range, [&](const Tile &tile) {
            if (plan.listed) load_listed(work, tile);
            if (plan.value_width > 0)
                read_edges(work, tile, work.normalized, plan.tile_stride, 1);
            else
                read_edges(work, tile, work.edges_normalized, plan.chunk_stride, 0);
            compute_logits(work, tile, nullptr);
            if (plan.attends) attend(work, tile, out);
            if (plan.updates) update_edges(work, tile, e_new);
        });
    }
}

// Gradients of some channels of the nodes of a graph as keys: summed in the workspace and then stored, or those of listed
// pairs, which are in the workspace, added tile by tile.
struct NodeGradient {
    float *channels;  // in the workspace
    float *rows;      // where they go, `stride` floats apart
    int width;
    int64_t stride;

    void clear(const Plan &plan, int num_nodes) const {
        if (!plan.listed) return void(std::fill_n(channels, size_t(width) * plan.key_stride, 0.0f));
        for (int node = 0; node < num_nodes; ++node) std::fill_n(rows + node * stride, width, 0.0f);
    }
    void add(const Plan &plan, const Tile &tile) const {
        const int64_t *target = plan.pass.target + tile.first_pair;
        scatter_channels(channels, plan.key_stride, tile.count, width, [&](int pair) EGT_LAMBDA_INLINE {
            return rows + (target[pair] - tile.first_node) * stride;
        });
    }
    void store(const Plan &plan, int num_nodes) const {
        store_channels(channels, plan.key_stride, num_nodes, width, rows, stride);
    }
};

// Where the gradients of K, V and B h of the graph of a range go: to d_qkv, or to sums that are kept if other parts have
// rows of it too.
inline std::vector<NodeGradient> node_gradients(const Workspace &work, const RowRange &range, float *d_qkv,
                                                PartSums &sums) {
    const Plan &plan = work.plan;
    const int d = plan.node_width, d_e = plan.edge_width;
    const bool shares = range.last_row - range.first_row != plan.num_rows(range.graph);
    if (shares) sums.graphs.push_back({range.graph, {}, {}, {}});
    std::vector<NodeGradient> gradients;
    const auto want = [&](std::vector<float> SharedGraph::*kept, int channel, int width, float *channels) {
        float *rows = d_qkv + plan.node_start[range.graph] * plan.qkv_width + channel;
        if (shares) {
            std::vector<float> &own = sums.graphs.back().*kept;
            own.resize(size_t(plan.size(range.graph)) * width);
            rows = own.data();
        }
        gradients.push_back({channels, rows, width, shares ? width : plan.qkv_width});
    };
    want(&SharedGraph::d_keys, d, d, work.d_keys);
    if (plan.attends) want(&SharedGraph::d_values, 2 * d, d, work.d_values);
    if (plan.outer_sum()) want(&SharedGraph::d_ends, plan.ends_at + d_e, d_e, work.d_ends);
    return gradients;
}

inline void backward_part(const Plan &plan, const std::vector<RowRange> &rows, Scratch &scratch, const float *d_out,
                          const float *d_e_new, float *d_qkv, float *d_e, PartSums &sums) {
    Workspace work(plan, scratch, true);
    for (const RowRange &range : rows) {
        const int n = plan.size(range.graph);
        const std::vector<NodeGradient> gradients = node_gradients(work, range, d_qkv, sums);
        if (!plan.listed) load_graph(work, range.graph);
        draw_keys(work, range.graph);
        for (const NodeGradient &gradient : gradients) gradient.clear(plan, n);
        for_each_tile(plan, range, [&](const Tile &tile) {
            if (plan.listed) load_listed(work, tile);
            read_edges(work, tile, work.normalized, plan.tile_stride, 1);
            compute_logits(work, tile, work.logit_slope);
            if (plan.updates) update_edges_backward(work, tile, d_e_new, d_qkv, sums.parameters);
            attend_backward(work, tile, d_out, d_qkv);
            read_edges_backward(work, tile, d_e, sums.parameters);
            if (plan.listed)
                for (const NodeGradient &gradient : gradients) gradient.add(plan, tile);
        });
        if (!plan.listed)
            for (const NodeGradient &gradient : gradients) gradient.store(plan, n);
    }
}

inline void add(std::vector<float> &to, const std::vector<float> &from) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

// Adds up what the parts kept, in their order, and turns folded gradients into those of the parameters.
inline void gather(const Plan &plan, std::vector<PartSums> &parts, float *d_qkv, const EgtPairParameters &d) {
    const EgtPairParameters &p = plan.pass.parameters;
    const int d_e = plan.edge_width, H = plan.num_heads, m = plan.hidden_width;
    ParameterSums &total = parts[0].parameters;
    for (size_t part = 1; part < parts.size(); ++part) {
        const ParameterSums &sums = parts[part].parameters;
        add(total.EG_weight, sums.EG_weight), add(total.EG_bias, sums.EG_bias);
        add(total.O_weight, sums.O_weight), add(total.O_bias, sums.O_bias);
        add(total.W1_weight, sums.W1_weight), add(total.W1_bias, sums.W1_bias);
        add(total.W2_weight, sums.W2_weight), add(total.W2_bias, sums.W2_bias);
    }
    int64_t last_graph = -1;  // the parts of a graph follow one another; the first of them sets its gradients
    for (const PartSums &part : parts)
        for (const SharedGraph &shared : part.graphs) {
            const int d_h = plan.node_width;
            const bool first = std::exchange(last_graph, shared.graph) != shared.graph;
            for (int row = 0; row < plan.size(shared.graph); ++row) {
                const auto collect = [&](float *to, const std::vector<float> &blocks, int width) {
                    const float *from = &blocks[size_t(row) * width];
                    for (int c = 0; c < width; ++c) to[c] = first ? from[c] : to[c] + from[c];
                };
                float *to = d_qkv + (plan.node_start[shared.graph] + row) * plan.qkv_width;
                collect(to + d_h, shared.d_keys, d_h);
                if (plan.attends) collect(to + 2 * d_h, shared.d_values, d_h);
                if (plan.outer_sum()) collect(to + plan.ends_at + d_e, shared.d_ends, d_e);
            }
        }
    const auto weight = [&](const std::vector<float> &sums) {
        return [&plan, &sums](int row, int col) { return sums[size_t(row) * plan.pair_stride + col]; };
    };
    const auto transposed = [&](const std::vector<float> &sums) {
        return [&plan, &sums](int row, int col) { return sums[size_t(col) * plan.pair_stride + row]; };
    };
    const auto gate_weight = [&](int row, int col) { return weight(total.EG_weight)(H + row, col); };
    add_unfolded(weight(total.EG_weight), total.EG_bias.data(), p.E_weight, H, d_e, p.norm_weight, p.norm_bias,
                 d.E_weight, d.E_bias, d.norm_weight, d.norm_bias);
    if (plan.gated)
        add_unfolded(gate_weight, total.EG_bias.data() + H, p.G_weight, H, d_e, p.norm_weight, p.norm_bias, d.G_weight,
                     d.G_bias, d.norm_weight, d.norm_bias);
    if (!plan.updates) return;
    add_unfolded(transposed(total.O_weight), total.O_bias.data(), p.O_weight, d_e, H, nullptr, nullptr, d.O_weight,
                 d.O_bias, nullptr, nullptr);
    add_unfolded(weight(total.W1_weight), total.W1_bias.data(), p.W1_weight, m, d_e, p.ffn_norm_weight,
                 p.ffn_norm_bias, d.W1_weight, d.W1_bias, d.ffn_norm_weight, d.ffn_norm_bias);
    add_unfolded(transposed(total.W2_weight), total.W2_bias.data(), p.W2_weight, d_e, m, nullptr, nullptr, d.W2_weight,
                 d.W2_bias, nullptr, nullptr);
}

template <class Body>
inline void for_each_part_of(const Plan &plan, Body body) {
    for_each_part(static_cast<int>(plan.parts.size()), static_cast<int>(plan.pass.num_threads), plan.pass.run_parallel,
                  body);
}

inline void forward(const Plan &plan, float *out, float *e_new) {
    for_each_part_of(plan, [&](int part) { forward_part(plan, plan.parts[part], own_scratch(), out, e_new); });
}

inline void backward(const Plan &plan, const float *d_out, const float *d_e_new, float *d_qkv, float *d_e,
              const EgtPairParameters &d_parameters) {
    std::vector<PartSums> sums(plan.parts.size(), PartSums{ParameterSums(plan), {}});
    for_each_part_of(plan, [&](int part) {
        backward_part(plan, plan.parts[part], own_scratch(), d_out, d_e_new, d_qkv, d_e, sums[part]);
    });
    gather(plan, sums, d_qkv, d_parameters);
}

}  // namespace egt::EGT_TARGET
