// Per-thread working memory that is kept between calls.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace egt {

// Hands out pieces of one block of memory that only grows; `start` begins anew with all of it free.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() { std::free(memory_); }

    void start(size_t floats) {
        used_ = 0;
        if (floats <= capacity_) return;
        std::free(memory_);
        capacity_ = (floats + kAlignment - 1) / kAlignment * kAlignment;
        memory_ = static_cast<float *>(std::aligned_alloc(64, capacity_ * sizeof(float)));
        if (memory_ == nullptr) throw std::bad_alloc();
    }

    float *take(size_t floats) {
        float *piece = memory_ + used_;
        used_ += padded(floats);
        return piece;
    }

    // What one `take(floats)` uses up: pieces start on cache lines, and the gap behind each keeps equal places of two
    // pieces from being a multiple of 4096 bytes apart (a load would seem to depend on the other's store).
    static size_t padded(size_t floats) { return (floats + kAlignment - 1) / kAlignment * kAlignment + 5 * kAlignment; }

  private:
    static constexpr size_t kAlignment = 16;  // floats in a cache line
    float *memory_ = nullptr;
    size_t capacity_ = 0, used_ = 0;
};

}  // namespace egt
