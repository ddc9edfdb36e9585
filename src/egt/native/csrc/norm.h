// LayerNorm over the channels of a channel-major tile, without its affine part (folded into the next linear map).
#pragma once

#include "gemm.h"
#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// One block of `normalize`: `Vectors` times eight pairs side by side, as sums over channels wait for one another.
template <int Vectors>
EGT_INLINE void normalize_block(float *normalized, int normalized_stride, const float *x, int stride, int channels,
                                float eps, float *inverse_std) {
    const float share = 1.0f / channels;
    Lanes mean[Vectors] = {}, variance[Vectors] = {};
    for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) mean[v] += load(x + c * stride + v * kLanes);
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) mean[v] *= share;
    for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
            const Lanes centered = load(x + c * stride + v * kLanes) - mean[v];
            variance[v] += centered * centered;
        }
    }
    Lanes scale[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
        scale[v] = inverse_root(variance[v] * share + eps);
        store(inverse_std + v * kLanes, scale[v]);
    }
    for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v)
            store(normalized + c * normalized_stride + v * kLanes,
                  (load(x + c * stride + v * kLanes) - mean[v]) * scale[v]);
    }
}

// normalized = (x - mean) / sqrt(variance + eps); 1 / sqrt(variance + eps) per pair goes to `inverse_std`.
inline void normalize(float *normalized, int normalized_stride, const float *x, int stride, int channels, int width,
                      float eps, float *inverse_std) {
    for (int pair = 0; pair < width; pair += 4 * kLanes)
        with_constant<4>(std::min(4, (width - pair) / kLanes), [&](auto Vectors) EGT_LAMBDA_INLINE {
            normalize_block<Vectors>(normalized + pair, normalized_stride, x + pair, stride, channels, eps,
                                     inverse_std + pair);
        });
}

// One block of `add_norm_gradient`.
template <int Vectors>
EGT_INLINE void add_norm_gradient_block(float *dx, int dx_stride, const float *d_normalized, int d_stride,
                                        const float *normalized, int stride, int channels, const float *inverse_std) {
    const float share = 1.0f / channels;
    Lanes mean[Vectors] = {}, slope[Vectors] = {};
    for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
            const Lanes d = load(d_normalized + c * d_stride + v * kLanes);
            mean[v] += d;
            slope[v] += d * load(normalized + c * stride + v * kLanes);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) mean[v] *= share, slope[v] *= share;
    for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
            const Lanes d = load(d_normalized + c * d_stride + v * kLanes) - mean[v];
            const Lanes change = d - load(normalized + c * stride + v * kLanes) * slope[v];
            float *at = dx + c * dx_stride + v * kLanes;
            store(at, load(at) + change * load(inverse_std + v * kLanes));
        }
    }
}

// Adds to dx the gradient that reaches x through normalized = (x - mean) * inverse_std.
inline void add_norm_gradient(float *dx, int dx_stride, const float *d_normalized, int d_stride,
                              const float *normalized, int stride, int channels, int width, const float *inverse_std) {
    for (int pair = 0; pair < width; pair += 4 * kLanes)
        with_constant<4>(std::min(4, (width - pair) / kLanes), [&](auto Vectors) EGT_LAMBDA_INLINE {
            add_norm_gradient_block<Vectors>(dx + pair, dx_stride, d_normalized + pair, d_stride, normalized + pair,
                                             stride, channels, inverse_std + pair);
        });
}

}  // namespace egt::EGT_TARGET
