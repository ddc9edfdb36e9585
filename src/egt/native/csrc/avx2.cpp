// The kernel for x86 machines with AVX2 and FMA. Only what follows the pragma may use these instructions.
#include "entry_points.h"

#if EGT_X86
#define EGT_TARGET avx2
#define EGT_AVX2 1

#include "target.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#include "kernel.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
