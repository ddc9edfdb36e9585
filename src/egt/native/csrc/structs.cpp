#include "structs.h"

#include <cstddef>

#include "loops.h"
#include "node_pass.h"
#include "pair_pass.h"

#define WHOLE(Struct) {#Struct, sizeof(Struct)}
#define AT(Struct, field) {#Struct "." #field, offsetof(Struct, field)}

const EgtField *egt_struct_fields(void) {
    static const EgtField fields[] = {
        WHOLE(EgtPairParameters),
        AT(EgtPairParameters, norm_weight), AT(EgtPairParameters, norm_bias), AT(EgtPairParameters, E_weight),
        AT(EgtPairParameters, E_bias), AT(EgtPairParameters, G_weight), AT(EgtPairParameters, G_bias),
        AT(EgtPairParameters, O_weight), AT(EgtPairParameters, O_bias), AT(EgtPairParameters, ffn_norm_weight),
        AT(EgtPairParameters, ffn_norm_bias), AT(EgtPairParameters, W1_weight), AT(EgtPairParameters, W1_bias),
        AT(EgtPairParameters, W2_weight), AT(EgtPairParameters, W2_bias),
        WHOLE(EgtPairPass),
        AT(EgtPairPass, num_graphs), AT(EgtPairPass, num_nodes), AT(EgtPairPass, num_pairs),
        AT(EgtPairPass, node_width), AT(EgtPairPass, edge_width), AT(EgtPairPass, num_heads),
        AT(EgtPairPass, hidden_width), AT(EgtPairPass, activation), AT(EgtPairPass, attends),
        AT(EgtPairPass, centrality), AT(EgtPairPass, num_virtual_nodes), AT(EgtPairPass, query_rows),
        AT(EgtPairPass, edge_values), AT(EgtPairPass, outer_sum), AT(EgtPairPass, masks_gates),
        AT(EgtPairPass, mask_threshold), AT(EgtPairPass, dropout_threshold), AT(EgtPairPass, edge_dropout_threshold),
        AT(EgtPairPass, ffn_dropout_threshold), AT(EgtPairPass, key_dropout_threshold),
        AT(EgtPairPass, edge_path_threshold), AT(EgtPairPass, ffn_path_threshold), AT(EgtPairPass, num_threads),
        AT(EgtPairPass, portable), AT(EgtPairPass, norm_eps), AT(EgtPairPass, ffn_norm_eps), AT(EgtPairPass, clip_low),
        AT(EgtPairPass, clip_high), AT(EgtPairPass, scale), AT(EgtPairPass, dropout_scale),
        AT(EgtPairPass, edge_dropout_scale), AT(EgtPairPass, ffn_dropout_scale), AT(EgtPairPass, key_dropout_scale),
        AT(EgtPairPass, edge_path_scale), AT(EgtPairPass, ffn_path_scale), AT(EgtPairPass, sizes),
        AT(EgtPairPass, row_start), AT(EgtPairPass, target), AT(EgtPairPass, qkv), AT(EgtPairPass, e),
        AT(EgtPairPass, allowed), AT(EgtPairPass, mask_keys), AT(EgtPairPass, dropout_keys),
        AT(EgtPairPass, edge_dropout_keys), AT(EgtPairPass, ffn_dropout_keys), AT(EgtPairPass, key_dropout_keys),
        AT(EgtPairPass, edge_path_keys), AT(EgtPairPass, ffn_path_keys), AT(EgtPairPass, run_parallel),
        AT(EgtPairPass, parameters),
        WHOLE(EgtNormLinear),
        AT(EgtNormLinear, num_rows), AT(EgtNormLinear, width), AT(EgtNormLinear, out_width),
        AT(EgtNormLinear, num_threads), AT(EgtNormLinear, portable), AT(EgtNormLinear, eps),
        AT(EgtNormLinear, run_parallel), AT(EgtNormLinear, x), AT(EgtNormLinear, norm_weight),
        AT(EgtNormLinear, norm_bias), AT(EgtNormLinear, weight), AT(EgtNormLinear, bias), AT(EgtNormLinear, y),
        WHOLE(EgtNormLinearGradients),
        AT(EgtNormLinearGradients, d_y), AT(EgtNormLinearGradients, d_x), AT(EgtNormLinearGradients, d_norm_weight),
        AT(EgtNormLinearGradients, d_norm_bias), AT(EgtNormLinearGradients, d_weight),
        AT(EgtNormLinearGradients, d_bias),
        WHOLE(EgtNodeUpdate),
        AT(EgtNodeUpdate, num_rows), AT(EgtNodeUpdate, width), AT(EgtNodeUpdate, out_width),
        AT(EgtNodeUpdate, hidden_width), AT(EgtNodeUpdate, num_threads), AT(EgtNodeUpdate, portable),
        AT(EgtNodeUpdate, activation), AT(EgtNodeUpdate, eps), AT(EgtNodeUpdate, run_parallel), AT(EgtNodeUpdate, h),
        AT(EgtNodeUpdate, out), AT(EgtNodeUpdate, O_weight), AT(EgtNodeUpdate, O_bias), AT(EgtNodeUpdate, norm_weight),
        AT(EgtNodeUpdate, norm_bias), AT(EgtNodeUpdate, W1_weight), AT(EgtNodeUpdate, W1_bias),
        AT(EgtNodeUpdate, W2_weight), AT(EgtNodeUpdate, W2_bias), AT(EgtNodeUpdate, D1), AT(EgtNodeUpdate, D2),
        AT(EgtNodeUpdate, h_new), AT(EgtNodeUpdate, h1), AT(EgtNodeUpdate, hidden),
        WHOLE(EgtNodeUpdateGradients),
        AT(EgtNodeUpdateGradients, d_h_new), AT(EgtNodeUpdateGradients, d_h), AT(EgtNodeUpdateGradients, d_out),
        AT(EgtNodeUpdateGradients, d_O_weight), AT(EgtNodeUpdateGradients, d_O_bias),
        AT(EgtNodeUpdateGradients, d_norm_weight), AT(EgtNodeUpdateGradients, d_norm_bias),
        AT(EgtNodeUpdateGradients, d_W1_weight), AT(EgtNodeUpdateGradients, d_W1_bias),
        AT(EgtNodeUpdateGradients, d_W2_weight), AT(EgtNodeUpdateGradients, d_W2_bias),
        WHOLE(EgtNodeFactors),
        AT(EgtNodeFactors, num_graphs), AT(EgtNodeFactors, num_rows), AT(EgtNodeFactors, width),
        AT(EgtNodeFactors, threshold), AT(EgtNodeFactors, salt0), AT(EgtNodeFactors, salt1),
        AT(EgtNodeFactors, num_threads), AT(EgtNodeFactors, portable), AT(EgtNodeFactors, factor),
        AT(EgtNodeFactors, run_parallel), AT(EgtNodeFactors, sizes), AT(EgtNodeFactors, keys),
        AT(EgtNodeFactors, factors),
        WHOLE(EgtGraphs),
        AT(EgtGraphs, count), AT(EgtGraphs, num_nodes), AT(EgtGraphs, num_edges), AT(EgtGraphs, from),
        AT(EgtGraphs, to),
        WHOLE(EgtNeighbors),
        AT(EgtNeighbors, num_nodes), AT(EgtNeighbors, start), AT(EgtNeighbors, nodes),
        {nullptr, 0},
    };
    return fields;
}
