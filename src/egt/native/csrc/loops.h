// Loops over the nodes and edges of single graphs, for egt/encodings/loops.py and egt/sources/molecule_binary.py, which
// say what they compute. Matrices are row-major; an edge list (2, E) is the E first nodes and then the E second ones.
#pragma once

#include <cstdint>

extern "C" {

// distances (N, N): steps from i to j, max_hops + 1 if there are more.
void egt_hop_distances(int64_t num_nodes, int64_t num_edges, int64_t max_hops, const int64_t *edges, uint8_t *distances);

// A (N, N), zeros before: entries[e] at edge e, and ones on the diagonal. Returns whether A is symmetric, and only then
// fills weights (3, N): ones, degrees, sums of degrees over neighbors.
int egt_undirected_adjacency(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *entries, double *A,
                            double *weights);

// signs (K): of the pairs of columns of u and v, both (N, K), by the rule of `canonical_signs`; weights (W, N).
void egt_signs(int64_t num_weights, int64_t num_nodes, int64_t num_columns, const double *weights, const double *u,
               const double *v, double *signs);

// encoding (N, 2 rank), zeros before: of K triplets, u and v (N, K), s (K) from large to small.
void egt_encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                         const double *weights, const double *u, const double *s, const double *v, float *encoding);

// The same of a symmetric matrix with these eigenvalues (K) and vectors (N, K).
void egt_encode_eigenvectors(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                             const double *weights, const double *values, const double *vectors, float *encoding);

// How many atoms and bonds the molecules say they have, 0 where that cannot be read. Molecule m ends at ends[m].
void egt_count_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, int64_t *num_atoms,
                         int64_t *num_bonds);

// readable (M), atoms (sum of num_atoms, 9) and bonds (sum of num_bonds, 5), zeros before. A molecule that cannot be read
// has no rows; its numbers of atoms and bonds become 0.
void egt_read_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, uint8_t *readable,
                        int64_t *num_atoms, int64_t *num_bonds, int64_t *atoms, int64_t *bonds);
}
