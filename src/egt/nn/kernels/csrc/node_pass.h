// The C interface of the node side of a layer: plain structs as in pair_pass.h. All tensors are contiguous float32 with
// one row per node; what a node becomes depends on its own row only.
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
    float *y;                               // (M, d_out)
};

// h1 = h + O out + b_O;  h_new = h1 + W2 a + b2  with  a = ELU(W1 LN(h1) + b1).
struct EgtNodeUpdate {
    int64_t num_rows, width, hidden_width;
    int64_t num_threads, portable;
    double eps;
    const void *run_parallel;
    const float *h, *out;                   // (M, d)
    const float *O_weight, *O_bias;         // (d, d), (d)
    const float *norm_weight, *norm_bias;   // (d)
    const float *W1_weight, *W1_bias;       // (m, d), (m)
    const float *W2_weight, *W2_bias;       // (d, m), (d)
    float *h_new;                           // (M, d)
    float *h1, *a;                          // (M, d), (M, m); null: not kept
};

// Both return 0, or 2 if there is no memory for working buffers.
int egt_norm_linear(const EgtNormLinear *call);
int egt_node_update(const EgtNodeUpdate *call);
}
