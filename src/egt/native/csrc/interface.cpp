// The C interface: picks the code for the machine at hand and turns exceptions into numbers.
#include "entry_points.h"
#include "node_pass.h"
#include "pair_pass.h"
#include "plan.h"
#include "status.h"

namespace {

using egt::kDone;
using egt::kSizesDoNotMatch;
using egt::status_of;

const egt::EntryPoints &kernel_for(bool portable) {
#if EGT_X86
    if (!portable && egt_pair_pass_has_avx2()) return egt::avx2::kEntryPoints;
#endif
    return egt::portable::kEntryPoints;
}

// Runs a job on the plan of a pass.
template <class Job>
int with_plan(const EgtPairPass &pass, bool attends, bool updates, bool backward, Job job) {
    bool match = false;
    const int status = status_of([&] {
        const egt::Plan plan(pass, attends, updates, backward);
        match = plan.sizes_match;
        if (match) job(plan);
    });
    return status == kDone && !match ? kSizesDoNotMatch : status;
}

}  // namespace

int egt_pair_pass_has_avx2(void) {
#if EGT_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

int egt_pair_pass_forward(const EgtPairPass *pass, float *out, float *e_new) {
    return with_plan(*pass, out != nullptr, e_new != nullptr, false,
                     [&](const egt::Plan &plan) { kernel_for(pass->portable).forward(plan, out, e_new); });
}

int egt_pair_pass_backward(const EgtPairPass *pass, const float *d_out, const float *d_e_new, float *d_qkv,
                           float *d_e, const EgtPairParameters *d_parameters) {
    return with_plan(*pass, d_out != nullptr, d_e_new != nullptr, true, [&](const egt::Plan &plan) {
        kernel_for(pass->portable).backward(plan, d_out, d_e_new, d_qkv, d_e, *d_parameters);
    });
}

int egt_norm_linear(const EgtNormLinear *call) {
    return status_of([&] { kernel_for(call->portable).norm_linear(*call); });
}

int egt_norm_linear_backward(const EgtNormLinear *call, const EgtNormLinearGradients *gradients) {
    return status_of([&] { kernel_for(call->portable).norm_linear_backward(*call, *gradients); });
}

int egt_node_update(const EgtNodeUpdate *call) {
    return status_of([&] { kernel_for(call->portable).node_update(*call); });
}

int egt_node_update_backward(const EgtNodeUpdate *call, const EgtNodeUpdateGradients *gradients) {
    return status_of([&] { kernel_for(call->portable).node_update_backward(*call, *gradients); });
}

int egt_node_factors(const EgtNodeFactors *call) {
    int64_t num_rows = 0;
    for (int64_t graph = 0; graph < call->num_graphs; ++graph) {
        if (call->sizes[graph] < 0) return kSizesDoNotMatch;
        num_rows += call->sizes[graph];
    }
    if (num_rows != call->num_rows) return kSizesDoNotMatch;
    return status_of([&] { kernel_for(call->portable).node_factors(*call); });
}
