// SPDX-License-Identifier: MIT
// Writes memory of the device to a file with KvikIO, and reads the file into other memory: kvikio FILE
#include <kvikio/file_handle.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  constexpr std::size_t size = (9 << 20) + 5; // several tasks, and no multiple of a page
  std::vector<unsigned char> values(size), back(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<unsigned char>(i * 7 / 3);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr from = 0, to = 0;
  if (argc != 2 || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context) || cuMemAlloc(&from, size) || cuMemAlloc(&to, size) ||
      cuMemcpyHtoD(from, values.data(), size) || cuMemsetD8(to, 0, size))
    return 2;
  const std::size_t written =
      kvikio::FileHandle(argv[1], "w").pwrite(reinterpret_cast<void*>(from), size).get();
  const std::size_t read = kvikio::FileHandle(argv[1], "r").pread(reinterpret_cast<void*>(to), size).get();
  if (cuMemcpyDtoH(back.data(), to, size)) return 2;
  std::printf("%zu written, %zu read, equal: %d\n", written, read, back == values);
  return written == size && read == size && back == values ? 0 : 1;
}
