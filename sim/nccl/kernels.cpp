// SPDX-License-Identifier: MIT
#include "kernels.hpp"

#include "failure.hpp"

#include <iterator>
#include <map>

namespace cuevent::sim::nccl {

namespace {

struct Type {
  const char* name;
  std::size_t bytes;
  const char* as_unsigned; ///< NCCL's kernels for sums, products and extremes of integers have no sign
  bool is_integer;
};
constexpr Type types[] = {
    {"i8", 1, "u8", true},      {"u8", 1, "u8", true},          {"i32", 4, "u32", true},
    {"u32", 4, "u32", true},    {"i64", 8, "u64", true},        {"u64", 8, "u64", true},
    {"f16", 2, "f16", false},   {"f32", 4, "f32", false},       {"f64", 8, "f64", false},
    {"bf16", 2, "bf16", false}, {"f8e4m3", 1, "f8e4m3", false}, {"f8e5m2", 1, "f8e5m2", false}};
constexpr int type_count = std::size(types);

enum Reduction { sum, product, maximum, minimum, average };

std::string symbol(const std::string& name) {
  return "ncclDevKernel_" + name + (name == "SendRecv" ? "" : "_RING_LL");
}

class Kernels {
public:
  Kernels() {
    for (const char* collective : {"AllReduce", "Reduce", "ReduceScatter"})
      for (int type = 0; type < type_count; ++type) {
        for (const int reduction : {sum, product, maximum, average})
          add(collective + reduction_name(reduction, type, false));
        add(collective + reduction_name(sum, type, true));
      }
    for (const char* collective : {"AllGather", "Broadcast", "SendRecv"})
      add(collective);
    expect(cuLibraryLoadData(&library_, code().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
           "cuLibraryLoadData");
    for (auto& [name, found] : kernels_)
      expect(cuLibraryGetKernel(&found, library_, symbol(name).c_str()), "cuLibraryGetKernel");
  }
  CUkernel get(const std::string& name) const { return kernels_.at(name); }

private:
  void add(const std::string& name) { kernels_.emplace(name, nullptr); }
  std::string code() const {
    std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
    for (const auto& [name, found] : kernels_) {
      text += ".visible .entry " + symbol(name) + "(";
      const std::size_t parameters = name == "SendRecv" ? shown_transfers : 3;
      for (std::size_t i = 0; i < parameters; ++i)
        text += std::string(i == 0 ? "" : ", ") + ".param .u64 p" + std::to_string(i);
      text += ") { ret; }\n";
    }
    return text;
  }

  CUlibrary library_ = nullptr;
  std::map<std::string, CUkernel> kernels_;
};

const Kernels& kernels() {
  static const auto* const all = new Kernels; // used until the process ends
  return *all;
}

} // namespace

std::string reduction_name(int reduction, int type, bool is_pre_mul_sum) {
  const Type& of = types[type];
  if (is_pre_mul_sum || (reduction == average && !of.is_integer))
    return std::string("_PreMulSum_") + of.as_unsigned;
  if (reduction == average) return std::string("_SumPostDiv_") + of.name;
  const char* const name = reduction == sum ? "_Sum_" : reduction == product ? "_Prod_" : "_MinMax_";
  return std::string(name) + of.as_unsigned;
}

std::size_t bytes_of(int type) { return type < 0 || type >= type_count ? 0 : types[type].bytes; }

CUfunction kernel(const std::string& name) { return reinterpret_cast<CUfunction>(kernels().get(name)); }

/// The first use of a library in a context waits for work. Later, this work might wait for a collective.
void load_kernels() {
  CUfunction function = nullptr;
  expect(cuKernelGetFunction(&function, kernels().get("SendRecv")), "cuKernelGetFunction");
}

} // namespace cuevent::sim::nccl
