// Work spread over the machine's threads. Knows counts and chunks, not what the work is.
#pragma once

#include <cstdint>
#include <functional>

namespace csajit::tool {

// Threads to use when nobody asked for a number: the machine's, at least one.
unsigned default_threads();

// Calls body(worker, begin, end) over chunks of [0, count) until all are done; worker < the returned number of
// workers, so that each may own its scratch. Workers that could not be started are done without. An exception of
// `body` stops the hand-out of chunks and is thrown again here.
unsigned parallel_for(std::int64_t count, std::int64_t chunk, unsigned threads,
                      const std::function<void(unsigned worker, std::int64_t begin, std::int64_t end)>& body);

}  // namespace csajit::tool
