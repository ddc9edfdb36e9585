// What the C functions return. No exception may leave them: a process that called one would end without a word.
#pragma once

#include <new>
#include <system_error>

namespace egt {

enum Status { kDone = 0, kSizesDoNotMatch = 1, kOutOfMemory = 2, kNoThreads = 3, kFailed = 4 };

// The status of a job, or that of what it throws.
template <class Job>
int status_of(Job job) {
    try {
        job();
    } catch (const std::bad_alloc &) {
        return kOutOfMemory;
    } catch (const std::system_error &) {
        return kNoThreads;
    } catch (...) {
        return kFailed;
    }
    return kDone;
}

}  // namespace egt
