// SPDX-License-Identifier: MIT
#include "temporary_folder.hpp"

#include "report/folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

namespace cli {

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  const char* const folder = std::getenv("TMPDIR");
  path = std::filesystem::absolute(folder == nullptr || *folder == '\0' ? "/tmp" : folder).string() + '/' +
         prefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + ": " + std::strerror(errno));
  try {
    const watch::Folder checked(path, watch::Folder::Kind::own);
  } catch (const watch::Refused&) {
    rmdir(path.c_str());
    throw;
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace cli
