// The C interface. The pass itself (*.inc) is compiled twice from the same text: once for any machine, and on x86
// once for AVX2 with FMA; the machine at hand decides at run time.
#include "pair_pass.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#include "parallel.h"
#include "plan.h"
#include "scratch.h"
#include "weights.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define EGT_HAS_X86 1
#include <immintrin.h>
#else
#define EGT_HAS_X86 0
#endif

#define EGT_INLINE static inline __attribute__((always_inline))
#define EGT_LAMBDA_INLINE __attribute__((always_inline))

#define EGT_AVX2 0
namespace egt::any_machine {
#include "lanes.inc"
#include "gemm.inc"
#include "norm.inc"
#include "work.inc"
#include "attention.inc"
#include "edges.inc"
#include "pass.inc"
}  // namespace egt::any_machine
#undef EGT_AVX2

#if EGT_HAS_X86
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define EGT_AVX2 1
namespace egt::avx2 {
#include "lanes.inc"
#include "gemm.inc"
#include "norm.inc"
#include "work.inc"
#include "attention.inc"
#include "edges.inc"
#include "pass.inc"
}  // namespace egt::avx2
#undef EGT_AVX2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace {

constexpr int kDone = 0, kSizesDoNotMatch = 1, kOutOfMemory = 2;

bool use_avx2(const EgtPairPass &pass) { return !pass.portable && egt_pair_pass_has_avx2(); }

}  // namespace

int egt_pair_pass_has_avx2(void) {
#if EGT_HAS_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

int egt_pair_pass_forward(const EgtPairPass *pass, float *out, float *e_new) try {
    const egt::Plan plan(*pass, out != nullptr, e_new != nullptr, false);
    if (!plan.sizes_match()) return kSizesDoNotMatch;
#if EGT_HAS_X86
    if (use_avx2(*pass)) {
        egt::avx2::forward(plan, out, e_new);
        return kDone;
    }
#endif
    egt::any_machine::forward(plan, out, e_new);
    return kDone;
} catch (const std::bad_alloc &) {
    return kOutOfMemory;
}

int egt_pair_pass_backward(const EgtPairPass *pass, const float *d_out, const float *d_e_new, float *d_qkv,
                           float *d_e, const EgtPairParameters *d_parameters) try {
    const egt::Plan plan(*pass, d_out != nullptr, d_e_new != nullptr, true);
    if (!plan.sizes_match()) return kSizesDoNotMatch;
#if EGT_HAS_X86
    if (use_avx2(*pass)) {
        egt::avx2::backward(plan, d_out, d_e_new, d_qkv, d_e, *d_parameters);
        return kDone;
    }
#endif
    egt::any_machine::backward(plan, d_out, d_e_new, d_qkv, d_e, *d_parameters);
    return kDone;
} catch (const std::bad_alloc &) {
    return kOutOfMemory;
}
