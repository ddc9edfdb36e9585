// Attention over a list of pairs, pair after pair: each reads the rows of its two nodes.
#pragma once

#include "lanes.h"
#include "list_pass.h"
#include "parallel.h"
#include "target.h"

namespace egt::EGT_TARGET {

// Calls body(first, last) for nearly equal ranges of [0, count), one for each thread.
template <class Body>
void for_each_range(const EgtPairList &list, int64_t count, Body body) {
    const int64_t parts = std::max<int64_t>(1, std::min(list.num_threads, count));
    for_each_part(static_cast<int>(parts), static_cast<int>(list.num_threads), list.run_parallel,
                  [&](int part) { body(count * part / parts, count * (part + 1) / parts); });
}

// Calls body(width) with the width of a head, as a constant where it is a usual one.
template <class Body>
void with_head_width(int64_t width, Body body) {
    switch (width) {
        case 4: return body(std::integral_constant<int, 4>{});
        case 6: return body(std::integral_constant<int, 6>{});
        case 8: return body(std::integral_constant<int, 8>{});
        case 10: return body(std::integral_constant<int, 10>{});
        default: return body(static_cast<int>(width));
    }
}

inline void list_dot(const EgtPairList &list, const float *x, const float *y, float *product) {
    const int64_t H = list.num_heads;
    with_head_width(list.head_width, [&](auto width) {
        for_each_range(list, list.num_pairs, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p) {
                const float *a = x + list.from[p] * H * width, *b = y + list.to[p] * H * width;
                for (int64_t head = 0; head < H; ++head, a += width, b += width) {
                    float sum = 0.0f;
                    for (int c = 0; c < width; ++c) sum += a[c] * b[c];
                    product[p * H + head] = sum;
                }
            }
        });
    });
}

// Each thread takes some heads: no two of them write the same numbers, whatever the order of the pairs.
inline void list_sum(const EgtPairList &list, const float *weight, const float *y, float *sum) {
    const int64_t H = list.num_heads;
    std::fill_n(sum, list.num_nodes * H * list.head_width, 0.0f);
    with_head_width(list.head_width, [&](auto width) {
        for_each_range(list, H, [&](int64_t first, int64_t last) {
            for (int64_t p = 0; p < list.num_pairs; ++p) {
                const float *from = y + list.to[p] * H * width;
                float *to = sum + list.from[p] * H * width;
                for (int64_t head = first; head < last; ++head) {
                    const float w = weight[p * H + head];
                    for (int c = 0; c < width; ++c) to[head * width + c] += w * from[head * width + c];
                }
            }
        });
    });
}

// Calls body(first pair, pairs) for the pairs from each node; a thread takes those from a run of nodes.
template <class Body>
void for_each_row(const EgtPairList &list, Body body) {
    for_each_range(list, list.num_pairs, [&](int64_t first, int64_t last) {
        const auto starts_row = [&](int64_t p) { return p == 0 || list.from[p] != list.from[p - 1]; };
        while (first < last && !starts_row(first)) ++first;
        while (first < last) {
            int64_t end = first + 1;
            while (end < list.num_pairs && !starts_row(end)) ++end;
            body(first, end - first);
            first = end;
        }
    });
}

// Eight heads of a pair, or as many as there are from `head` on; the lanes behind them are zero.
EGT_INLINE Lanes load_heads(const float *row, int64_t head, int64_t num_heads) {
    if (head + kLanes <= num_heads) return load(row + head);
    Lanes x = {};
    for (int lane = 0; head + lane < num_heads; ++lane) x[lane] = row[head + lane];
    return x;
}

EGT_INLINE void store_heads(float *row, int64_t head, int64_t num_heads, Lanes x) {
    if (head + kLanes <= num_heads) return store(row + head, x);
    for (int lane = 0; head + lane < num_heads; ++lane) row[head + lane] = x[lane];
}

inline void list_softmax(const EgtPairList &list, const float *logits, float *softmax) {
    const int64_t H = list.num_heads;
    for_each_row(list, [&](int64_t first, int64_t count) {
        const float *from = logits + first * H;
        float *to = softmax + first * H;
        for (int64_t head = 0; head < H; head += kLanes) {
            Lanes top = load_heads(from, head, H), sum = {};
            for (int64_t k = 1; k < count; ++k) top = maximum(top, load_heads(from + k * H, head, H));
            for (int64_t k = 0; k < count; ++k) {
                const Lanes x = exponential(load_heads(from + k * H, head, H) - top, 0.0f);
                sum += x;
                store_heads(to + k * H, head, H, x);
            }
            const Lanes factor = 1.0f / sum;
            for (int64_t k = 0; k < count; ++k)
                store_heads(to + k * H, head, H, load_heads(to + k * H, head, H) * factor);
        }
    });
}

inline void list_softmax_backward(const EgtPairList &list, const float *softmax, const float *d_softmax,
                                  float *d_logits) {
    const int64_t H = list.num_heads;
    for_each_row(list, [&](int64_t first, int64_t count) {
        for (int64_t head = 0; head < H; head += kLanes) {
            Lanes sum = {};
            for (int64_t p = first; p < first + count; ++p)
                sum += load_heads(softmax + p * H, head, H) * load_heads(d_softmax + p * H, head, H);
            for (int64_t p = first; p < first + count; ++p) {
                const Lanes d = load_heads(d_softmax + p * H, head, H) - sum;
                store_heads(d_logits + p * H, head, H, load_heads(softmax + p * H, head, H) * d);
            }
        }
    });
}

}  // namespace egt::EGT_TARGET
