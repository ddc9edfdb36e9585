// Weight matrices packed for the tile GEMM, with the affine part of a LayerNorm folded in.
#pragma once

#include <cstddef>
#include <vector>

namespace egt {

// Rows of the packed matrix are cut into nearly equal blocks of at most this many rows: 6 x 2 vector accumulators,
// two inputs and a broadcast fill the 16 vector registers of AVX2.
constexpr int kMaxBlockRows = 6;

// A (rows, cols) matrix stored as blocks of rows, each block column by column, with a bias per row.
struct PackedMatrix {
    int rows = 0, cols = 0;
    std::vector<int> block_start;  // the first row of each block, and the number of rows at the end
    std::vector<float> data;
    std::vector<float> bias;

    int num_blocks() const { return static_cast<int>(block_start.size()) - 1; }
};

// Packs entry(row, col); `bias` may be null.
template <class Entry>
PackedMatrix pack(int rows, int cols, Entry entry, const float *bias = nullptr) {
    PackedMatrix packed;
    packed.rows = rows;
    packed.cols = cols;
    const int num_blocks = (rows + kMaxBlockRows - 1) / kMaxBlockRows;
    for (int block = 0; block <= num_blocks; ++block) packed.block_start.push_back(rows * block / num_blocks);
    packed.data.reserve(static_cast<size_t>(rows) * cols);
    for (int block = 0; block < num_blocks; ++block)
        for (int col = 0; col < cols; ++col)
            for (int row = packed.block_start[block]; row < packed.block_start[block + 1]; ++row)
                packed.data.push_back(entry(row, col));
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
    linear.rows += rows;
    linear.cols = cols;
    for (int row = 0; row < rows; ++row) {
        double shift = bias[row];
        for (int col = 0; col < cols; ++col) {
            const float w = weight[static_cast<size_t>(row) * cols + col];
            linear.weight.push_back(gamma != nullptr ? w * gamma[col] : w);
            if (beta != nullptr) shift += static_cast<double>(w) * beta[col];
        }
        linear.bias.push_back(static_cast<float>(shift));
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
