// Small matrix products on channel-major tiles: x[channel * stride + pair], pairs in the lanes. Any number of channels
// is as good as any other, and everything between two products is plain vertical arithmetic.
#pragma once

#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// Vectors of a register block: 6 x 2 fill the registers of AVX2, 6 x 1 those of a machine with vectors half as wide.
constexpr int kBlockVectors = EGT_AVX2 ? 2 : 1;

// Calls body with an integral_constant equal to n, 1 <= n <= Max: a run-time count becomes a compile-time one.
template <int Max, class Body>
EGT_INLINE void with_constant(int n, Body body) {
    if constexpr (Max > 1) {
        if (n < Max) return with_constant<Max - 1>(n, body);
    }
    body(std::integral_constant<int, Max>{});
}

// One block of `Rows` outputs for `8 * Vectors` pairs, handed to finish(row, offset of the lanes, value).
template <int Rows, int Vectors, class Finish>
EGT_INLINE void multiply_block(const PackedMatrix &W, int start, const float *x, int stride, Finish finish) {
    const float *weight = W.block(start);
    Lanes sum[Rows][Vectors];
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[row][v] = splat(W.bias[start + row]);
    for (int col = 0; col < W.cols; ++col) {
        Lanes input[Vectors];
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) input[v] = load(x + v * kLanes);
#pragma GCC unroll 6
        for (int row = 0; row < Rows; ++row) {
            const Lanes w = splat(weight[col * Rows + row]);
#pragma GCC unroll 2
            for (int v = 0; v < Vectors; ++v) sum[row][v] += w * input[v];
        }
        x += stride;
    }
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) finish(start + row, v * kLanes, sum[row][v]);
}

struct Nothing {
    void operator()() const {}
};

// y = W x + b for `width` pairs (a multiple of eight): finish(row, pair, value) receives eight pairs of an output row.
// between() is called before each block of products.
template <class Finish, class Between = Nothing>
EGT_INLINE void multiply(const PackedMatrix &W, const float *x, int stride, int width, Finish finish, Between between = {}) {
    const RowBlocks blocks(W.rows);
    for (int pair = 0; pair < width; pair += kBlockVectors * kLanes) {
        const bool whole = pair + (kBlockVectors - 1) * kLanes < width;
        const auto place = [&](int row, int lane, Lanes value) EGT_LAMBDA_INLINE { finish(row, pair + lane, value); };
        for (int block = 0, start = 0; block < blocks.count; start += blocks.size(block++)) {
            between();
            with_constant<kMaxBlockRows>(blocks.size(block), [&](auto Rows) EGT_LAMBDA_INLINE {
                if (whole)
                    multiply_block<Rows, kBlockVectors>(W, start, x + pair, stride, place);
                else
                    multiply_block<Rows, 1>(W, start, x + pair, stride, place);
            });
        }
    }
}

// Writes the product into y.
template <class Between = Nothing>
inline void multiply_into(float *y, int y_stride, const PackedMatrix &W, const float *x, int stride, int width,
                          Between between = {}) {
    const auto place = [=](int row, int pair, Lanes value) EGT_LAMBDA_INLINE {
        store(y + row * y_stride + pair, value);
    };
    multiply(W, x, stride, width, place, between);
}

// Adds the product to y.
inline void multiply_onto(float *y, int y_stride, const PackedMatrix &W, const float *x, int stride, int width) {
    multiply(W, x, stride, width, [=](int row, int pair, Lanes value) EGT_LAMBDA_INLINE {
        float *at = y + row * y_stride + pair;
        store(at, load(at) + value);
    });
}

// One block of a weight gradient: `Rows` rows and 8 * Vectors columns.
template <int Rows, int Vectors>
EGT_INLINE void add_outer_block(float *dW, int dW_stride, const float *dy, int dy_stride, const float *x, int x_stride,
                                int count) {
    Lanes sum[Rows][Vectors];
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[row][v] = load(dW + row * dW_stride + v * kLanes);
    for (int pair = 0; pair < count; ++pair) {
        Lanes input[Vectors];
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) input[v] = load(x + v * kLanes);
#pragma GCC unroll 6
        for (int row = 0; row < Rows; ++row) {
            const Lanes d = splat(dy[row * dy_stride + pair]);
#pragma GCC unroll 2
            for (int v = 0; v < Vectors; ++v) sum[row][v] += d * input[v];
        }
        x += x_stride;
    }
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) store(dW + row * dW_stride + v * kLanes, sum[row][v]);
}

// dW[row, col] += sum over pairs of dy[row] x[col]: the weight gradient of y = W x. Here x is pair-major,
// x[pair * stride + col], so that columns fill the lanes and nothing is summed across lanes. dW has the same stride;
// the columns, padded to whole vectors, are at most that many.
inline void add_weight_gradient(float *dW, int rows, int cols, const float *dy, int dy_stride, const float *x,
                                int stride, int count) {
    const RowBlocks blocks(rows);
    for (int col = 0; col < cols; col += kBlockVectors * kLanes) {
        const bool whole = col + (kBlockVectors - 1) * kLanes < cols;
        for (int block = 0, row = 0; block < blocks.count; row += blocks.size(block++)) {
            with_constant<kMaxBlockRows>(blocks.size(block), [&](auto Rows) EGT_LAMBDA_INLINE {
                float *target = dW + row * stride + col;
                const float *d = dy + row * dy_stride;
                if (whole)
                    add_outer_block<Rows, kBlockVectors>(target, stride, d, dy_stride, x + col, stride, count);
                else
                    add_outer_block<Rows, 1>(target, stride, d, dy_stride, x + col, stride, count);
            });
        }
    }
}

// db[row] += sum over pairs of dy[row].
inline void add_bias_gradient(float *db, int rows, const float *dy, int dy_stride, int width) {
    for (int row = 0; row < rows; ++row) {
        Lanes sum = {};
        for (int pair = 0; pair < width; pair += kLanes) sum += load(dy + row * dy_stride + pair);
        db[row] += sum_of(sum);
    }
}

}  // namespace egt::EGT_TARGET
