// What happens to the edge channel: the norm and [E; G] in front of the attention, the update and FFN behind it.
#pragma once

#include "activations.h"
#include "gemm.h"
#include "lanes.h"
#include "norm.h"
#include "outer_sum.h"
#include "randomness.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// Gradients of the folded weights, summed over the pairs of one part. The edge channel runs along the rows of each
// matrix, padded: those of O and W2 are transposed.
struct ParameterSums {
    std::vector<float> EG_weight, EG_bias, O_weight, O_bias, W1_weight, W1_bias, W2_weight, W2_bias;

    explicit ParameterSums(const Plan &plan) {
        const size_t d_e = plan.edge_width, H = plan.num_heads, m = plan.hidden_width, padded = plan.pair_stride;
        EG_weight.assign(plan.EG.rows * padded, 0.0f);
        EG_bias.assign(plan.EG.rows, 0.0f);
        if (!plan.updates) return;
        O_weight.assign(H * padded, 0.0f);
        O_bias.assign(d_e, 0.0f);
        W1_weight.assign(m * padded, 0.0f);
        W1_bias.assign(m, 0.0f);
        W2_weight.assign(m * padded, 0.0f);
        W2_bias.assign(d_e, 0.0f);
    }
};

// Loads the edges of a tile and computes their [E; G]. The normalized edges of the chunk at `start` go to
// `normalized + step * start`, with `stride` between channels.
inline void read_edges(Workspace &work, const Tile &tile, float *normalized, int stride, int step) {
    const Plan &plan = work.plan;
    const int d_e = plan.edge_width, tile_stride = plan.tile_stride;
    for_each_chunk(plan, tile, [&](int start, int count, int width) {
        float *edges = work.edges + start, *x = normalized + step * start;
        load_channels(plan.pass.e + (tile.first_pair + start) * d_e, d_e, count, d_e, edges, tile_stride);
        if (plan.has_norm)
            normalize(x, stride, edges, tile_stride, d_e, width, plan.pass.norm_eps, work.inverse_std + start);
        else
            for (int c = 0; c < d_e; ++c) std::copy_n(edges + c * tile_stride, width, x + c * stride);
        multiply_into(work.EG + start, tile_stride, plan.EG, x, stride, width);
    });
    if (plan.value_width > 0) clear_beyond(normalized, d_e, plan, tile);
}

// Edges in memory that will be read or written next.
struct Soon {
    const float *edges[2];

    // Asks for the next `lines` lines of each: between computations, so that the memory is at hand when its turn comes.
    void ask(int lines) {
        for (const float *&next : edges)
            if (next != nullptr)
                for (int line = 0; line < lines; ++line, next += kLineFloats) __builtin_prefetch(next);
    }
};

// What to ask for before each block of `rows` outputs so that all edges of the pairs have been asked for at the end.
inline int lines_per_block(const Plan &plan, int rows) {
    const int lines = kBlockVectors * kLanes * plan.edge_width / kLineFloats, num_blocks = RowBlocks(rows).count;
    return (lines + num_blocks - 1) / num_blocks;
}

// Inverted dropout of channels, drawn from the hashes of their pairs, times the factor of their branch. No channel is
// dropped where the threshold is 0.
struct EdgeDropout {
    const float *hash;
    int64_t threshold;
    float scale;

    bool acts() const { return threshold > 0 || scale != 1.0f; }

    EGT_LAMBDA_INLINE Lanes operator()(Lanes x, int channel, int pair) const {
        if (threshold == 0) return x * scale;
        return keep_where(kept(hash + pair, channel, threshold), x * scale);
    }

    // y += dropout(W x + b).
    void add_product(float *y, int y_stride, const PackedMatrix &W, const float *x, int stride, int width) const {
        if (!acts()) return multiply_onto(y, y_stride, W, x, stride, width);
        multiply(W, x, stride, width, [=, *this](int row, int pair, Lanes value) EGT_LAMBDA_INLINE {
            float *at = y + row * y_stride + pair;
            store(at, load(at) + (*this)(value, row, pair));
        });
    }
};

inline EdgeDropout update_dropout(const Workspace &work, int start) {
    const EgtPairPass &pass = work.plan.pass;
    const float scale = static_cast<float>(pass.edge_dropout_scale) * work.edge_path;
    return {work.edge_dropout_hash + start, pass.edge_dropout_threshold, scale};
}

inline EdgeDropout ffn_dropout(const Workspace &work, int start) {
    const EgtPairPass &pass = work.plan.pass;
    const float scale = static_cast<float>(pass.ffn_dropout_scale) * work.ffn_path;
    return {work.ffn_dropout_hash + start, pass.ffn_dropout_threshold, scale};
}

inline void prepare_edge_noise(Workspace &work, const Tile &tile) {
    const EgtPairPass &pass = work.plan.pass;
    if (pass.edge_dropout_threshold > 0) hash_pairs(work, work.edge_dropout_hash, pass.edge_dropout_keys, tile);
    if (pass.ffn_dropout_threshold > 0) hash_pairs(work, work.ffn_dropout_hash, pass.ffn_dropout_keys, tile);
    work.edge_path = path_factor(pass.edge_path_keys, pass.edge_path_threshold, pass.edge_path_scale, tile.graph);
    work.ffn_path = path_factor(pass.ffn_path_keys, pass.ffn_path_threshold, pass.ffn_path_scale, tile.graph);
}

// The hidden layer of the FFN for a chunk: e becomes e1 = e + O H_hat, then its norm, then act(W1 norm) in `hidden`;
// `slopes` (may be null) receives the slopes of the activation.
inline void edge_hidden(Workspace &work, int start, int width, Soon soon, float *slopes) {
    const Plan &plan = work.plan;
    const int d_e = plan.edge_width, stride = plan.chunk_stride, tile_stride = plan.tile_stride;
    float *edges = work.edges + start, *hidden = work.hidden;
    update_dropout(work, start).add_product(edges, tile_stride, plan.O, work.H_hat + start, tile_stride, width);
    normalize(work.edges_normalized, stride, edges, tile_stride, d_e, width, plan.pass.ffn_norm_eps,
              work.edges_inverse_std);
    // The activation behind the products of a few pairs: the registers then hold its constants, and the cache its numbers.
    constexpr int kSome = kBlockVectors * kLanes;
    const int lines = lines_per_block(plan, plan.hidden_width);
    for (int pair = 0; pair < width; pair += kSome) {
        const int some = std::min(kSome, width - pair);
        multiply_into(hidden + pair, stride, plan.W1, work.edges_normalized + pair, stride, some,
                      [&] { soon.ask(lines); });
        activate(plan.pass.activation, hidden + pair, slopes != nullptr ? slopes + pair : nullptr, stride,
                 plan.hidden_width, some);
    }
}

// e_new = e1 + W2 act(W1 LN(e1)).
inline void update_edges(Workspace &work, const Tile &tile, float *e_new) {
    const Plan &plan = work.plan;
    const int d_e = plan.edge_width, tile_stride = plan.tile_stride;
    prepare_edge_noise(work, tile);
    if (plan.outer_sum()) add_outer_sum(work, tile, update_dropout(work, 0));
    for_each_chunk(plan, tile, [&](int start, int count, int width) {
        const int64_t first = (tile.first_pair + start) * d_e;
        // Written over e, the lines are at hand already.
        const float *target = e_new == plan.pass.e ? nullptr : e_new + first;
        edge_hidden(work, start, width, {plan.pass.e + first + tile.count * d_e, target}, nullptr);
        ffn_dropout(work, start)
            .add_product(work.edges + start, tile_stride, plan.W2, work.hidden, plan.chunk_stride, width);
        store_channels(work.edges + start, tile_stride, count, d_e, e_new + first, d_e);
    });
}

// dW += dy x^T for the pairs of a chunk, where x are channel-major edges.
inline void add_edge_weight_gradient(Workspace &work, std::vector<float> &dW, int rows, const float *dy, int dy_stride,
                                     const float *edges, int stride, int count) {
    const Plan &plan = work.plan;
    store_channels(edges, stride, count, plan.edge_width, work.by_pair, plan.pair_stride);
    add_weight_gradient(dW.data(), rows, round_up(plan.edge_width, kLanes), dy, dy_stride, work.by_pair,
                        plan.pair_stride, count);
}

// Channels of the pairs of a chunk.
struct ChunkChannels {
    const float *data;
    int stride;
};

// The gradient behind a dropout from the one in front of it: the same where it is off, else a copy in `buffer`.
inline ChunkChannels drop_gradient(const EdgeDropout &dropout, ChunkChannels d, float *buffer, int stride, int channels,
                                   int width) {
    if (!dropout.acts()) return d;
    for (int c = 0; c < channels; ++c)
        for (int pair = 0; pair < width; pair += kLanes)
            store(buffer + c * stride + pair, dropout(load(d.data + c * d.stride + pair), c, pair));
    return {buffer, stride};
}

// From d_e_new to the gradient of e1 (in the tile's d_edges), of H_hat (d_H_hat), of the update's weights, and of what an
// outer sum adds (in d_qkv).
inline void update_edges_backward(Workspace &work, const Tile &tile, const float *d_e_new, float *d_qkv,
                                  ParameterSums &sums) {
    const Plan &plan = work.plan;
    const int d_e = plan.edge_width, m = plan.hidden_width, H = plan.num_heads;
    const int stride = plan.chunk_stride, tile_stride = plan.tile_stride;
    const bool from_values = keeps_values(plan.pass.activation);
    prepare_edge_noise(work, tile);
    if (plan.outer_sum()) add_outer_sum(work, tile, update_dropout(work, 0));
    for_each_chunk(plan, tile, [&](int start, int count, int width) {
        const int64_t first = (tile.first_pair + start) * d_e;
        edge_hidden(work, start, width, {plan.pass.e + first + tile.count * d_e, d_e_new + first},
                    from_values ? nullptr : work.d_hidden);
        float *d_edges = work.d_edges + start;
        load_channels(d_e_new + first, d_e, count, d_e, d_edges, tile_stride);
        const float *hidden = work.hidden;
        float *d_hidden = work.d_hidden;
        const ChunkChannels d_ffn =
            drop_gradient(ffn_dropout(work, start), {d_edges, tile_stride}, work.d_normalized, stride, d_e, width);
        const auto from_value = [=](int row, int pair, Lanes value) EGT_LAMBDA_INLINE {
            const int at = row * stride + pair;
            store(d_hidden + at, Elu::times_slope(value, load(hidden + at)));
        };
        const auto from_slope = [=](int row, int pair, Lanes value) EGT_LAMBDA_INLINE {
            const int at = row * stride + pair;
            store(d_hidden + at, value * load(d_hidden + at));
        };
        if (from_values)
            multiply(plan.W2_back, d_ffn.data, d_ffn.stride, width, from_value);
        else
            multiply(plan.W2_back, d_ffn.data, d_ffn.stride, width, from_slope);
        add_edge_weight_gradient(work, sums.W2_weight, m, hidden, stride, d_ffn.data, d_ffn.stride, count);
        add_bias_gradient(sums.W2_bias.data(), d_e, d_ffn.data, d_ffn.stride, width);
        add_edge_weight_gradient(work, sums.W1_weight, m, d_hidden, stride, work.edges_normalized, stride, count);
        add_bias_gradient(sums.W1_bias.data(), m, d_hidden, stride, width);

        multiply_into(work.d_normalized, stride, plan.W1_back, d_hidden, stride, width);
        add_norm_gradient(d_edges, tile_stride, work.d_normalized, stride, work.edges_normalized, stride, d_e, width,
                          work.edges_inverse_std);

        const float *H_hat = work.H_hat + start;
        const ChunkChannels d_update =
            drop_gradient(update_dropout(work, start), {d_edges, tile_stride}, work.d_normalized, stride, d_e, width);
        multiply_into(work.d_H_hat + start, tile_stride, plan.O_back, d_update.data, d_update.stride, width);
        add_edge_weight_gradient(work, sums.O_weight, H, H_hat, tile_stride, d_update.data, d_update.stride, count);
        add_bias_gradient(sums.O_bias.data(), d_e, d_update.data, d_update.stride, width);
    });
    if (plan.outer_sum()) outer_sum_backward(work, tile, update_dropout(work, 0), d_qkv);
}

// From d_EG and the tile's d_edges to the gradient of e and of the weights of E and G.
inline void read_edges_backward(Workspace &work, const Tile &tile, float *d_e_out, ParameterSums &sums) {
    const Plan &plan = work.plan;
    const int d_e = plan.edge_width, rows = plan.EG.rows, stride = plan.tile_stride;
    const int lines = lines_per_block(plan, d_e);
    for_each_chunk(plan, tile, [&](int start, int count, int width) {
        float *d_edges = work.d_edges + start;
        if (!plan.updates)
            for (int c = 0; c < d_e; ++c) std::fill_n(d_edges + c * stride, width, 0.0f);
        const float *d_EG = work.d_EG + start, *normalized = work.normalized + start;
        add_edge_weight_gradient(work, sums.EG_weight, rows, d_EG, stride, normalized, stride, count);
        add_bias_gradient(sums.EG_bias.data(), rows, d_EG, stride, width);
        float *target = d_e_out + (tile.first_pair + start) * d_e;
        const auto add_read = [&](float *to, int to_stride) {
            if (plan.value_width == 0) return;
            for (int c = 0; c < d_e; ++c)
                for (int pair = 0; pair < width; pair += kLanes) {
                    float *at = to + c * to_stride + pair;
                    store(at, load(at) + load(work.d_read + c * stride + start + pair));
                }
        };
        if (plan.has_norm) {
            Soon soon{target, nullptr};
            multiply_into(work.d_normalized, plan.chunk_stride, plan.EG_back, d_EG, stride, width,
                          [&] { soon.ask(lines); });
            add_read(work.d_normalized, plan.chunk_stride);
            add_norm_gradient(d_edges, stride, work.d_normalized, plan.chunk_stride, normalized, stride, d_e, width,
                              work.inverse_std + start);
        } else {
            multiply_onto(d_edges, stride, plan.EG_back, d_EG, stride, width);
            add_read(d_edges, stride);
        }
        store_channels(d_edges, stride, count, d_e, target, d_e);
    });
}

}  // namespace egt::EGT_TARGET
