// The C interface of attention over a list of pairs: plain structs as in pair_pass.h. Pair p is (from[p], to[p]), rows of
// the node channel. Rows of nodes are (H, d_k), those of pairs (H); all tensors are contiguous float32.
#pragma once

#include <cstdint>

extern "C" {

struct EgtPairList {
    int64_t num_nodes, num_pairs;
    int64_t num_heads, head_width;  // H, d_k
    int64_t num_threads, portable;
    const void *run_parallel;
    const int64_t *from, *to;       // (P)
};

// All return 0, or 3 if there are no threads.

// product_p = <x_from(p), y_to(p)> for each head. x, y: (M, H, d_k), product: (P, H).
int egt_list_dot(const EgtPairList *list, const float *x, const float *y, float *product);

// sum_i = sum over the pairs p from i of weight_p y_to(p). weight: (P, H), y and sum: (M, H, d_k).
int egt_list_sum(const EgtPairList *list, const float *weight, const float *y, float *sum);

// Softmax of the logits (P, H) over the pairs from each node, which follow one another.
int egt_list_softmax(const EgtPairList *list, const float *logits, float *softmax);
int egt_list_softmax_backward(const EgtPairList *list, const float *softmax, const float *d_softmax, float *d_logits);
}

static_assert(sizeof(EgtPairList) == 9 * 8, "a field is not 8 bytes wide, or binding.py lacks one");
