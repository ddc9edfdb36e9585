// Weight matrices packed for the tile GEMM, with the affine part of a LayerNorm folded in.
#pragma once

#include <cstddef>
#include <vector>

namespace egt {

// The rows of a matrix are multiplied in nearly equal blocks of at most this many: 6 x 2 vector accumulators, two inputs
// and a broadcast fill the 16 vector registers of AVX2.
constexpr int kMaxBlockRows = 6;

// The blocks of a matrix with so many rows; the larger ones come first.
struct RowBlocks {
    int count, smaller_size, num_larger;

    explicit RowBlocks(int rows) {
        count = (rows + kMaxBlockRows - 1) / kMaxBlockRows;
        smaller_size = count > 0 ? rows / count : 0;
        num_larger = rows - count * smaller_size;
    }
    int size(int block) const { return smaller_size + (block < num_larger); }
};

// A (rows, cols) matrix stored as blocks of rows, each block column by column, with a bias per row.
struct PackedMatrix {
    int rows = 0, cols = 0;
    std::vector<float> data, bias;

    // The weights of the block that starts at a row.
    const float *block(int start) const { return data.data() + static_cast<size_t>(start) * cols; }
};

// Packs entry(row, col); `bias` may be null.
template <class Entry>
PackedMatrix pack(int rows, int cols, Entry entry, const float *bias = nullptr) {
    PackedMatrix packed;
    packed.rows = rows;
    packed.cols = cols;
    packed.data.resize(static_cast<size_t>(rows) * cols);
    float *to = packed.data.data();
    const RowBlocks blocks(rows);
    for (int block = 0, start = 0; block < blocks.count; start += blocks.size(block++))
        for (int col = 0; col < cols; ++col)
            for (int row = 0; row < blocks.size(block); ++row) *to++ = entry(start + row, col);
    packed.bias.assign(rows, 0.0f);
    if (bias != nullptr) packed.bias.assign(bias, bias + rows);
    return packed;
}

// A linear map behind a LayerNorm: W (gamma * x + beta) + b = (W gamma) x + (b + W beta).
struct FoldedLinear {
    int rows = 0, cols = 0;
    std::vector<float> weight, bias;
};

// `gamma` and `beta` may be null (no norm, or a map that reads the plain input).
inline void append_folded(FoldedLinear &linear, const float *weight, const float *bias, int rows, int cols,
                          const float *gamma, const float *beta) {
    const int first = linear.rows;
    linear.rows += rows;
    linear.cols = cols;
    linear.weight.resize(static_cast<size_t>(linear.rows) * cols);
    linear.bias.resize(linear.rows);
    for (int row = 0; row < rows; ++row) {
        const float *from = weight + static_cast<size_t>(row) * cols;
        float *to = linear.weight.data() + static_cast<size_t>(first + row) * cols;
        double shift = bias[row];
        for (int col = 0; col < cols; ++col) to[col] = gamma != nullptr ? from[col] * gamma[col] : from[col];
        if (beta != nullptr)
            for (int col = 0; col < cols; ++col) shift += static_cast<double>(from[col]) * beta[col];
        linear.bias[first + row] = static_cast<float>(shift);
    }
}

inline PackedMatrix pack(const FoldedLinear &linear) {
    return pack(linear.rows, linear.cols,
                [&](int row, int col) { return linear.weight[static_cast<size_t>(row) * linear.cols + col]; },
                linear.bias.data());
}

inline PackedMatrix pack_transposed(const FoldedLinear &linear) {
    return pack(linear.cols, linear.rows,
                [&](int row, int col) { return linear.weight[static_cast<size_t>(col) * linear.cols + row]; });
}

// Turns the gradient of a folded map, d_folded(row, col), back into gradients of W, b, gamma and beta (all added to).
template <class Entry>
void add_unfolded(Entry d_folded, const float *d_folded_bias, const float *weight, int rows, int cols,
                  const float *gamma, const float *beta, float *d_weight, float *d_bias, float *d_gamma,
                  float *d_beta) {
    for (int row = 0; row < rows; ++row) {
        d_bias[row] += d_folded_bias[row];
        for (int col = 0; col < cols; ++col) {
            const size_t at = static_cast<size_t>(row) * cols + col;
            const float d = d_folded(row, col);
            if (gamma == nullptr) {
                d_weight[at] += d;
                continue;
            }
            d_weight[at] += d * gamma[col] + d_folded_bias[row] * beta[col];
            d_gamma[col] += d * weight[at];
            d_beta[col] += d_folded_bias[row] * weight[at];
        }
    }
}

}  // namespace egt
