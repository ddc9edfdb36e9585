// Loops over the nodes, edges and pairs of graphs, for egt/data: the functions there that call them say what they compute.
// Matrices are row-major, and those of several graphs lie one after another. All return 0, or what status.h says.
#pragma once

#include <cstdint>

extern "C" {

// The graphs that a call is about. Their edges lie one after another: graph by graph the first nodes of all edges in
// `from`, and the second ones in `to`, numbered within the graph.
struct EgtGraphs {
    int64_t count;
    const int64_t *num_nodes, *num_edges, *from, *to;
};

// distances (N, N): steps from i to j, max_hops + 1 if there are more.
int egt_hop_distances(const EgtGraphs *graphs, int64_t max_hops, uint8_t *distances);

// A (N, N), zeros before: entries[e] at edge e, and ones on the diagonal. undirected (count): whether A is symmetric, and
// only then weights (3, N) are filled: ones, degrees, sums of degrees over neighbors.
int egt_undirected_adjacency(const EgtGraphs *graphs, const double *entries, double *A, double *weights,
                             uint8_t *undirected);

// signs (K): of the pairs of columns of u and v, both (N, K), by the rule of `canonical_signs`; weights (W, N).
int egt_signs(int64_t num_weights, int64_t num_nodes, int64_t num_columns, const double *weights, const double *u,
              const double *v, double *signs);

// encoding (N, 2 rank), zeros before: of K triplets, u and v (N, K), s (K) from large to small.
int egt_encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                        const double *weights, const double *u, const double *s, const double *v, float *encoding);

// The same of `count` symmetric matrices with these eigenvalues (K) and vectors (N, K).
int egt_encode_eigenvectors(int64_t count, int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                            const double *weights, const double *values, const double *vectors, float *encoding);

// The neighbors of each node of a graph: those of node i are nodes[start[i]] to nodes[start[i + 1] - 1].
struct EgtNeighbors {
    int64_t num_nodes;
    const int64_t *start, *nodes;
};

// reached (N), zeros before: 1 for the roots, and for what they bring along: limits[k] neighbors of each node that is new
// at hop k - 1, all if it is negative. Each node is a neighbor of itself, which does not count.
int egt_draw_neighborhood(const EgtNeighbors *neighbors, int64_t num_roots, const int64_t *roots, int64_t num_limits,
                          const int64_t *limits, uint64_t seed, uint8_t *reached);

// rows: of the pairs whose nodes are both inside, in the order of the nodes given, and behind them room for one more.
int egt_inner_pairs(const EgtNeighbors *neighbors, int64_t num_inside, const int64_t *inside, int64_t *rows,
                    int64_t *num_rows);

// distances (P): steps from node pairs[0][p] to node pairs[1][p], max_hops + 1 if there are more.
int egt_pair_distances(const EgtNeighbors *after, const EgtNeighbors *before, int64_t num_pairs, const int64_t *pairs,
                       int64_t max_hops, uint8_t *distances);

// walks (P, 6), zeros before: the number of walks of 2, 3 and 4 steps, then their probabilities.
int egt_pair_walks(const EgtNeighbors *after, const EgtNeighbors *before, int64_t num_pairs, const int64_t *pairs,
                   double *walks);

// powers (K, N, N), zeros before: of P = D^-1 A, A with weights[e] at edge e, edges (2, E), and D its row sums.
int egt_walk_powers(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *weights, int64_t num_steps,
                    float *powers);

// values (R, K): the same at the pairs (2, R), which are sorted by their first nodes.
int egt_walk_powers_at(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *weights,
                       int64_t num_steps, int64_t num_pairs, const int64_t *pairs, float *values);

// orders (M, N): of each row of values (M, N) the numbers of its entries, partitioned at place kth.
int egt_partition_rows(int64_t num_rows, int64_t num_columns, const double *values, int64_t kth, int64_t *orders);

// exponentials (n): of values (n), as the C library computes them.
int egt_exponentials(int64_t count, const double *values, double *exponentials);

// How many atoms and bonds the molecules say they have, 0 where that cannot be read. Molecule m ends at ends[m].
int egt_count_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, int64_t *num_atoms,
                        int64_t *num_bonds);

// readable (M), atoms (sum of num_atoms, 9) and bonds (sum of num_bonds, 5), zeros before. A molecule that cannot be read
// has no rows; its numbers of atoms and bonds become 0.
int egt_read_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, uint8_t *readable,
                       int64_t *num_atoms, int64_t *num_bonds, int64_t *atoms, int64_t *bonds);
}
