// Eight floats at a time. Written with the compiler's vector types, which lower to whatever the target has; the few
// operations that need a special instruction have an AVX2 form beside the portable one.
#pragma once

#include "target.h"

namespace egt::EGT_TARGET {

constexpr int kLanes = 8;
constexpr int kLineFloats = 16;  // of a cache line
typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t IntLanes __attribute__((vector_size(32)));
typedef uint32_t BitLanes __attribute__((vector_size(32)));
typedef float UnalignedLanes __attribute__((vector_size(32), aligned(4), may_alias));

EGT_INLINE Lanes load(const float *from) { return *reinterpret_cast<const UnalignedLanes *>(from); }
EGT_INLINE void store(float *to, Lanes x) { *reinterpret_cast<UnalignedLanes *>(to) = x; }
EGT_INLINE BitLanes load_bits(const float *from) { return (BitLanes)load(from); }
EGT_INLINE void store_bits(float *to, BitLanes x) { store(to, (Lanes)x); }
EGT_INLINE Lanes splat(float x) { return Lanes{x, x, x, x, x, x, x, x}; }
EGT_INLINE BitLanes splat_bits(uint32_t x) { return BitLanes{x, x, x, x, x, x, x, x}; }
EGT_INLINE Lanes keep_where(IntLanes mask, Lanes x) { return (Lanes)((IntLanes)x & mask); }

// True in the lanes below `count`.
EGT_INLINE IntLanes first_lanes(int count) {
    const IntLanes iota = {0, 1, 2, 3, 4, 5, 6, 7};
    return iota < count;
}

// Stores the lanes below `count` and leaves what lies behind them.
EGT_INLINE void store_first(float *to, int count, Lanes x) {
    if (count < kLanes) x = first_lanes(count) ? x : load(to);
    store(to, x);
}

// A NaN in `x` (the second argument) stays NaN in all three.
#if EGT_AVX2
EGT_INLINE Lanes at_least(float bound, Lanes x) { return _mm256_max_ps(splat(bound), x); }
EGT_INLINE Lanes at_most(float bound, Lanes x) { return _mm256_min_ps(splat(bound), x); }
EGT_INLINE Lanes maximum(Lanes a, Lanes x) { return _mm256_max_ps(a, x); }
#else
EGT_INLINE Lanes at_least(float bound, Lanes x) { return splat(bound) > x ? splat(bound) : x; }
EGT_INLINE Lanes at_most(float bound, Lanes x) { return splat(bound) < x ? splat(bound) : x; }
EGT_INLINE Lanes maximum(Lanes a, Lanes x) { return a > x ? a : x; }
#endif

EGT_INLINE Lanes inverse_root(Lanes x) {
#if EGT_AVX2
    return 1.0f / (Lanes)_mm256_sqrt_ps(x);
#else
    for (int lane = 0; lane < kLanes; ++lane) x[lane] = 1.0f / std::sqrt(x[lane]);
    return x;
#endif
}

// Both in the same order everywhere: halves, then neighbors.
EGT_INLINE float sum_of(Lanes x) {
#if EGT_AVX2
    const __m128 halves = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 neighbors = _mm_add_ps(halves, _mm_movehdup_ps(halves));
    return _mm_cvtss_f32(_mm_add_ss(neighbors, _mm_movehl_ps(neighbors, neighbors)));
#else
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
#endif
}

EGT_INLINE float maximum_of(Lanes x) {
#if EGT_AVX2
    const __m128 halves = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 neighbors = _mm_max_ps(halves, _mm_movehdup_ps(halves));
    return _mm_cvtss_f32(_mm_max_ss(neighbors, _mm_movehl_ps(neighbors, neighbors)));
#else
    float result = x[0];
    for (int lane = 1; lane < kLanes; ++lane) result = x[lane] > result ? x[lane] : result;
    return result;
#endif
}

// Lane k of the result is the sum over the lanes of x[k].
EGT_INLINE Lanes sums_of(const Lanes (&x)[8]) {
#if EGT_AVX2
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(x[4], x[5]), _mm256_hadd_ps(x[6], x[7]));
    return _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31);
#else
    Lanes result;
    for (int k = 0; k < 8; ++k)
        result[k] = ((x[k][0] + x[k][1]) + (x[k][2] + x[k][3])) + ((x[k][4] + x[k][5]) + (x[k][6] + x[k][7]));
    return result;
#endif
}

// exp(min(x, highest)) for highest up to 88: x log2(e) = n + f with |f| <= 1/2, a polynomial for 2^f, times 2^n. The
// relative error is below 1e-6 for |x| < 10 and below 5e-6 everywhere; exp(0) is 1. Stays at the smallest normal float
// below -87.
EGT_INLINE Lanes exponential(Lanes x, float highest) {
    constexpr float log2_e = 1.44269504088896341f;
    constexpr float round_bias = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded number in the low bits
    x = at_least(-87.3f, at_most(highest, x));
    const Lanes shifted = x * log2_e + round_bias;
    const Lanes n = shifted - round_bias;
    const Lanes f = x * log2_e - n;
    Lanes p = f * 1.326472631e-3f + 9.671513009e-3f;
    p = p * f + 5.550733749e-2f;
    p = p * f + 2.402224208e-1f;
    p = p * f + 6.931469776e-1f;
    p = p * f + 1.0f;
    const Lanes power = (Lanes)(((IntLanes)shifted << 23) + (IntLanes)splat(1.0f));
    return p * power;
}

// ln(1 + x) for x >= 0, with a relative error below 3e-7: 1 + x = 2^n m with m between the roots of 1/2 and 2, and
// ln m = 2 artanh s for s = (m - 1) / (m + 1), |s| < 0.172, as a series. What rounding 1 + x took away comes back with
// the slope 1 / (1 + x), and so does a NaN.
EGT_INLINE Lanes log_of_one_plus(Lanes x) {
    constexpr int32_t root_of_half = 0x3F3504F3, one = 0x3F800000;
    const Lanes y = 1.0f + x, lost = x - (y - 1.0f);
    const IntLanes shifted = (IntLanes)y + (one - root_of_half);
    const Lanes n = __builtin_convertvector((shifted >> 23) - 127, Lanes);
    const Lanes m = (Lanes)((shifted & 0x007FFFFF) + root_of_half);
    const Lanes s = (m - 1.0f) / (m + 1.0f), z = s * s;
    const Lanes series = 1.0f + z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9))));
    return n * 0.693147181f + (2.0f * s * series + lost / y);
}

EGT_INLINE Lanes sigmoid(Lanes x) { return 1.0f / (1.0f + exponential(-x, 88.0f)); }

// Transposes an 8 x 8 block in registers.
EGT_INLINE void transpose(Lanes (&x)[8]) {
#if EGT_AVX2
    __m256 a[8], b[8];
    for (int k = 0; k < 4; ++k) {
        a[2 * k] = _mm256_unpacklo_ps(x[2 * k], x[2 * k + 1]);
        a[2 * k + 1] = _mm256_unpackhi_ps(x[2 * k], x[2 * k + 1]);
    }
    for (int k = 0; k < 2; ++k) {
        b[4 * k] = _mm256_shuffle_ps(a[4 * k], a[4 * k + 2], 0x44);
        b[4 * k + 1] = _mm256_shuffle_ps(a[4 * k], a[4 * k + 2], 0xEE);
        b[4 * k + 2] = _mm256_shuffle_ps(a[4 * k + 1], a[4 * k + 3], 0x44);
        b[4 * k + 3] = _mm256_shuffle_ps(a[4 * k + 1], a[4 * k + 3], 0xEE);
    }
    for (int k = 0; k < 4; ++k) {
        x[k] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x20);
        x[k + 4] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x31);
    }
#else
    for (int row = 0; row < 8; ++row)
        for (int col = 0; col < row; ++col) {
            const float other = x[row][col];
            x[row][col] = x[col][row];
            x[col][row] = other;
        }
#endif
}

// Calls body(first row, rows) for blocks of at most eight rows; `rows` is a constant where the block is whole.
template <class Body>
EGT_INLINE void for_each_eight(int count, Body body) {
    int row = 0;
    for (; row + 8 <= count; row += 8) body(row, std::integral_constant<int, 8>{});
    if (row < count) body(row, count - row);
}

// Reads `count` rows of `channels` floats, row k at from(k), into channel-major form: to[c * stride + row]. The rows up to
// the next multiple of eight become zero.
template <class From>
EGT_INLINE void gather_channels(From from, int count, int channels, float *to, int stride) {
    for_each_eight(count, [&](int row, auto rows) EGT_LAMBDA_INLINE {
        const float *row_at[8];
        for (int k = 0; k < rows; ++k) row_at[k] = from(row + k);
        int c = 0;
        for (; c + 8 <= channels; c += 8) {
            Lanes block[8];
            for (int k = 0; k < 8; ++k) block[k] = k < rows ? load(row_at[k] + c) : Lanes{};
            transpose(block);
            for (int k = 0; k < 8; ++k) store(to + (c + k) * stride + row, block[k]);
        }
        for (; c < channels; ++c)
            for (int k = 0; k < 8; ++k) to[c * stride + row + k] = k < rows ? row_at[k][c] : 0.0f;
    });
}

// The same for rows that are `source_stride` apart; those that follow are asked for.
inline void load_channels(const float *from, int64_t source_stride, int count, int channels, float *to, int stride) {
    const auto at = [=](int row) EGT_LAMBDA_INLINE {
        const float *soon = from + (row + 16) * source_stride;
        for (int c = 0; c < channels; c += kLineFloats) __builtin_prefetch(soon + c);
        return from + row * source_stride;
    };
    gather_channels(at, count, channels, to, stride);
}

// The way back: rows of `channels` floats, `target_stride` apart.
inline void store_channels(const float *from, int stride, int count, int channels, float *to, int64_t target_stride) {
    for_each_eight(count, [&](int row, auto rows) EGT_LAMBDA_INLINE {
        int c = 0;
        for (; c + 8 <= channels; c += 8) {
            Lanes block[8];
            for (int k = 0; k < 8; ++k) block[k] = load(from + (c + k) * stride + row);
            transpose(block);
            for (int k = 0; k < rows; ++k) store(to + (row + k) * target_stride + c, block[k]);
        }
        for (; c < channels; ++c)
            for (int k = 0; k < rows; ++k) to[(row + k) * target_stride + c] = from[c * stride + row + k];
    });
}

// Adds row k to the one at to(k), row after row: several may be the same.
template <class To>
EGT_INLINE void scatter_channels(const float *from, int stride, int count, int channels, To to) {
    for_each_eight(count, [&](int row, auto rows) EGT_LAMBDA_INLINE {
        float *row_at[8];
        for (int k = 0; k < rows; ++k) row_at[k] = to(row + k);
        int c = 0;
        for (; c + 8 <= channels; c += 8) {
            Lanes block[8];
            for (int k = 0; k < 8; ++k) block[k] = load(from + (c + k) * stride + row);
            transpose(block);
            for (int k = 0; k < rows; ++k) store(row_at[k] + c, load(row_at[k] + c) + block[k]);
        }
        for (; c < channels; ++c)
            for (int k = 0; k < rows; ++k) row_at[k][c] += from[c * stride + row + k];
    });
}

}  // namespace egt::EGT_TARGET
