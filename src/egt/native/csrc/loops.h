// Loops over the nodes and edges of graphs, for egt/encodings/loops.py and egt/sources/molecule_binary.py, which say what
// they compute. Matrices are row-major, and those of several graphs lie one after another.
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
void egt_hop_distances(const EgtGraphs *graphs, int64_t max_hops, uint8_t *distances);

// A (N, N), zeros before: entries[e] at edge e, and ones on the diagonal. undirected (count): whether A is symmetric, and
// only then weights (3, N) are filled: ones, degrees, sums of degrees over neighbors.
void egt_undirected_adjacency(const EgtGraphs *graphs, const double *entries, double *A, double *weights,
                              uint8_t *undirected);

// signs (K): of the pairs of columns of u and v, both (N, K), by the rule of `canonical_signs`; weights (W, N).
void egt_signs(int64_t num_weights, int64_t num_nodes, int64_t num_columns, const double *weights, const double *u,
               const double *v, double *signs);

// encoding (N, 2 rank), zeros before: of K triplets, u and v (N, K), s (K) from large to small.
void egt_encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                         const double *weights, const double *u, const double *s, const double *v, float *encoding);

// The same of `count` symmetric matrices with these eigenvalues (K) and vectors (N, K).
void egt_encode_eigenvectors(int64_t count, int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                             const double *weights, const double *values, const double *vectors, float *encoding);

// How many atoms and bonds the molecules say they have, 0 where that cannot be read. Molecule m ends at ends[m].
void egt_count_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, int64_t *num_atoms,
                         int64_t *num_bonds);

// readable (M), atoms (sum of num_atoms, 9) and bonds (sum of num_bonds, 5), zeros before. A molecule that cannot be read
// has no rows; its numbers of atoms and bonds become 0.
void egt_read_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, uint8_t *readable,
                        int64_t *num_atoms, int64_t *num_bonds, int64_t *atoms, int64_t *bonds);
}
