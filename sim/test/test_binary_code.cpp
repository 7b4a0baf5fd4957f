// SPDX-License-Identifier: MIT
// Kernels and variables of binary code. The files are from fuzz/small_binary.cu; the fuzz target reads them.
#include "fixture.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

using Parameters = std::vector<std::pair<std::size_t, std::size_t>>;

std::string path_of(const std::string& name) { return std::string(CUEVENT_BINARY_CODE) + '/' + name; }

std::string file(const std::string& name) {
  std::ifstream in(path_of(name), std::ios::binary);
  REQUIRE(in);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Memory that ends with the text: what reads further has a fault.
class AtEndOfMemory {
public:
  explicit AtEndOfMemory(const std::string& text) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ = (text.size() + page - 1) / page * page + page;
    pages_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages_ != MAP_FAILED);
    begin_ = static_cast<char*>(pages_) + size_ - page - text.size();
    std::memcpy(begin_, text.data(), text.size());
    REQUIRE(mprotect(static_cast<char*>(pages_) + size_ - page, page, PROT_NONE) == 0);
  }
  AtEndOfMemory(const AtEndOfMemory&) = delete;
  AtEndOfMemory& operator=(const AtEndOfMemory&) = delete;
  ~AtEndOfMemory() { munmap(pages_, size_); }
  const void* get() const { return begin_; }

private:
  void* pages_ = nullptr;
  char* begin_ = nullptr;
  std::size_t size_ = 0;
};

struct Binaries : Fixture {
  PFN_cuFuncGetAttribute_v2020 attribute = cu.find<PFN_cuFuncGetAttribute_v2020>("cuFuncGetAttribute", 2020);
  PFN_cuModuleGetGlobal_v3020 global = cu.find<PFN_cuModuleGetGlobal_v3020>("cuModuleGetGlobal", 3020);
  PFN_cuMemcpyDtoH_v3020 read = cu.find<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", 3020);
  PFN_cuModuleLoad_v2000 load_file = cu.find<PFN_cuModuleLoad_v2000>("cuModuleLoad", 2000);
  PFN_cuLibraryLoadData_v12000 load_library =
      cu.find<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000);
  PFN_cuLibraryGetKernel_v12000 library_kernel =
      cu.find<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel", 12000);

  CUmodule load(const void* image) {
    CUmodule module = nullptr;
    OK(cu.module_load(&module, image));
    return module;
  }
  CUfunction function(CUmodule module, const char* name) {
    CUfunction found = nullptr;
    OK(cu.module_function(&found, module, name));
    return found;
  }
  int get(CUfunction function, CUfunction_attribute which) {
    int value = -1;
    OK(attribute(&value, which, function));
    return value;
  }
#if CUDA_VERSION >= 12040
  Parameters parameters(CUfunction function) {
    const auto info = cu.find<PFN_cuFuncGetParamInfo_v12040>("cuFuncGetParamInfo", 12040);
    Parameters found;
    std::size_t offset = 0, size = 0;
    while (info(function, found.size(), &offset, &size) == CUDA_SUCCESS)
      found.emplace_back(offset, size);
    return found;
  }
#endif

  /// What small_binary.cu has.
  void check(CUmodule module) {
    const CUfunction odd = function(module, "odd"), none = function(module, "none");
#if CUDA_VERSION >= 12040
    CHECK(parameters(odd) == Parameters{{0, 1}, {8, 8}, {16, 13}, {30, 2}, {32, 8}});
    CHECK(parameters(none).empty());
#endif
    CHECK(get(odd, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
    CHECK(get(odd, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 64);
    CHECK(get(none, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 0);
    CHECK(get(none, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    OK(global(&address, &bytes, module, "counter"));
    CHECK(bytes == 4);
    std::uint32_t counter = 0;
    OK(read(&counter, address, 4));
    CHECK(counter == 7);
    OK(global(&address, &bytes, module, "table"));
    CHECK(bytes == 24);
    float row[5] = {9, 9, 9, 9, 9};
    OK(global(&address, &bytes, module, "row"));
    OK(read(row, address, sizeof row));
    CHECK(bytes == sizeof row);
    CHECK((row[0] == 1 && row[1] == 2 && row[4] == 0));
    CUfunction missing = nullptr;
    CHECK(cu.module_function(&missing, module, "missing") == CUDA_ERROR_NOT_FOUND);
    CHECK(global(&address, &bytes, module, "missing") == CUDA_ERROR_NOT_FOUND);
  }
};

/// The next of a fixed row of numbers.
unsigned next(unsigned& state) { return (state = state * 1'103'515'245 + 12'345) >> 8U; }

} // namespace

TEST_CASE("kernels and variables of cubins and compressed fat binaries are known") {
  Binaries f;
  for (const char* name : {"cubin", "cubin_of_cuda_12", "fat_zstd", "fat_lz4"}) {
    INFO(name);
    const std::string image = file(name);
    f.check(f.load(image.data()));
    CUmodule from_file = nullptr;
    OK(f.load_file(&from_file, path_of(name).c_str()));
    f.check(from_file);
  }
}

TEST_CASE("the wrapper of a fat binary, which nvcc's programs have, leads to it") {
  Binaries f;
  const std::string image = file("fat_zstd");
  struct {
    std::uint32_t magic, version;
    const void* data;
    const void* file;
  } const wrapper{0x466243b1, 1, image.data(), nullptr};
  f.check(f.load(&wrapper));
}

TEST_CASE("binary code says which registers and which local memory a kernel needs") {
  Binaries f;
  const std::string image = file("cubin");
  const CUmodule module = f.load(image.data());
  CHECK(f.get(f.function(module, "odd"), CU_FUNC_ATTRIBUTE_NUM_REGS) > 8);
  CHECK(f.get(f.function(module, "none"), CU_FUNC_ATTRIBUTE_NUM_REGS) == 4);
  CHECK(f.get(f.function(module, "odd"), CU_FUNC_ATTRIBUTE_PTX_VERSION) == 90);
}

TEST_CASE("a launch of a binary kernel without its parameters is refused") {
  Binaries f;
  const std::string image = file("cubin");
  const CUmodule module = f.load(image.data());
  const auto launch = [&](const char* name, unsigned threads) {
    return f.cu.launch(f.function(module, name), 1, 1, 1, threads, 1, 1, 0, f.stream, nullptr, nullptr);
  };
  CHECK(launch("none", 1) == CUDA_SUCCESS);
  CHECK(launch("odd", 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch("odd", 129) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a library takes code for another device, and says so when it is used") {
  Binaries f;
  std::string image = file("cubin");
  image[0x31] = 80; // the device in the flags of the file
  CUmodule module = nullptr;
  CHECK(f.cu.module_load(&module, image.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CUlibrary library = nullptr;
  OK(f.load_library(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CHECK(f.library_kernel(&kernel, library, "odd") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  image = file("cubin").substr(0, 1000); // without the table of sections
  image.resize(8000);
  CHECK(f.load_library(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_IMAGE);
}

#if CUDA_VERSION >= 12040
TEST_CASE("a list of functions begins with the last one of the file, and does not load them") {
  Binaries f;
  const std::string image = file("cubin");
  const CUmodule module = f.load(image.data());
  const auto list = f.cu.find<PFN_cuModuleEnumerateFunctions_v12040>("cuModuleEnumerateFunctions", 12040);
  const auto name_of = f.cu.find<PFN_cuFuncGetName_v12030>("cuFuncGetName", 12030);
  const auto load = f.cu.find<PFN_cuFuncLoad_v12040>("cuFuncLoad", 12040);
  CUfunction functions[2] = {};
  OK(list(functions, 2, module));
  const char* name = nullptr;
  OK(name_of(&name, functions[0]));
  CHECK(std::string(name) == "odd");
  int value = 0;
  CHECK(f.attribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, functions[0]) ==
        CUDA_ERROR_FUNCTION_NOT_LOADED);
  CHECK(f.get(functions[0], CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 64);
  OK(load(functions[0]));
  CHECK(f.get(functions[0], CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
}
#endif

TEST_CASE("clusters fit as on the H100 that was asked") {
  Fixture f;
  const auto count =
      f.cu.find<PFN_cuOccupancyMaxActiveClusters_v11070>("cuOccupancyMaxActiveClusters", 11070);
  const auto largest =
      f.cu.find<PFN_cuOccupancyMaxPotentialClusterSize_v11070>("cuOccupancyMaxPotentialClusterSize", 11070);
  CUlaunchAttribute wish{};
  wish.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  wish.value.clusterDim = {1, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = 5040;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &wish;
  config.numAttrs = 1;
  const std::map<unsigned, std::vector<int>> measured{
      // by the blocks of a cluster: with 32, 512, 1024 threads
      {1, {1056, 528, 264}}, {2, {528, 264, 132}}, {3, {327, 163, 79}}, {4, {248, 124, 62}},
      {5, {193, 94, 47}},    {6, {163, 79, 39}},   {7, {139, 69, 32}},  {8, {124, 62, 30}}};
  for (const auto& [size, answers] : measured)
    for (std::size_t i = 0; i < 3; ++i) {
      wish.value.clusterDim.x = size;
      config.blockDimX = i == 0 ? 32 : static_cast<unsigned>(512 * i);
      int found = 0, potential = 0;
      OK(count(&found, f.kernel, &config));
      OK(largest(&potential, f.kernel, &config));
      CHECK(found == answers[i]);
      CHECK(potential == 8);
    }
  int found = -1;
  wish.value.clusterDim.x = 9;
  CHECK(count(&found, f.kernel, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  wish.value.clusterDim.x = 8;
  config.gridDimX = 7;
  CHECK(count(&found, f.kernel, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_CASE("a damaged binary is loaded or refused, and never read behind its end") {
  Binaries f;
  unsigned state = 1;
  int loaded = 0, refused = 0;
  for (const char* name : {"cubin", "cubin_of_cuda_12", "fat_zstd", "fat_lz4"}) {
    const std::string whole = file(name);
    for (int i = 0; i < 150; ++i) {
      std::string damaged = whole;
      for (unsigned changes = 1 + next(state) % 4; changes != 0; --changes)
        damaged[next(state) % 3 != 0 ? next(state) % damaged.size() : next(state) % 64] =
            static_cast<char>(next(state));
      if (next(state) % 4 == 0) damaged.resize(16 + next(state) % (damaged.size() - 16));
      if (damaged.compare(0, 4, whole, 0, 4) != 0) continue; // no binary any more
      const AtEndOfMemory image(damaged);
      CUmodule module = nullptr;
      const CUresult result = f.cu.module_load(&module, image.get());
      (result == CUDA_SUCCESS ? loaded : refused)++;
      if (result != CUDA_SUCCESS) continue;
      CUdeviceptr address = 0;
      std::size_t bytes = 0;
#if CUDA_VERSION >= 12040
      CUfunction function = nullptr;
      if (f.cu.module_function(&function, module, "odd") == CUDA_SUCCESS) f.parameters(function);
#endif
      f.global(&address, &bytes, module, "row");
    }
  }
  CHECK(loaded > 50);
  CHECK(refused > 50);
}
