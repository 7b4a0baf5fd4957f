// SPDX-License-Identifier: MIT
// A file that has its name once it is complete. However the command ends before that, nothing of it stays.
#pragma once

#include "report/folder.hpp"

#include <string>
#include <sys/types.h>

namespace cli {

class NewFile {
public:
  /// In the folder of this descriptor, which stays open. The umask takes from the mode.
  /// Throws std::system_error.
  NewFile(int folder, std::string name, mode_t mode = 0666);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int descriptor() const { return file_.number(); }
  /// Gives the file its name, which an older file or a link loses. Returns 0 or an error number.
  int publish();

private:
  template <class Make>
  bool make_part(const Make& make);
  void forget_part();
  static void remove_parts(int signal);

  int folder_;
  std::string name_;
  /// The name of the file until it is complete. Empty if the file system has files without names.
  std::string part_;
  watch::OpenFile file_;
};

} // namespace cli
