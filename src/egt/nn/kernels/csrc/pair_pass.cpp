// The C interface of the pair pass: makes the plan and picks the code for the machine at hand.
#include "pair_pass.h"

#include "pass.h"

int egt_pair_pass_has_avx2(void) {
#if EGT_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

int egt_pair_pass_forward(const EgtPairPass *pass, float *out, float *e_new) {
    return egt::status_of([&] {
        const egt::Plan plan(*pass, out != nullptr, e_new != nullptr, false);
        if (!plan.sizes_match()) return egt::kSizesDoNotMatch;
        if (!pass->portable && egt_pair_pass_has_avx2())
            egt::avx2::forward(plan, out, e_new);
        else
            egt::any_machine::forward(plan, out, e_new);
        return egt::kDone;
    });
}

int egt_pair_pass_backward(const EgtPairPass *pass, const float *d_out, const float *d_e_new, float *d_qkv,
                           float *d_e, const EgtPairParameters *d_parameters) {
    return egt::status_of([&] {
        const egt::Plan plan(*pass, d_out != nullptr, d_e_new != nullptr, true);
        if (!plan.sizes_match()) return egt::kSizesDoNotMatch;
        if (!pass->portable && egt_pair_pass_has_avx2())
            egt::avx2::backward(plan, d_out, d_e_new, d_qkv, d_e, *d_parameters);
        else
            egt::any_machine::backward(plan, d_out, d_e_new, d_qkv, d_e, *d_parameters);
        return egt::kDone;
    });
}
