// Runs numbered parts of a job on threads: torch's own OpenMP workers where there are any, else short-lived threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace egt {

// The entry point that GCC's, LLVM's and Intel's OpenMP runtimes share.
using RunParallel = void (*)(void (*body)(void *), void *data, unsigned num_threads, unsigned flags);

// Calls body(part) once for each part in [0, num_parts). A thread that is done takes the next part, so a slow or busy
// processor holds up no other; results must depend on the part only. The first exception of a part is rethrown here.
template <class Body>
void for_each_part(int num_parts, int num_threads, const void *run_parallel, Body body) {
    struct Job {
        Body &body;
        int num_parts;
        std::atomic<int> next;
        std::mutex mutex;
        std::exception_ptr error;

        static void work(void *data) {
            Job &job = *static_cast<Job *>(data);
            for (int part = job.next++; part < job.num_parts; part = job.next++) {
                try {
                    job.body(part);
                } catch (...) {
                    const std::lock_guard<std::mutex> lock(job.mutex);
                    if (!job.error) job.error = std::current_exception();
                }
            }
        }
    };
    Job job{body, num_parts, {0}, {}, {}};
    num_threads = std::min(num_threads, num_parts);
    if (num_threads <= 1) {
        Job::work(&job);
    } else if (run_parallel != nullptr) {
        reinterpret_cast<RunParallel>(const_cast<void *>(run_parallel))(&Job::work, &job, num_threads, 0);
    } else {
        std::vector<std::thread> threads;
        threads.reserve(num_threads);
        try {
            for (int i = 1; i < num_threads; ++i) threads.emplace_back(&Job::work, &job);
        } catch (const std::exception &) {  // no more threads, or memory: those that run, and this one, do the rest
        }
        Job::work(&job);
        for (std::thread &thread : threads) thread.join();
    }
    if (job.error) std::rethrow_exception(job.error);
}

}  // namespace egt
