// Per-thread working memory that is kept between calls.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)
#define ASAN_UNPOISON_MEMORY_REGION(address, size)
#endif

namespace egt {

// Hands out pieces of one block of memory that only grows; `start` begins again with all of it free, for pieces whose
// padded sizes add up to `floats`. A sanitizer sees a write between two pieces.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() { release(); }

    void start(size_t floats) {
        used_ = 0;
        if (floats > capacity_) {
            release();
            memory_ = static_cast<float *>(std::aligned_alloc(64, floats * sizeof(float)));
            if (memory_ == nullptr) throw std::bad_alloc();
            capacity_ = floats;
        }
        ASAN_POISON_MEMORY_REGION(memory_, capacity_ * sizeof(float));
    }

    float *take(size_t floats) {
        float *piece = memory_ + used_;
        ASAN_UNPOISON_MEMORY_REGION(piece, floats * sizeof(float));
        used_ += padded(floats);
        return piece;
    }

    // What one `take(floats)` uses up: pieces start on cache lines, and the gap behind each keeps equal places of two
    // pieces from being a multiple of 4096 bytes apart (a load would seem to depend on the other's store).
    static size_t padded(size_t floats) { return (floats + kAlignment - 1) / kAlignment * kAlignment + 5 * kAlignment; }

  private:
    void release() {
        ASAN_UNPOISON_MEMORY_REGION(memory_, capacity_ * sizeof(float));
        std::free(memory_);
        memory_ = nullptr;
        capacity_ = 0;
    }

    static constexpr size_t kAlignment = 16;  // floats in a cache line
    float *memory_ = nullptr;
    size_t capacity_ = 0, used_ = 0;
};

// This thread's working memory.
inline Scratch &own_scratch() {
    thread_local Scratch scratch;
    return scratch;
}

}  // namespace egt
