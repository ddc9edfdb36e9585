// No product is fused with a sum here: the numbers must be those of every machine, and of plain numpy.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "status.h"

namespace {

using egt::status_of;

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

// Triplets from large to small; those below the noise are left out.
void encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
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
    encode_triplets(num_weights, num_nodes, count, rank, weights, u.data(), s.data(), v.data(), encoding);
}

// A number in [0, 1) that the state alone decides (the mixing of splitmix64).
double uniform(uint64_t state) {
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((state ^ (state >> 31)) >> 11) * 0x1p-53;
}

void draw_neighborhood(const EgtNeighbors &neighbors, int64_t num_roots, const int64_t *roots, int64_t num_limits,
                       const int64_t *limits, uint64_t state, uint8_t *reached) {
    std::vector<int64_t> found;
    const auto add = [&](int64_t node) {
        if (reached[node]) return;
        reached[node] = 1;
        found.push_back(node);
    };
    std::for_each(roots, roots + num_roots, add);
    size_t border = 0;
    for (int64_t hop = 0; hop < num_limits; ++hop) {
        const size_t last = found.size();
        for (; border < last; ++border) {
            const int64_t node = found[border];
            int64_t left = neighbors.start[node + 1] - neighbors.start[node] - 1;  // without itself
            int64_t needed = limits[hop] < 0 ? left : std::min(limits[hop], left);
            for (int64_t row = neighbors.start[node]; row < neighbors.start[node + 1]; ++row) {
                const int64_t neighbor = neighbors.nodes[row];
                if (neighbor == node) continue;
                state += 0x9E3779B97F4A7C15u;
                if (needed == left || uniform(state) * static_cast<double>(left) < static_cast<double>(needed)) {
                    --needed;
                    add(neighbor);
                }
                --left;
                if (needed == 0) break;
            }
        }
    }
}

// Writes the rows of the pairs whose nodes are both inside, and returns how many they are.
int64_t inner_pairs(const EgtNeighbors &neighbors, int64_t num_inside, const int64_t *inside, int64_t *rows) {
    std::vector<uint8_t> is_inside(neighbors.num_nodes);
    for (int64_t k = 0; k < num_inside; ++k) is_inside[inside[k]] = 1;
    int64_t count = 0;
    for (int64_t k = 0; k < num_inside; ++k)
        for (int64_t row = neighbors.start[inside[k]]; row < neighbors.start[inside[k] + 1]; ++row) {
            rows[count] = row;  // written over by the next one if it does not count
            count += is_inside[neighbors.nodes[row]];
        }
    return count;
}

// Two searches walk toward each other, always the one with fewer nodes at its border: with no meeting after d - 1 steps of
// both together, a meeting in the next one is a walk of exactly d steps.
void pair_distances(const EgtNeighbors &after, const EgtNeighbors &before, int64_t num_pairs, const int64_t *pairs,
                    int64_t max_hops, uint8_t *distances) {
    struct Search {
        const EgtNeighbors &neighbors;
        std::vector<int64_t> seen, queue;  // seen: the number of the pair, from 1
        int64_t border, end;

        explicit Search(const EgtNeighbors &along)
            : neighbors(along), seen(along.num_nodes), queue(along.num_nodes), border(0), end(0) {}

        void begin(int64_t node, int64_t pair) {
            queue[0] = node;
            seen[node] = pair;
            border = 0;
            end = 1;
        }

        // One step further; whether it meets the other search.
        bool step(const Search &other, int64_t pair) {
            const int64_t last = end;
            bool met = false;
            for (; border < last; ++border)
                for (int64_t e = neighbors.start[queue[border]]; e < neighbors.start[queue[border] + 1]; ++e) {
                    const int64_t neighbor = neighbors.nodes[e];
                    if (seen[neighbor] == pair) continue;
                    seen[neighbor] = pair;
                    queue[end++] = neighbor;
                    met = met || other.seen[neighbor] == pair;
                }
            return met;
        }
    };
    Search forward(after), backward(before);
    std::fill_n(distances, num_pairs, static_cast<uint8_t>(max_hops + 1));
    for (int64_t p = 0; p < num_pairs; ++p) {
        const int64_t i = pairs[p], j = pairs[num_pairs + p];
        if (i == j) {
            distances[p] = 0;
            continue;
        }
        forward.begin(i, p + 1);
        backward.begin(j, p + 1);
        for (int64_t hop = 1; hop <= max_hops; ++hop) {
            const bool goes_forward = forward.end - forward.border <= backward.end - backward.border;
            Search &one = goes_forward ? forward : backward;
            if (one.step(goes_forward ? backward : forward, p + 1)) {
                distances[p] = static_cast<uint8_t>(hop);
                break;
            }
            if (one.border == one.end) break;
        }
    }
}

// Two steps are taken from node i, once for all of its pairs if they stand together, and up to two back from node j.
void pair_walks(const EgtNeighbors &after, const EgtNeighbors &before, int64_t num_pairs, const int64_t *pairs,
                double *walks) {
    const int64_t num_nodes = after.num_nodes;
    std::vector<int64_t> degree(num_nodes), reached;
    for (int64_t i = 0; i < num_nodes; ++i) degree[i] = std::max<int64_t>(after.start[i + 1] - after.start[i], 1);
    std::vector<double> count(num_nodes), chance(num_nodes);  // of two steps from node i
    for (int64_t p = 0; p < num_pairs; ++p, walks += 6) {
        const int64_t i = pairs[p], j = pairs[num_pairs + p];
        if (p == 0 || i != pairs[p - 1]) {
            for (const int64_t node : reached) count[node] = chance[node] = 0;
            reached.clear();
            for (int64_t e = after.start[i]; e < after.start[i + 1]; ++e) {
                const int64_t u = after.nodes[e];
                for (int64_t f = after.start[u]; f < after.start[u + 1]; ++f) {
                    const int64_t v = after.nodes[f];
                    if (count[v] == 0) reached.push_back(v);
                    count[v] += 1;
                    chance[v] += 1 / static_cast<double>(degree[i] * degree[u]);
                }
            }
        }
        walks[0] = count[j];
        walks[3] = chance[j];
        for (int64_t e = before.start[j]; e < before.start[j + 1]; ++e) {
            const int64_t u = before.nodes[e];
            walks[1] += count[u];
            walks[4] += chance[u] / static_cast<double>(degree[u]);
            for (int64_t f = before.start[u]; f < before.start[u + 1]; ++f) {
                const int64_t v = before.nodes[f];
                walks[2] += count[v];
                walks[5] += chance[v] / static_cast<double>(degree[v] * degree[u]);
            }
        }
    }
}

// The nonzeros of P = D^-1 A by rows: from node i the steps from first[i] to first[i + 1]. A row without weight is zero.
struct Transitions {
    std::vector<int64_t> first, keys;
    std::vector<float> steps;

    Transitions(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *weights)
        : first(num_nodes + 1), keys(num_edges), steps(num_edges) {
        std::vector<double> degree(num_nodes);
        for (int64_t e = 0; e < num_edges; ++e) {
            ++first[edges[e] + 1];
            degree[edges[e]] += weights[e];
        }
        std::partial_sum(first.begin(), first.end(), first.begin());
        std::vector<int64_t> place(first.begin(), first.end() - 1);
        for (int64_t e = 0; e < num_edges; ++e) {
            const int64_t at = place[edges[e]]++;
            keys[at] = edges[num_edges + e];
            steps[at] = weights[e] > 0 ? static_cast<float>(weights[e] / degree[edges[e]]) : 0.0f;
        }
    }
};

// Row i of P^k is the sum of P_il times row l of P^(k-1) over the neighbors l of i: the cost is E N for each step.
inline __attribute__((always_inline)) void multiply_walks(const Transitions &P, int64_t num_nodes, int64_t num_steps,
                                                          float *powers) {
    for (int64_t i = 0; i < num_nodes; ++i) powers[i * num_nodes + i] = 1;
    for (int64_t k = 1; k < num_steps; ++k) {
        const float *before = powers;
        powers += num_nodes * num_nodes;
        for (int64_t i = 0; i < num_nodes; ++i) {
            float *__restrict row = powers + i * num_nodes;
            for (int64_t e = P.first[i]; e < P.first[i + 1]; ++e) {
                const float *__restrict source = before + P.keys[e] * num_nodes;
                const float step = P.steps[e];
                for (int64_t j = 0; j < num_nodes; ++j) row[j] += step * source[j];
            }
        }
    }
}

}  // namespace

#if defined(__x86_64__) && defined(__GNUC__)
namespace egt::avx2 {

static __attribute__((target("avx2"))) void walk_powers(const Transitions &P, int64_t num_nodes, int64_t num_steps,
                                                        float *powers) {
    multiply_walks(P, num_nodes, num_steps, powers);
}

}  // namespace egt::avx2
#endif

namespace {

void walk_powers(const Transitions &P, int64_t num_nodes, int64_t num_steps, float *powers) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) return egt::avx2::walk_powers(P, num_nodes, num_steps, powers);
#endif
    multiply_walks(P, num_nodes, num_steps, powers);
}

// The walk from each first node is followed: nothing of size N^2 exists, and the cost is at most E for each step and node.
void walk_powers_at(const Transitions &P, int64_t num_nodes, int64_t num_steps, int64_t num_pairs, const int64_t *pairs,
                    float *values) {
    std::vector<float> before(num_nodes), after(num_nodes);
    for (int64_t begin = 0, end = 0; begin < num_pairs; begin = end) {
        while (end < num_pairs && pairs[end] == pairs[begin]) ++end;
        std::fill(before.begin(), before.end(), 0.0f);
        before[pairs[begin]] = 1;
        for (int64_t k = 0; k < num_steps; ++k) {
            for (int64_t r = begin; r < end; ++r) values[r * num_steps + k] = before[pairs[num_pairs + r]];
            std::fill(after.begin(), after.end(), 0.0f);
            for (int64_t i = 0; i < num_nodes; ++i) {
                if (!(before[i] > 0)) continue;
                for (int64_t e = P.first[i]; e < P.first[i + 1]; ++e) after[P.keys[e]] += before[i] * P.steps[e];
            }
            before.swap(after);
        }
    }
}

// Puts the median of three places at `low` as the pivot, and the smallest of them behind it.
void put_median_first(const double *values, int64_t *order, int64_t low, int64_t mid, int64_t high) {
    if (values[order[high]] < values[order[mid]]) std::swap(order[high], order[mid]);
    if (values[order[high]] < values[order[low]]) std::swap(order[high], order[low]);
    if (values[order[low]] < values[order[mid]]) std::swap(order[low], order[mid]);
    std::swap(order[mid], order[low + 1]);
}

// Quickselect with the median of three, as numpy has it without vector instructions.
void partition_row(int64_t count, const double *values, int64_t kth, int64_t *order) {
    std::iota(order, order + count, int64_t{0});
    const auto less = [=](int64_t a, int64_t b) { return values[a] < values[b]; };
    if (kth < 3) {  // the smallest few are found one after another
        for (int64_t place = 0; place <= kth; ++place)
            std::swap(order[place], *std::min_element(order + place, order + count, less));
        return;
    }
    int64_t low = 0, high = count - 1;
    while (low + 1 < high) {
        put_median_first(values, order, low, low + (high - low) / 2, high);
        const double pivot = values[order[low]];
        int64_t left = low + 1, right = high;
        while (true) {
            do ++left;
            while (values[order[left]] < pivot);
            do --right;
            while (pivot < values[order[right]]);
            if (right < left) break;
            std::swap(order[left], order[right]);
        }
        std::swap(order[low], order[right]);
        if (right >= kth) high = right - 1;
        if (right <= kth) low = left;
    }
    if (high == low + 1 && less(order[high], order[low])) std::swap(order[high], order[low]);
}

}  // namespace

int egt_hop_distances(const EgtGraphs *graphs, int64_t max_hops, uint8_t *distances) {
    return status_of([=]() mutable {
        const int64_t *from = graphs->from, *to = graphs->to;
        for (int64_t g = 0; g < graphs->count; ++g) {
            const int64_t num_nodes = graphs->num_nodes[g], num_edges = graphs->num_edges[g];
            hop_distances(num_nodes, num_edges, from, to, max_hops, distances);
            from += num_edges;
            to += num_edges;
            distances += num_nodes * num_nodes;
        }
    });
}

int egt_undirected_adjacency(const EgtGraphs *graphs, const double *entries, double *A, double *weights,
                             uint8_t *undirected) {
    return status_of([=]() mutable {
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
    });
}

int egt_encode_eigenvectors(int64_t count, int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                            const double *weights, const double *values, const double *vectors, float *encoding) {
    return status_of([=]() mutable {
        for (int64_t g = 0; g < count; ++g) {
            encode_eigenvectors(num_weights, num_nodes, num_columns, rank, weights, values, vectors, encoding);
            weights += num_weights * num_nodes;
            values += num_columns;
            vectors += num_nodes * num_columns;
            encoding += num_nodes * 2 * rank;
        }
    });
}

int egt_signs(int64_t num_weights, int64_t num_nodes, int64_t num_columns, const double *weights, const double *u,
              const double *v, double *signs) {
    return status_of([=]() mutable {
        for (int64_t k = 0; k < num_columns; ++k)
            signs[k] = sign_of(num_weights, num_nodes, weights, {u + k, num_columns}, {v + k, num_columns});
    });
}

int egt_encode_triplets(int64_t num_weights, int64_t num_nodes, int64_t num_columns, int64_t rank,
                        const double *weights, const double *u, const double *s, const double *v, float *encoding) {
    return status_of([=] { encode_triplets(num_weights, num_nodes, num_columns, rank, weights, u, s, v, encoding); });
}

int egt_draw_neighborhood(const EgtNeighbors *neighbors, int64_t num_roots, const int64_t *roots, int64_t num_limits,
                          const int64_t *limits, uint64_t seed, uint8_t *reached) {
    return status_of([=] { draw_neighborhood(*neighbors, num_roots, roots, num_limits, limits, seed, reached); });
}

int egt_inner_pairs(const EgtNeighbors *neighbors, int64_t num_inside, const int64_t *inside, int64_t *rows,
                    int64_t *num_rows) {
    return status_of([=] { *num_rows = inner_pairs(*neighbors, num_inside, inside, rows); });
}

int egt_pair_distances(const EgtNeighbors *after, const EgtNeighbors *before, int64_t num_pairs, const int64_t *pairs,
                       int64_t max_hops, uint8_t *distances) {
    return status_of([=] { pair_distances(*after, *before, num_pairs, pairs, max_hops, distances); });
}

int egt_pair_walks(const EgtNeighbors *after, const EgtNeighbors *before, int64_t num_pairs, const int64_t *pairs,
                   double *walks) {
    return status_of([=] { pair_walks(*after, *before, num_pairs, pairs, walks); });
}

int egt_walk_powers(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *weights,
                    int64_t num_steps, float *powers) {
    return status_of([=] { walk_powers({num_nodes, num_edges, edges, weights}, num_nodes, num_steps, powers); });
}

int egt_walk_powers_at(int64_t num_nodes, int64_t num_edges, const int64_t *edges, const double *weights,
                       int64_t num_steps, int64_t num_pairs, const int64_t *pairs, float *values) {
    return status_of([=] {
        walk_powers_at({num_nodes, num_edges, edges, weights}, num_nodes, num_steps, num_pairs, pairs, values);
    });
}

int egt_partition_rows(int64_t num_rows, int64_t num_columns, const double *values, int64_t kth, int64_t *orders) {
    return status_of([=] {
        for (int64_t row = 0; row < num_rows; ++row)
            partition_row(num_columns, values + row * num_columns, kth, orders + row * num_columns);
    });
}

int egt_exponentials(int64_t count, const double *values, double *exponentials) {
    return status_of([=] {
        std::transform(values, values + count, exponentials, [](double value) { return std::exp(value); });
    });
}
