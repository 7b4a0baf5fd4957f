// SPDX-License-Identifier: MIT
// Precompiled for speed only: each source includes what it needs, as a build with -Db_pch=false shows.
#include "../src/cuda_headers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
