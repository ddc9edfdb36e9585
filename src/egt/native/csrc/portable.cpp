// The kernel for any machine.
#define EGT_TARGET portable
#define EGT_AVX2 0

#include "kernel.h"
