// The non-linearities of the feed-forward blocks. Each is a type, so that loops over its numbers contain no choice.
#pragma once

#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// x, and e^x - 1 below zero.
struct Elu {
    EGT_INLINE Lanes value(Lanes x) { return at_least(0.0f, x) + (exponential(x, 0.0f) - 1.0f); }
    EGT_INLINE Lanes slope(Lanes x) { return exponential(x, 0.0f); }
    // d times the slope, from the value: a backward pass that has the one needs no more for the other. Written with one
    // constant: behind a block of products there is no register left for a second.
    EGT_INLINE Lanes times_slope(Lanes d, Lanes value) { return d * at_most(0.0f, value) + d; }
};

// max(x, 0).
struct Relu {
    EGT_INLINE Lanes value(Lanes x) { return at_least(0.0f, x); }
    EGT_INLINE Lanes slope(Lanes x) { return keep_where(x > 0.0f, splat(1.0f)); }
};

// x sigmoid(x).
struct Silu {
    EGT_INLINE Lanes value(Lanes x) { return x * sigmoid(x); }
    EGT_INLINE Lanes slope(Lanes x) {
        const Lanes s = sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};

// x Phi(x), with Phi the distribution function of the standard normal.
struct Gelu {
    // Phi(x) from bell = exp(-x^2 / 2), by formula 7.1.26 of Abramowitz and Stegun: the error is below 2e-7.
    EGT_INLINE Lanes normal_share(Lanes x, Lanes bell) {
        const Lanes size = maximum(-x, x);
        const Lanes t = 1.0f / (1.0f + size * 0.2316418882f);  // 0.3275911 / sqrt(2)
        Lanes p = t * 1.061405429f - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        const Lanes tail = 0.5f * t * p * bell;  // Phi(-|x|)
        return x < 0.0f ? tail : 1.0f - tail;
    }
    EGT_INLINE Lanes bell(Lanes x) { return exponential(-0.5f * x * x, 0.0f); }

    EGT_INLINE Lanes value(Lanes x) { return x * normal_share(x, bell(x)); }
    EGT_INLINE Lanes slope(Lanes x) {
        constexpr float density_at_zero = 0.3989422804f;  // 1 / sqrt(2 pi)
        const Lanes height = bell(x);
        return normal_share(x, height) + x * height * density_at_zero;
    }
};

// x becomes act(x) for rows of `width` numbers, `stride` apart; `slopes` (may be null) receives the derivatives.
template <class Activation>
inline void activate_with(float *x, float *slopes, int64_t stride, int rows, int width) {
    for (int row = 0; row < rows; ++row)
        for (int c = 0; c < width; c += kLanes) {
            const int64_t at = row * stride + c;
            const Lanes input = load(x + at);
            store(x + at, Activation::value(input));
            if (slopes != nullptr) store(slopes + at, Activation::slope(input));
        }
}

inline void activate(int64_t activation, float *x, float *slopes, int64_t stride, int rows, int width) {
    switch (activation) {
        case kEgtGelu:
            return activate_with<Gelu>(x, slopes, stride, rows, width);
        case kEgtRelu:
            return activate_with<Relu>(x, slopes, stride, rows, width);
        case kEgtSilu:
            return activate_with<Silu>(x, slopes, stride, rows, width);
        default:
            return activate_with<Elu>(x, slopes, stride, rows, width);
    }
}

// Whether a backward pass keeps the values of the activation; else it keeps what they are computed from.
inline bool keeps_values(int64_t activation) { return activation == kEgtElu; }

}  // namespace egt::EGT_TARGET
