// The C interface of the node side of a layer: plain structs as in pair_pass.h. All tensors are contiguous float32 with
// one row per node, or per pair of a list; what it becomes depends on its own row only.
#pragma once

#include <cstdint>

extern "C" {

// y = W LN(x) + b.
struct EgtNormLinear {
    int64_t num_rows, width, out_width;
    int64_t num_threads, portable;
    double eps;
    const void *run_parallel;
    const float *x;                         // (M, d)
    const float *norm_weight, *norm_bias;   // (d)
    const float *weight, *bias;             // (d_out, d), (d_out)
    float *y;                               // (M, d_out); not read or written by the backward pass
};

struct EgtNormLinearGradients {
    const float *d_y;                       // (M, d_out)
    float *d_x;                             // the others: of the same shapes as what they are gradients of
    float *d_norm_weight, *d_norm_bias, *d_weight, *d_bias;
};

// h1 = h + D1 (O out + b_O);  h_new = h1 + D2 (W2 a + b2)  with  a = act(W1 LN(h1) + b1).
struct EgtNodeUpdate {
    int64_t num_rows, width, out_width, hidden_width;
    int64_t num_threads, portable;
    int64_t activation;                     // EgtActivation
    double eps;
    const void *run_parallel;
    const float *h, *out;                   // (M, d), (M, o)
    const float *O_weight, *O_bias;         // (d, o), (d)
    const float *norm_weight, *norm_bias;   // (d)
    const float *W1_weight, *W1_bias;       // (m, d), (m)
    const float *W2_weight, *W2_bias;       // (d, m), (d)
    const float *D1, *D2;                   // (M, d) factors of a dropout, 0 or 1 / (1 - p); null: none
    float *h_new;                           // (M, d); not read or written by the backward pass
    // (M, d), (M, m); null: not kept. The backward pass reads them. `hidden` is a for ELU, whose slope follows from it,
    // and the input of the activation for the others.
    float *h1, *hidden;
};

struct EgtNodeUpdateGradients {
    const float *d_h_new;                   // (M, d)
    float *d_h, *d_out;
    float *d_O_weight, *d_O_bias, *d_norm_weight, *d_norm_bias, *d_W1_weight, *d_W1_bias, *d_W2_weight, *d_W2_bias;
};

// What a dropout multiplies the channels of the nodes of some graphs by: 0, or `factor` for what it keeps.
struct EgtNodeFactors {
    int64_t num_graphs, num_rows, width;
    int64_t threshold;                      // an entry whose random bits are below it is dropped
    int64_t salt0, salt1;                   // of the layer and of what is dropped; the keys are mixed with them
    int64_t num_threads, portable;
    double factor;
    const void *run_parallel;
    const int64_t *sizes, *keys;            // (B) nodes of each graph, (B, 2)
    float *factors;                         // (M, d)
};

// All return 0, or 1 if sizes do not add up to the rows, or 2 if there is no memory for working buffers.
int egt_norm_linear(const EgtNormLinear *call);
int egt_norm_linear_backward(const EgtNormLinear *call, const EgtNormLinearGradients *gradients);
int egt_node_update(const EgtNodeUpdate *call);
int egt_node_update_backward(const EgtNodeUpdate *call, const EgtNodeUpdateGradients *gradients);
int egt_node_factors(const EgtNodeFactors *call);
}

static_assert(sizeof(EgtNormLinear) == 13 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
static_assert(sizeof(EgtNormLinearGradients) == 6 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
static_assert(sizeof(EgtNodeUpdate) == 24 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
static_assert(sizeof(EgtNodeUpdateGradients) == 11 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
static_assert(sizeof(EgtNodeFactors) == 13 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
