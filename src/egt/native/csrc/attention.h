// Logits, softmax, gates and aggregation of the rows of a tile.
#pragma once

#include "gemm.h"
#include "lanes.h"
#include "randomness.h"
#include "target.h"
#include "workspace.h"

namespace egt::EGT_TARGET {

// Products of a row of `channels` factors with `Vectors` times eight columns of m.
template <int Vectors>
EGT_INLINE void dot_block(Lanes (&product)[Vectors], const float *factors, const float *m, int stride, int channels) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) product[v] = Lanes{};
    for (int c = 0; c < channels; ++c) {
        const Lanes factor = splat(factors[c]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) product[v] += factor * load(m + c * stride + v * kLanes);
    }
}

// Calls body(j, integral constant Vectors) for the columns of a row, four vectors at a time.
template <class Body>
EGT_INLINE void for_each_block(int n, Body body) {
    for (int j = 0; j < n; j += 4 * kLanes)
        with_constant<4>(std::min(4, (n - j + kLanes - 1) / kLanes),
                         [&](auto Vectors) EGT_LAMBDA_INLINE { body(j, Vectors); });
}

// H_hat = clip(scale <Q_i, K_j>) + E for `Vectors` times eight keys. `slope` (may be null) receives scale where the
// logit is inside the clip range and 0 outside.
template <int Vectors>
EGT_INLINE void logits_block(const EgtPairPass &pass, const float *query, const float *keys, int key_stride,
                             int head_width, const float *E, float *H_hat, float *slope) {
    const float scale = pass.scale, low = pass.clip_low, high = pass.clip_high;
    Lanes product[Vectors];
    dot_block(product, query, keys, key_stride, head_width);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
        const Lanes logit = product[v] * scale;
        const Lanes clipped = at_most(high, at_least(low, logit));
        store(H_hat + v * kLanes, clipped + load(E + v * kLanes));
        if (slope != nullptr) store(slope + v * kLanes, keep_where(clipped == logit, splat(scale)));
    }
}

inline void compute_logits(Workspace &work, const Tile &tile, float *slope) {
    const Plan &plan = work.plan;
    for (int head = 0; head < plan.num_heads; ++head) {
        for (int row = 0; row < tile.num_rows; ++row) {
            const TileRow &place = tile.rows[row];
            const float *query = tile.qkv_row(plan, row) + head * plan.head_width;
            const float *keys = work.keys + head * plan.head_width * plan.key_stride + place.keys;
            const int at = head * plan.tile_stride + place.start;
            for_each_block(place.count, [&](int j, auto Vectors) EGT_LAMBDA_INLINE {
                logits_block<Vectors>(plan.pass, query, keys + j, plan.key_stride, plan.head_width, work.EG + at + j,
                                      work.H_hat + at + j, slope != nullptr ? slope + at + j : nullptr);
            });
        }
    }
    clear_beyond(work.H_hat, plan.num_heads, plan, tile);
}

// Per pair of the tile: who may attend whom, and the part of the random bits that the heads share.
inline void prepare_noise(Workspace &work, const Tile &tile) {
    const EgtPairPass &pass = work.plan.pass;
    for (int row = 0; row < tile.num_rows; ++row) {
        const TileRow &place = tile.rows[row];
        const uint8_t *allowed = pass.allowed != nullptr ? pass.allowed + tile.first_pair + place.start : nullptr;
        for (int j = 0; j < place.count; j += kLanes) {
            IntLanes open = first_lanes(place.count - j);
            if (allowed != nullptr)
                for (int lane = 0; lane < kLanes && j + lane < place.count; ++lane)
                    open[lane] = allowed[j + lane] ? -1 : 0;
            if (pass.key_dropout_threshold > 0)
                open &= kept_columns(work, place, j) | own_pair(work, tile, row, j);
            store_bits(work.open + place.start + j, (BitLanes)open);
        }
    }
    if (pass.mask_threshold > 0) hash_pairs(work, work.mask_hash, pass.mask_keys, tile);
    if (pass.dropout_threshold > 0) hash_pairs(work, work.dropout_hash, pass.dropout_keys, tile);
}

// The scale of the rows that have one, eight of them at a time.
EGT_INLINE void scale_rows(Workspace &work, int num_rows) {
    for_each_eight(num_rows, [&](int first, auto rows) EGT_LAMBDA_INLINE {
        Lanes sums = {};
        for (int k = 0; k < rows; ++k) sums[k] = work.rows[first + k].gate_sum;
        const Lanes scales = log_of_one_plus(sums);
        for (int k = 0; k < rows; ++k)
            if (work.rows[first + k].scaled) work.rows[first + k].scale = scales[k];
    });
}

// Fills the row buffers of a head: exponentials (zero where masked), gates, weights = exponential * gate * dropout, and
// the numbers of each row. One step after the other for all rows, as a row's own steps wait for one another.
template <bool Gated, bool Noisy>
EGT_INLINE void attend_head(Workspace &work, const Tile &tile, int head) {
    const Plan &plan = work.plan;
    const EgtPairPass &pass = plan.pass;
    const float *H_hat = work.H_hat + head * plan.tile_stride;
    const float *G = work.EG + (plan.num_heads + head) * plan.tile_stride;
    constexpr float kClosed = -std::numeric_limits<float>::max();

    for (int row = 0; row < tile.num_rows; ++row) {
        const int in_tile = tile.rows[row].start, n = tile.rows[row].count;
        float *logits = work.exponentials + tile.rows[row].lanes;
        Lanes highest = splat(kClosed);
        for (int j = 0; j < n; j += kLanes) {
            IntLanes on = first_lanes(n - j);
            if (Noisy) {
                on &= (IntLanes)load_bits(work.open + in_tile + j);
                if (pass.mask_threshold > 0) on &= kept(work.mask_hash + in_tile + j, head, pass.mask_threshold);
            }
            const Lanes logit = on ? load(H_hat + in_tile + j) : splat(kClosed);
            store(logits + j, logit);
            highest = maximum(highest, logit);
        }
        work.rows[row].top = maximum_of(highest);
    }
    for (int row = 0; row < tile.num_rows; ++row) {
        RowStatistics &statistics = work.rows[row];
        const int in_tile = tile.rows[row].start, in_rows = tile.rows[row].lanes, n = tile.rows[row].count;
        const bool drops_keys = Gated && Noisy && pass.key_dropout_threshold > 0;
        Lanes sum = {}, gate_sum = {}, own_gates = {};
        for (int j = 0; j < n; j += kLanes) {
            const Lanes logit = load(work.exponentials + in_rows + j);
            const IntLanes on = logit != kClosed;
            const Lanes exponentials = keep_where(on, exponential(logit - statistics.top, 0.0f));
            sum += exponentials;
            Lanes weights = exponentials;
            if (Gated) {
                IntLanes gate_on = first_lanes(n - j);
                if (Noisy) gate_on = pass.masks_gates ? on : gate_on & (IntLanes)load_bits(work.open + in_tile + j);
                const Lanes gates = keep_where(gate_on, sigmoid(load(G + in_tile + j)));
                gate_sum += gates;
                if (drops_keys) own_gates += keep_where(own_pair(work, tile, row, j), gates);
                weights *= gates;
                store(work.gates + in_rows + j, gates);
            }
            if (Noisy && pass.dropout_threshold > 0) {
                const IntLanes keep = kept(work.dropout_hash + in_tile + j, head, pass.dropout_threshold);
                weights = keep_where(keep, weights * static_cast<float>(pass.dropout_scale));
            }
            store(work.exponentials + in_rows + j, exponentials);
            store(work.weights + in_rows + j, weights);
        }
        const float total = sum_of(sum);
        statistics.inverse_sum = total == 0.0f ? 0.0f : 1.0f / total;
        statistics.gate_sum = Gated ? sum_of(gate_sum) : 0.0f;
        statistics.others = drops_keys ? pass.key_dropout_scale : 1.0;
        if (drops_keys) {
            const float own = sum_of(own_gates);
            statistics.gate_sum = own + (statistics.gate_sum - own) * statistics.others;
        }
        statistics.scaled = Gated && pass.centrality && tile.first_row + row >= pass.num_virtual_nodes;
        statistics.scale = 1.0f;
    }
    if (Gated && pass.centrality) scale_rows(work, tile.num_rows);
}

// to[c] = factor * sum_j x_j m[c, j] for the channels of a head. What lies behind the n numbers of x is left out.
EGT_INLINE void aggregate(float *to, float factor, const float *x, const float *m, int stride, int channels, int n) {
    for (int first = 0; first < channels; first += 8) {
        with_constant<8>(std::min(8, channels - first), [&](auto Channels) EGT_LAMBDA_INLINE {
            constexpr int count = Channels;
            Lanes sum[8] = {};
            for (int j = 0; j < n; j += kLanes) {
                const Lanes lanes = keep_where(first_lanes(n - j), load(x + j));
#pragma GCC unroll 8
                for (int c = 0; c < count; ++c) sum[c] += lanes * load(m + (first + c) * stride + j);
            }
            const Lanes total = sums_of(sum) * factor;
            for (int c = 0; c < count; ++c) to[first + c] = total[c];
        });
    }
}

}  // namespace egt::EGT_TARGET
