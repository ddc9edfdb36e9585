// The machine that the kernel is compiled for. The kernel's headers are compiled twice, each time in a namespace of its
// own: `egt::portable` for any machine and `egt::avx2` for x86 machines with AVX2 and FMA. Opened alone, they are the
// portable ones.
//
// All standard and shared headers are included here, and nowhere in the kernel's: avx2.cpp includes this file in front
// of its pragma. Behind it, inline functions that other files use too would get instructions that not every machine has.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "entry_points.h"
#include "node_pass.h"
#include "pair_pass.h"
#include "parallel.h"
#include "plan.h"
#include "scratch.h"
#include "weights.h"

#ifndef EGT_TARGET
#define EGT_TARGET portable
#define EGT_AVX2 0
#endif

#if EGT_AVX2
#include <immintrin.h>
#endif

#define EGT_INLINE static inline __attribute__((always_inline))
#define EGT_LAMBDA_INLINE __attribute__((always_inline))
