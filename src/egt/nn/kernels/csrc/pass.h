// The passes themselves (*.inc) are compiled twice from the same text: once for any machine, once for AVX2 with FMA.
#pragma once

#include <new>
#include <system_error>

#include "node_pass.h"
#include "pair_pass.h"
#include "plan.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define EGT_X86 1
#else
#define EGT_X86 0
#endif

namespace egt::any_machine {
void forward(const Plan &plan, float *out, float *e_new);
void backward(const Plan &plan, const float *d_out, const float *d_e_new, float *d_qkv, float *d_e,
              const EgtPairParameters &d_parameters);
void norm_linear(const EgtNormLinear &call);
void norm_linear_backward(const EgtNormLinear &call, const EgtNormLinearGradients &gradients);
void node_update(const EgtNodeUpdate &call);
void node_update_backward(const EgtNodeUpdate &call, const EgtNodeUpdateGradients &gradients);
}  // namespace egt::any_machine

#if EGT_X86
namespace egt::avx2 {
void forward(const Plan &plan, float *out, float *e_new);
void backward(const Plan &plan, const float *d_out, const float *d_e_new, float *d_qkv, float *d_e,
              const EgtPairParameters &d_parameters);
void norm_linear(const EgtNormLinear &call);
void norm_linear_backward(const EgtNormLinear &call, const EgtNormLinearGradients &gradients);
void node_update(const EgtNodeUpdate &call);
void node_update_backward(const EgtNodeUpdate &call, const EgtNodeUpdateGradients &gradients);
}  // namespace egt::avx2
#else
namespace egt {
namespace avx2 = any_machine;  // never chosen
}
#endif

namespace egt {

// What the C functions return.
enum Status { kDone = 0, kSizesDoNotMatch = 1, kOutOfMemory = 2, kNoThreads = 3 };

// The status of a job that returns one, or that of what it throws: no exception may leave a C function.
template <class Job>
Status status_of(Job job) {
    try {
        return job();
    } catch (const std::bad_alloc &) {
        return kOutOfMemory;
    } catch (const std::system_error &) {
        return kNoThreads;
    }
}

}  // namespace egt
