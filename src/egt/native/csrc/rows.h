// Row-major tiles of nodes: where they live, and what happens to them between two products.
#pragma once

#include "lanes.h"
#include "products.h"
#include "target.h"

namespace egt::EGT_TARGET {

// Buffers for so many rows of such widths, from this thread's scratch. Rows spread over the cache and have room for
// whole panels.
template <size_t N>
std::array<Rows, N> take_rows(const int (&shapes)[N][2]) {
    std::array<Rows, N> taken;
    size_t total = 0;
    for (size_t i = 0; i < N; ++i) {
        taken[i] = {nullptr, shapes[i][0], shapes[i][1], spread_stride(shapes[i][1])};
        total += Scratch::padded(taken[i].count * taken[i].stride);
    }
    Scratch &scratch = own_scratch();
    scratch.start(total);
    for (Rows &rows : taken) rows.data = scratch.take(rows.count * rows.stride);
    return taken;
}

// Copies rows in, with zeros behind them, and out.
inline void read_rows(const Rows &to, const float *from) {
    for (int row = 0; row < to.count; ++row) {
        std::copy_n(from + int64_t{row} * to.width, to.width, to[row]);
        std::fill(to[row] + to.width, to[row] + to.stride, 0.0f);
    }
}

inline void write_rows(const Rows &from, float *to, int64_t stride) {
    for (int row = 0; row < from.count; ++row) std::copy_n(from[row], from.width, to + row * stride);
}

inline void write_rows(const Rows &from, float *to) { write_rows(from, to, from.width); }

// The rows from `first` on of a matrix in panels.
inline void write_panels(const Rows &from, const Panels &to, int64_t first) {
    for (int index = 0; index < to.count; ++index)
        copy_panel(to.panel(index) + first * kPanelWidth, from.data + index * kPanelWidth, from.stride,
                   to.columns(index), from.count);
}

inline void add_to_rows(const Rows &x, const float *row) {
    for (int r = 0; r < x.count; ++r)
        for (int c = 0; c < x.width; c += kLanes) store(x[r] + c, load(x[r] + c) + load(row + c));
}

// x += y * factors, where the factors lie in memory without gaps.
inline void add_scaled_rows(const Rows &x, const Rows &y, const float *factors) {
    for (int r = 0; r < x.count; ++r)
        for (int c = 0; c < x.width; ++c) x[r][c] += y[r][c] * factors[int64_t{r} * x.width + c];
}

// y = start + A B for rows that lie in memory without gaps. `rest` is a buffer for the columns behind whole panels.
inline void multiply_out(float *y, const float *start, int64_t start_stride, const GivenRows &A, const Panels &B,
                         const Rows &rest) {
    const int whole = B.width / kPanelWidth * kPanelWidth;
    multiply_rows({y, A.count, whole, B.width}, start, start_stride, A, B);
    if (whole == B.width) return;
    const Rows last{rest.data, A.count, B.width - whole, rest.stride};
    multiply_rows(last, start + whole, start_stride, A, B, whole / kPanelWidth);
    write_rows(last, y + whole, B.width);
}

// (x - mean) / sqrt(variance + eps) of a row.
struct RowNorm {
    float mean, inverse_std;

    RowNorm(const float *x, int width, float eps) {
        Lanes sum = {}, squares = {};
        for (int c = 0; c < width; c += kLanes) sum += load(x + c);  // zeros behind the row
        mean = sum_of(sum) / width;
        for (int c = 0; c < width; c += kLanes) {
            const Lanes centered = keep_where(first_lanes(width - c), load(x + c) - mean);
            squares += centered * centered;
        }
        inverse_std = 1.0f / std::sqrt(sum_of(squares) / width + eps);
    }
    EGT_LAMBDA_INLINE Lanes operator()(Lanes x) const { return (x - mean) * inverse_std; }
};

// LN with its affine part, padded with zeros.
struct Norm {
    Rows weight, bias;
    float eps;

    // normalized = LN(x); both may be the same.
    void apply(const Rows &normalized, const Rows &x) const {
        for (int row = 0; row < x.count; ++row) {
            const RowNorm norm(x[row], x.width, eps);
            for (int c = 0; c < x.width; c += kLanes)
                store(normalized[row] + c, norm(load(x[row] + c)) * load(weight.data + c) + load(bias.data + c));
        }
    }

    // From the gradient of LN(x) to that of x, both in d; x becomes LN(x). The sums receive the gradients of the
    // affine part.
    void apply_backward(const Rows &x, const Rows &d, float *d_weight, float *d_bias) const {
        const float share = 1.0f / x.width;
        for (int row = 0; row < x.count; ++row) {
            const RowNorm norm(x[row], x.width, eps);
            Lanes sum = {}, slope_sum = {};
            for (int c = 0; c < x.width; c += kLanes) {
                const Lanes normal = norm(load(x[row] + c)), d_y = load(d[row] + c);
                const Lanes d_normal = d_y * load(weight.data + c);
                sum += d_normal;
                slope_sum += d_normal * normal;
                store(d_weight + c, load(d_weight + c) + d_y * normal);
                store(d_bias + c, load(d_bias + c) + d_y);
            }
            const float mean = sum_of(sum) * share, slope = sum_of(slope_sum) * share;
            for (int c = 0; c < x.width; c += kLanes) {
                const Lanes normal = norm(load(x[row] + c)), gamma = load(weight.data + c);
                store(d[row] + c, (load(d[row] + c) * gamma - mean - normal * slope) * norm.inverse_std);
                store(x[row] + c, normal * gamma + load(bias.data + c));
            }
        }
    }
};

}  // namespace egt::EGT_TARGET
