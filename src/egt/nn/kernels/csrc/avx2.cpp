// The pass for x86 machines with AVX2 and FMA. Only what follows the pragma may use these instructions: inline
// functions of the headers are shared with code that runs anywhere.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel.h"
#include "pass.h"
#include "scratch.h"
#include "weights.h"

#if EGT_X86
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define EGT_AVX2 1

namespace egt::avx2 {
#include "everything.inc"
}  // namespace egt::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
