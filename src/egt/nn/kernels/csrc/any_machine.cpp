// The pass for any machine.
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

#define EGT_AVX2 0

namespace egt::any_machine {
#include "everything.inc"
}  // namespace egt::any_machine
