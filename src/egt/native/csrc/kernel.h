// The whole kernel for one target, and its entry points.
#pragma once

#include "node_factors.h"
#include "nodes.h"
#include "nodes_backward.h"
#include "part.h"
#include "target.h"

namespace egt::EGT_TARGET {

const EntryPoints kEntryPoints{forward,     backward,             norm_linear, norm_linear_backward,
                               node_update, node_update_backward, node_factors};

}  // namespace egt::EGT_TARGET
