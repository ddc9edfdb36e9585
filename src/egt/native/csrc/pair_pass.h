// The C interface of the fused pair pass: plain structs of 8-byte fields, so that ctypes mirrors them one to one.
//
// Graph b has N_b nodes (virtual nodes first); node rows are concatenated over graphs. Pairs are either all pairs, (i, j)
// of graph b being row pair_start[b] + i * N_b + j of every pair tensor, or a list: those from node row r are the rows
// [row_start[r], row_start[r + 1]), and pair p leads to node row target[p] of the same graph. All tensors are contiguous
// float32.
#pragma once

#include <cstdint>

extern "C" {

// The non-linearity of a feed-forward block. GELU is the exact one, with erf.
enum EgtActivation { kEgtElu = 0, kEgtGelu = 1, kEgtRelu = 2, kEgtSilu = 3 };

// Weights and biases of the pass, or the gradients of the same. A null weight switches its part off.
struct EgtPairParameters {
    float *norm_weight, *norm_bias;          // (d_e) LayerNorm of e; null: E and G read e itself
    float *E_weight, *E_bias;                // (H, d_e), (H)
    float *G_weight, *G_bias;                // (H, d_e), (H); null: ungated
    float *O_weight, *O_bias;                // (d_e, H), (d_e); null: e is not updated (frozen edges)
    float *ffn_norm_weight, *ffn_norm_bias;  // (d_e)
    float *W1_weight, *W1_bias;              // (m, d_e), (m)
    float *W2_weight, *W2_bias;              // (d_e, m), (d_e)
};

struct EgtPairPass {
    int64_t num_graphs, num_nodes, num_pairs;
    int64_t node_width, edge_width, num_heads, hidden_width;  // d, d_e, H, m
    int64_t activation;         // of the feed-forward block: EgtActivation
    int64_t attends;            // 0: edges only (qkv holds Q|K, no values, no gate, no node output)
    int64_t centrality;         // 1: scale row i by ln(1 + sum_j g_ij)
    int64_t num_virtual_nodes;  // rows of virtual nodes are not scaled
    int64_t query_rows;         // only the first rows of each graph are computed; 0: all (frozen edges only)
    int64_t edge_values;        // what heads gather of edges: 0 nothing, 1 their own d_e / H channels each, 2 all
    int64_t outer_sum;          // 1: the update of e also adds A h_i + B h_j, which lie behind Q|K|V
    int64_t masks_gates;        // random masking: 1 on logits and gates, 0 on logits only
    int64_t mask_threshold;     // random masking drops where bits < threshold; 0: never
    int64_t dropout_threshold;  // the same for attention dropout,
    int64_t edge_dropout_threshold, ffn_dropout_threshold;  // for O H_hat, and for the output of the feed-forward block
    int64_t key_dropout_threshold;                   // a key is withheld from all queries except itself
    int64_t edge_path_threshold, ffn_path_threshold;  // a graph skips the update by O H_hat, the feed-forward block
    int64_t num_threads;
    int64_t portable;  // 1: do not use AVX2
    double norm_eps, ffn_norm_eps;
    double clip_low, clip_high, scale;
    double dropout_scale;         // 1 / (1 - p)
    double edge_dropout_scale, ffn_dropout_scale;
    double key_dropout_scale;     // how often the gate of another kept key counts in a centrality sum
    double edge_path_scale, ffn_path_scale;
    const int64_t *sizes;         // (B) N_b
    const int64_t *row_start, *target;  // (M + 1), (P) a list of pairs; null: all pairs
    const float *qkv;             // (M, 3 d) as Q|K|V, head-major channels; (M, 2 d) without values; 2 d_e more: A h|B h
    const float *e;               // (P, d_e)
    const uint8_t *allowed;       // (P) nonzero where i may attend j; null: everyone
    const int64_t *mask_keys;     // (B, 2) 32-bit keys of the masking stream
    const int64_t *dropout_keys;  // (B, 2) 32-bit keys of the dropout stream
    const int64_t *edge_dropout_keys, *ffn_dropout_keys;  // (B, 2) likewise
    const int64_t *key_dropout_keys, *edge_path_keys, *ffn_path_keys;
    const void *run_parallel;     // GOMP_parallel of the process's OpenMP runtime; null: own threads
    EgtPairParameters parameters;
};

// Writes out (M, d) unless edges only, and e_new (P, d_e) unless frozen; e_new may be e itself. With edge values a row of
// out goes on, for each head, with sum_j A~_ij x_ij of the channels that it reads and sum_j A~_ij, times the scale of the
// row; x = (e - mean) / std, or e itself without a norm. Returns 0, 1 if sizes do not add up or a listed pair leaves its
// graph, 2 if there is no memory for working buffers, 3 if there are no threads, 4 for anything else.
int egt_pair_pass_forward(const EgtPairPass *pass, float *out, float *e_new);

// Reads d_out and d_e_new (null: that output was not used); adds to d_parameters, which the caller zeroed, and writes
// d_qkv and d_e of the rows computed, without the values' part of d_qkv if d_out is null. Everything between input and
// output is computed again. Returns as the forward.
int egt_pair_pass_backward(const EgtPairPass *pass, const float *d_out, const float *d_e_new, float *d_qkv,
                           float *d_e, const EgtPairParameters *d_parameters);

// 1 if this machine runs the AVX2 path.
int egt_pair_pass_has_avx2(void);
}

static_assert(sizeof(EgtPairParameters) == 14 * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
static_assert(sizeof(EgtPairPass) == (24 + 11 + 14 + 14) * 8, "a field is not 8 bytes wide, or structs.cpp lacks one");
