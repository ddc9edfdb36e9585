// Products of row-major matrices, for the nodes: C += A B with B in panels of a few columns, so that the columns fill
// the lanes and a row of A is read as it lies in memory.
#pragma once

#include "gemm.h"
#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

constexpr int kPanelWidth = kBlockVectors * kLanes;
constexpr int kDepth = 512;  // of B at a time: such a piece of a panel stays in the cache while all rows pass by

// `count` rows of `width` floats, `stride` apart.
template <class Float>
struct RowsOf {
    Float *data;
    int count, width;
    int64_t stride;

    Float *operator[](int row) const { return data + row * stride; }
};
using Rows = RowsOf<float>;             // in a buffer with room for whole panels: see take_rows
using GivenRows = RowsOf<const float>;  // anywhere

inline GivenRows given(const Rows &x) { return {x.data, x.count, x.width, x.stride}; }

// One block: C (Height x a panel) = start + A (Height x depth) B (depth x a panel).
template <int Height>
EGT_INLINE void multiply_rows_block(float *C, int64_t C_stride, const float *start, int64_t start_stride,
                                    const float *A, int64_t A_stride, const float *panel, int depth) {
    Lanes sum[Height][kBlockVectors];
#pragma GCC unroll 6
    for (int row = 0; row < Height; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < kBlockVectors; ++v) sum[row][v] = load(start + row * start_stride + v * kLanes);
    for (int k = 0; k < depth; ++k) {
        Lanes b[kBlockVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kBlockVectors; ++v) b[v] = load(panel + k * kPanelWidth + v * kLanes);
#pragma GCC unroll 6
        for (int row = 0; row < Height; ++row) {
            const Lanes a = splat(A[row * A_stride + k]);
#pragma GCC unroll 2
            for (int v = 0; v < kBlockVectors; ++v) sum[row][v] += a * b[v];
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < Height; ++row)
#pragma GCC unroll 2
        for (int v = 0; v < kBlockVectors; ++v) store(C + row * C_stride + v * kLanes, sum[row][v]);
}

// C (rows x a panel) = start + A (rows x depth) B (depth x a panel), for the rows of A.
inline void multiply_panel(float *C, int64_t C_stride, const float *start, int64_t start_stride, const GivenRows &A,
                           const float *panel, int depth) {
    const RowBlocks blocks(A.count);
    for (int block = 0, row = 0; block < blocks.count; row += blocks.size(block++))
        with_constant<kMaxBlockRows>(blocks.size(block), [&](auto Height) EGT_LAMBDA_INLINE {
            multiply_rows_block<Height>(C + row * C_stride, C_stride, start + row * start_stride, start_stride, A[row],
                                        A.stride, panel, depth);
        });
}

// A matrix of `depth` rows and `width` columns as panels, one behind the other; zeros follow its last columns up to a
// whole vector.
struct Panels {
    int depth, width, count;
    std::unique_ptr<float[]> data;

    Panels(int depth, int width)
        : depth(depth),
          width(width),
          count((width + kPanelWidth - 1) / kPanelWidth),
          data(new float[size_t(count) * depth * kPanelWidth]) {}
    float *panel(int index) const { return data.get() + size_t(index) * depth * kPanelWidth; }
    int columns(int index) const { return std::min(kPanelWidth, width - index * kPanelWidth); }
};

// A panel of some columns of a row-major matrix, from the first of them on.
inline void copy_panel(float *panel, const float *from, int64_t stride, int columns, int depth) {
    for (int k = 0; k < depth; ++k, panel += kPanelWidth, from += stride) {
        if (columns == kPanelWidth) {
            for (int c = 0; c < kPanelWidth; c += kLanes) store(panel + c, load(from + c));
        } else {
            std::copy_n(from, columns, panel);
            std::fill(panel + columns, panel + kPanelWidth, 0.0f);
        }
    }
}

// The panels of W (depth, width) or, `transposed`, of W^T where W is (width, depth); packed by all threads.
template <class Call>
Panels pack_panels(const Call &call, const float *W, int depth, int width, bool transposed) {
    Panels panels(depth, width);
    for_each_part(panels.count, static_cast<int>(call.num_threads), call.run_parallel, [&](int index) {
        float *panel = panels.panel(index);
        const int first = index * kPanelWidth, columns = panels.columns(index);
        if (!transposed) return copy_panel(panel, W + first, width, columns, depth);
        load_channels(W + int64_t{first} * depth, depth, columns, depth, panel, kPanelWidth);
    });
    return panels;
}

// C = start + A B in whole panels, where C are the columns of B's panels from `first_panel` on, as many as C has. A
// start_stride of 0 adds the same row everywhere.
inline void multiply_rows(const Rows &C, const float *start, int64_t start_stride, const GivenRows &A, const Panels &B,
                          int first_panel = 0) {
    for (int k = 0; k < B.depth; k += kDepth) {
        const int depth = std::min(kDepth, B.depth - k);
        const GivenRows some{A.data + k, A.count, depth, A.stride};
        for (int column = 0; column < C.width; column += kPanelWidth) {
            const float *panel = B.panel(first_panel + column / kPanelWidth) + k * kPanelWidth;
            float *to = C.data + column;
            if (k == 0)
                multiply_panel(to, C.stride, start + column, start_stride, some, panel, depth);
            else
                multiply_panel(to, C.stride, to, C.stride, some, panel, depth);
        }
    }
}

}  // namespace egt::EGT_TARGET
