// SPDX-License-Identifier: MIT
// What the ranks of an MPI job on one host tell each other before they begin: their clocks and descriptors.
#pragma once

#include "../support/send_descriptor.hpp"

#include <cuevent/rank_report.hpp>

#include <mpi.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace ranks {

/// MPI from here to the end of the scope. Calls of several threads are ordered by the program.
class Mpi {
public:
  Mpi() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (provided < MPI_THREAD_SERIALIZED)
      throw std::runtime_error("this MPI allows calls of one thread only");
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() { MPI_Finalize(); }

  int rank() const { return of(MPI_Comm_rank, MPI_COMM_WORLD); }
  int size() const { return of(MPI_Comm_size, MPI_COMM_WORLD); }
  int size_of_host() const {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    const int size = of(MPI_Comm_size, host);
    MPI_Comm_free(&host);
    return size;
  }

private:
  static int of(int (*ask)(MPI_Comm, int*), MPI_Comm communicator) {
    int answer = 0;
    ask(communicator, &answer);
    return answer;
  }
};

/// Compares this rank's clock with rank 0's. All ranks call this. Returns the best of several exchanges; for
/// rank 0, its own time.
inline cuevent::ClockSample compare_clocks(const Mpi& mpi, const cuevent::Driver& driver) {
  constexpr int exchanges = 32;
  const auto now = [&] { return driver.table().clock_now(); };
  const auto time = [](long long nanoseconds) {
    return cuevent::HostTime(std::chrono::nanoseconds(nanoseconds));
  };
  cuevent::ClockSample best{time(now()), time(now()), {}};
  for (int rank = 1; rank < mpi.size(); ++rank)
    for (int i = 0; i < exchanges; ++i) {
      long long answer = 0;
      if (mpi.rank() == 0) {
        MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        answer = now();
        MPI_Send(&answer, 1, MPI_LONG_LONG, rank, 0, MPI_COMM_WORLD);
      } else if (mpi.rank() == rank) {
        const long long asked = now();
        MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&answer, 1, MPI_LONG_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const auto sample = cuevent::ClockSample::exchanged(time(asked), time(answer), time(now()));
        if (i == 0 || sample.uncertainty < best.uncertainty) best = sample;
      }
    }
  return best;
}

/// A Unix socket between rank 0 and each other rank of the host, to hand over descriptors. All ranks make
/// one.
class Sockets {
public:
  explicit Sockets(const Mpi& mpi) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX; // the name begins with a null byte, so it is no file
    const int mine = check(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    if (mpi.rank() == 0) {
      const std::string name = "cuevent-data-parallel-" + std::to_string(getpid());
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      check(bind(mine, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
      check(listen(mine, mpi.size()), "listen");
    }
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    sockets_.push_back(mine);
    if (mpi.rank() != 0) {
      check(connect(mine, reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
      return;
    }
    for (int i = 1; i < mpi.size(); ++i)
      sockets_.push_back(check(accept4(mine, nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets() {
    for (const int each : sockets_)
      close(each);
  }

  /// Rank 0: the number of other ranks. They have no particular order.
  std::size_t others() const { return sockets_.size() - 1; }
  void send(std::size_t other, int descriptor) {
    if (!send_descriptor(sockets_.at(other + 1), descriptor))
      throw std::runtime_error("a descriptor cannot be sent to another rank: did it die?");
  }
  int receive() {
    const int descriptor = receive_descriptor(sockets_.front());
    if (descriptor < 0) throw std::runtime_error("no descriptor comes from rank 0: did it die?");
    return descriptor;
  }

private:
  static int check(int result, const char* call) {
    if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
    return result;
  }
  std::vector<int> sockets_; // the first one listens, or is connected to rank 0
};

} // namespace ranks
