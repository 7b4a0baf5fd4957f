// SPDX-License-Identifier: MIT
// Precompiled for speed only: each source includes what it needs, as a build with -Db_pch=false shows.
#include "../everywhere.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
