// The pass itself (*.inc) is compiled twice from the same text: once for any machine, and once for AVX2 with FMA.
#pragma once

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
}  // namespace egt::any_machine

#if EGT_X86
namespace egt::avx2 {
void forward(const Plan &plan, float *out, float *e_new);
void backward(const Plan &plan, const float *d_out, const float *d_e_new, float *d_qkv, float *d_e,
              const EgtPairParameters &d_parameters);
}  // namespace egt::avx2
#endif
