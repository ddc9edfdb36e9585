#include "loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace {

// A sum below this share of the sum of its absolute terms counts as zero: rounding may not choose a sign.
constexpr double kNegligible = 1e-6;
// Eigenvalues of opposite sign are of one size when they differ by less than twice this share of the largest one.
constexpr double kTie = 1e-10;

// A column of a matrix.
struct Column {
    const double *first;
    int64_t step;
    double operator[](int64_t i) const { return first[i * step]; }
};

// The sign of one pair of vectors, by the rule of `canonical_signs`.
double sign_of(int64_t num_weights, int64_t num_nodes, const double *weights, Column u, Column v) {
    for (int64_t w = 0; w < num_weights; ++w, weights += num_nodes)
        for (int kind = 0; kind < 4; ++kind) {
            const Column twice = kind == 0 || kind == 2 ? u : v;  // u^3, v^3, u^2 v, v^2 u
            const Column once = kind == 0 || kind == 3 ? u : v;
            double moment = 0, size = 0;
            for (int64_t i = 0; i < num_nodes; ++i) {
                const double term = weights[i] * twice[i] * twice[i] * once[i];
                moment += term;
                size += std::abs(term);
            }
            if (std::abs(moment) > kNegligible * size) return moment > 0 ? 1.0 : -1.0;
        }
    double largest = 0;
    for (int64_t i = 0; i < num_nodes; ++i) largest = std::max(largest, std::abs(u[i]));
    for (int64_t i = 0; i < num_nodes; ++i)
        if (std::abs(u[i]) >= (1 - kNegligible) * largest) return u[i] >= 0 ? 1.0 : -1.0;
    return 1.0;
}

// Distances in one graph. reach[i] is the set of nodes within k steps of i, 64 of them in a word. One more step gives
// reach'[i] = reach[i] | union of reach[j] over edges i -> j, and what is new in it is at distance k + 1.
void hop_distances(int64_t num_nodes, int64_t num_edges, const int64_t *from, const int64_t *to, int64_t max_hops,
                   uint8_t *distances) {
    const int64_t words = (num_nodes + 63) / 64;
    std::fill_n(distances, num_nodes * num_nodes, static_cast<uint8_t>(max_hops + 1));
    std::vector<uint64_t> reach(num_nodes * words), farther;
    for (int64_t i = 0; i < num_nodes; ++i) {
        reach[i * words + i / 64] = uint64_t{1} << (i % 64);
        distances[i * num_nodes + i] = 0;
    }
    bool grown = true;
    for (int64_t hop = 1; hop <= max_hops && grown; ++hop, reach.swap(farther)) {
        farther = reach;
        for (int64_t e = 0; e < num_edges; ++e)
            for (int64_t word = 0; word < words; ++word)
                farther[from[e] * words + word] |= reach[to[e] * words + word];
        grown = false;
        for (int64_t at = 0; at < num_nodes * words; ++at)
            for (uint64_t fresh = farther[at] & ~reach[at]; fresh != 0; fresh &= fresh - 1) {
                const int64_t i = at / words, j = at % words * 64 + __builtin_ctzll(fresh);
                distances[i * num_nodes + j] = static_cast<uint8_t>(hop);
                grown = true;
            }
    }
}

// The adjacency matrix of one graph, and whether it is symmetric.
bool undirected_adjacency(int64_t num_nodes, int64_t num_edges, const int64_t *from, const int64_t *to,
                          const double *entries, double *A, double *weights) {
    for (int64_t e = 0; e < num_edges; ++e) A[from[e] * num_nodes + to[e]] = entries[e];
    for (int64_t i = 0; i < num_nodes; ++i) {
        A[i * num_nodes + i] = 1.0;
        for (int64_t j = 0; j < i; ++j)
            if (A[i * num_nodes + j] != A[j * num_nodes + i]) return false;
    }
    std::fill_n(weights, num_nodes, 1.0);
    for (int row = 0; row < 2; ++row, weights += num_nodes)
        for (int64_t i = 0; i < num_nodes; ++i) {
            double total = 0;
            for (int64_t j = 0; j < num_nodes; ++j) total += A[i * num_nodes + j] * weights[j];
            weights[num_nodes + i] = total;
        }
    return true;
}

// One symmetric matrix: s = |lambda|, u = x, v = sign(lambda) x. Of lambda and -lambda the positive one comes first,
// whatever rounding did to them.
void encode_eigenvectors(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                         const double *weights, const double *values, const double *vectors, float *encoding) {
    double largest = 0;
    for (int64_t k = 0; k < num_columns; ++k) largest = std::max(largest, std::abs(values[k]));
    std::vector<int64_t> order(num_columns);
    std::iota(order.begin(), order.end(), 0);
    const auto size = [=](int64_t k) { return std::abs(values[k] + kTie * largest); };
    std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) { return size(a) > size(b); });
    const int64_t count = std::min(rank, num_columns);
    std::vector<double> s(count), u(num_nodes * count), v(num_nodes * count);
    for (int64_t k = 0; k < count; ++k) {
        const double value = values[order[k]];
        s[k] = std::abs(value);
        for (int64_t i = 0; i < num_nodes; ++i) {
            const double x = vectors[i * num_columns + order[k]];
            u[i * count + k] = x;
            v[i * count + k] = value >= 0 ? x : -x;
        }
    }
    egt_encode_triplets(num_weights, num_nodes, count, rank, weights, u.data(), s.data(), v.data(), encoding);
}

}  // namespace

void egt_hop_distances(const EgtGraphs *graphs, int64_t max_hops, uint8_t *distances) {
    const int64_t *from = graphs->from, *to = graphs->to;
    for (int64_t g = 0; g < graphs->count; ++g) {
        const int64_t num_nodes = graphs->num_nodes[g], num_edges = graphs->num_edges[g];
        hop_distances(num_nodes, num_edges, from, to, max_hops, distances);
        from += num_edges;
        to += num_edges;
        distances += num_nodes * num_nodes;
    }
}

void egt_undirected_adjacency(const EgtGraphs *graphs, const double *entries, double *A, double *weights,
                              uint8_t *undirected) {
    const int64_t *from = graphs->from, *to = graphs->to;
    for (int64_t g = 0; g < graphs->count; ++g) {
        const int64_t num_nodes = graphs->num_nodes[g], num_edges = graphs->num_edges[g];
        undirected[g] = undirected_adjacency(num_nodes, num_edges, from, to, entries, A, weights);
        from += num_edges;
        to += num_edges;
        entries += num_edges;
        A += num_nodes * num_nodes;
        weights += 3 * num_nodes;
    }
}

void egt_encode_eigenvectors(int64_t count, int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                             const double *weights, const double *values, const double *vectors, float *encoding) {
    for (int64_t g = 0; g < count; ++g) {
        encode_eigenvectors(num_weights, num_nodes, num_columns, rank, weights, values, vectors, encoding);
        weights += num_weights * num_nodes;
        values += num_columns;
        vectors += num_nodes * num_columns;
        encoding += num_nodes * 2 * rank;
    }
}

void egt_signs(int64_t num_weights, int64_t num_nodes, int64_t num_columns, const double *weights, const double *u,
               const double *v, double *signs) {
    for (int64_t k = 0; k < num_columns; ++k)
        signs[k] = sign_of(num_weights, num_nodes, weights, {u + k, num_columns}, {v + k, num_columns});
}

void egt_encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                         const double *weights, const double *u, const double *s, const double *v, float *encoding) {
    const double noise = static_cast<double>(num_nodes) * std::numeric_limits<double>::epsilon();
    for (int64_t k = 0; k < num_columns; ++k) {
        if (!(s[k] > noise * s[0])) continue;
        const Column left{u + k, num_columns}, right{v + k, num_columns};
        const double scale = sign_of(num_weights, num_nodes, weights, left, right) * std::sqrt(s[k]);
        for (int64_t i = 0; i < num_nodes; ++i) {
            encoding[i * 2 * rank + k] = static_cast<float>(left[i] * scale);
            encoding[i * 2 * rank + rank + k] = static_cast<float>(right[i] * scale);
        }
    }
}
