// What the C interface calls in the kernel: one table of functions for each target that the kernel is compiled for.
#pragma once

#include "node_pass.h"
#include "pair_pass.h"
#include "plan.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define EGT_X86 1
#else
#define EGT_X86 0
#endif

namespace egt {

struct EntryPoints {
    void (*forward)(const Plan &plan, float *out, float *e_new);
    void (*backward)(const Plan &plan, const float *d_out, const float *d_e_new, float *d_qkv, float *d_e,
                     const EgtPairParameters &d_parameters);
    void (*norm_linear)(const EgtNormLinear &call);
    void (*norm_linear_backward)(const EgtNormLinear &call, const EgtNormLinearGradients &gradients);
    void (*node_update)(const EgtNodeUpdate &call);
    void (*node_update_backward)(const EgtNodeUpdate &call, const EgtNodeUpdateGradients &gradients);
    void (*node_factors)(const EgtNodeFactors &call);
};

namespace portable {
extern const EntryPoints kEntryPoints;
}

#if EGT_X86
namespace avx2 {
extern const EntryPoints kEntryPoints;
}
#endif

}  // namespace egt
