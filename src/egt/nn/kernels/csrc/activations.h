// The non-linearities of the feed-forward blocks. Each is a type, so that loops over its numbers contain no choice.
#pragma once

#include "lanes.h"
#include "target.h"

namespace egt::EGT_TARGET {

// x, and e^x - 1 below zero. `slope(kept)` is the derivative from what a backward pass keeps: the value where that is
// enough (`kSlopeFromValue`), else x.
struct Elu {
    static constexpr bool kSlopeFromValue = true;
    EGT_INLINE Lanes value(Lanes x) { return at_least(0.0f, x) + (exponential(x, 0.0f) - 1.0f); }
    EGT_INLINE Lanes slope(Lanes value) { return at_most(0.0f, value) + 1.0f; }
};

// max(x, 0).
struct Relu {
    static constexpr bool kSlopeFromValue = true;
    EGT_INLINE Lanes value(Lanes x) { return at_least(0.0f, x); }
    EGT_INLINE Lanes slope(Lanes value) { return keep_where(value > 0.0f, splat(1.0f)); }
};

// x sigmoid(x).
struct Silu {
    static constexpr bool kSlopeFromValue = false;
    EGT_INLINE Lanes value(Lanes x) { return x * sigmoid(x); }
    EGT_INLINE Lanes slope(Lanes x) {
        const Lanes s = sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};

// x Phi(x), with Phi the distribution function of the standard normal.
struct Gelu {
    static constexpr bool kSlopeFromValue = false;

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

// Calls body with a value of the activation's type.
template <class Body>
inline void with_activation(int64_t activation, Body body) {
    switch (activation) {
        case kEgtGelu:
            return body(Gelu{});
        case kEgtRelu:
            return body(Relu{});
        case kEgtSilu:
            return body(Silu{});
        default:
            return body(Elu{});
    }
}

}  // namespace egt::EGT_TARGET
