// The C interface: makes the plan and picks the code for the machine at hand.
#include "pair_pass.h"

#include <new>

#include "pass.h"

namespace {

enum Status { kDone = 0, kSizesDoNotMatch = 1, kOutOfMemory = 2 };

#if EGT_X86
bool use_avx2(const EgtPairPass &pass) { return !pass.portable && egt_pair_pass_has_avx2(); }
#endif

}  // namespace

int egt_pair_pass_has_avx2(void) {
#if EGT_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

int egt_pair_pass_forward(const EgtPairPass *pass, float *out, float *e_new) try {
    const egt::Plan plan(*pass, out != nullptr, e_new != nullptr, false);
    if (!plan.sizes_match()) return kSizesDoNotMatch;
#if EGT_X86
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
#if EGT_X86
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
