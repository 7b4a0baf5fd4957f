// SPDX-License-Identifier: MIT
// Launches as before CUDA 4.0: a function keeps the shape of its blocks and its parameters.

#include "everywhere.hpp"

#include <array>
#include <bit>

namespace transcript {
namespace {

using namespace std::chrono_literals;

// A kernel whose blocks are of one thread.
CUfunction shaped(Lab& lab, const char* name) {
  lab.must(lab.cu.FuncSetBlockShape == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS, "cuFuncSetBlockShape");
  const CUfunction function = lab.kernel(name);
  lab.must(lab.cu.FuncSetBlockShape(function, 1, 1, 1), "cuFuncSetBlockShape");
  return function;
}

void unshaped(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  lab.must(cu.Launch == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS, "cuLaunch");
  const CUfunction step = lab.kernel("step");
  lab.is("launch", cu.Launch(step));
  lab.is("grid", cu.LaunchGrid(step, 1, 1));
  lab.is("async", cu.LaunchGridAsync(step, 1, 1, stream));
  lab.is("synchronize", cu.CtxSynchronize());
}

void sizes(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction step = shaped(lab, "step");
  Stream stream(lab);
  lab.is("launch", cu.Launch(step));
  struct Shape {
    int x, y, z;
  };
  for (const auto& [x, y, z] :
       {Shape{1024, 1, 1}, Shape{1025, 1, 1}, Shape{1024, 2, 1}, Shape{1, 1, 64}, Shape{1, 1, 65},
        Shape{0, 1, 1}, Shape{1, 0, 1}, Shape{1, 1, 0}, Shape{-1, 1, 1}}) {
    const std::string name = "shape." + std::to_string(x) + "_" + std::to_string(y) + "_" + std::to_string(z);
    lab.is(name, cu.FuncSetBlockShape(step, x, y, z));
    lab.is(name + ".launch", cu.Launch(step));
  }
  lab.is("shape.back", cu.FuncSetBlockShape(step, 1, 1, 1));
  for (const unsigned bytes : {1024U, 49152U, 49153U, 232448U, 300000U, ~0U, 0U}) {
    const std::string name = "shared." + std::to_string(bytes);
    lab.is(name, cu.FuncSetSharedSize(step, bytes));
    lab.is(name + ".launch", cu.Launch(step));
  }
  for (const auto& [x, y] :
       {std::pair(1, 1), {65535, 1}, {65536, 1}, {1, 65535}, {1, 65536}, {0, 1}, {1, 0}, {-1, 1}})
    lab.shows("grid." + std::to_string(x) + "_" + std::to_string(y),
              joined(lab, {cu.LaunchGrid(step, x, y), cu.LaunchGridAsync(step, x, y, stream)}));
  for (const auto& [name, on] :
       {std::pair("null", CUstream{}), {"legacy", CU_STREAM_LEGACY}, {"per_thread", CU_STREAM_PER_THREAD}})
    lab.is(std::string("stream.") + name, cu.LaunchGridAsync(step, 1, 1, on));
  lab.is("synchronize", cu.CtxSynchronize());
}

void parameters(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction touch = shaped(lab, "touch");
  const auto launches = [&](const std::string& name, const unsigned* word) {
    lab.is(name + ".launch", cu.Launch(touch));
    lab.is(name + ".synchronize", cu.CtxSynchronize());
    lab.shows(name + ".ran", *word);
  };
  const auto halves = [](const unsigned* word) {
    return std::bit_cast<std::array<unsigned, 2>>(Lab::address(word));
  };
  unsigned* const first = lab.word();
  CUdeviceptr where = Lab::address(first);
  lab.is("size", cu.ParamSetSize(touch, sizeof where));
  lab.is("whole", cu.ParamSetv(touch, 0, &where, sizeof where));
  launches("whole", first);
  *first = 0;
  launches("again", first);
  unsigned* const second = lab.word();
  lab.is("integers.low", cu.ParamSeti(touch, 0, halves(second)[0]));
  lab.is("integers.high", cu.ParamSeti(touch, 4, halves(second)[1]));
  launches("integers", second);
  unsigned* const third = lab.word();
  lab.is("floats.low", cu.ParamSetf(touch, 0, std::bit_cast<float>(halves(third)[0])));
  lab.is("floats.high", cu.ParamSetf(touch, 4, std::bit_cast<float>(halves(third)[1])));
  launches("floats", third);
  // When a launch reads the parameters: one that is held, and has others by the time it starts.
  unsigned *const before = lab.word(), *const after = lab.word();
  Stream stream(lab);
  Gate gate(lab, stream);
  where = Lab::address(before);
  lab.is("held.whole", cu.ParamSetv(touch, 0, &where, sizeof where));
  lab.is("held.launch", cu.LaunchGridAsync(touch, 1, 1, stream));
  where = Lab::address(after);
  lab.is("held.change", cu.ParamSetv(touch, 0, &where, sizeof where));
  gate.open();
  lab.is("held.synchronize", cu.StreamSynchronize(stream));
  lab.shows("held.ran", std::to_string(*before) + ", " + std::to_string(*after));
}

// Whether launches without a stream return while another stream is held, and whether they run.
void held(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction touch = shaped(lab, "touch");
  for (const unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT}) {
    const std::string name = flags == CU_STREAM_DEFAULT ? "blocking" : "non_blocking";
    Stream stream(lab, flags);
    unsigned* const word = lab.word();
    CUdeviceptr where = Lab::address(word);
    lab.must(cu.ParamSetSize(touch, sizeof where), "cuParamSetSize");
    lab.must(cu.ParamSetv(touch, 0, &where, sizeof where), "cuParamSetv");
    Gate gate(lab, stream);
    Background background(lab, [&] { return cu.Launch(touch); });
    lab.shows(name + ".returns", background.returns_within(250ms));
    std::this_thread::sleep_for(20ms);
    lab.shows(name + ".ran", std::atomic_ref(*word).load());
    gate.open();
    lab.is(name, background.join());
    lab.is(name + ".synchronize", cu.CtxSynchronize());
    lab.shows(name + ".ran_then", *word);
  }
}

// The results alone: nothing is launched with these. The negative offset ended the process.
void wrong_parameters(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction step = shaped(lab, "step");
  for (const unsigned size : {0U, 4U, 7U, 8U, 9U, 16U, 4096U, 4097U, 32764U, 32765U, ~0U})
    lab.is("step.size." + std::to_string(size), cu.ParamSetSize(step, size));
  lab.is("step.size.back", cu.ParamSetSize(step, 8));
  for (const int offset : {0, 1, 4, 5, 8, 4092, 4096, -1}) {
    const std::string end = std::to_string(offset);
    lab.is("step.integer." + end, cu.ParamSeti(step, offset, 0));
    lab.is("step.float." + end, cu.ParamSetf(step, offset, 0));
  }
}

// The same for several bytes.
void pieces(Lab& lab) {
  struct Piece {
    int offset;
    unsigned size;
  };
  std::array<char, 5000> bytes{};
  for (const char* kernel : {"step", "touch"}) {
    const CUfunction function = shaped(lab, kernel);
    lab.is(std::string(kernel) + ".nothing", lab.cu.ParamSetv(function, 0, nullptr, 0));
    for (const auto& [offset, size] :
         {Piece{0, 0}, Piece{0, 4}, Piece{1, 8}, Piece{4, 8}, Piece{0, 4096}, Piece{0, 4097}, Piece{4096, 1}})
      lab.is(std::string(kernel) + "." + std::to_string(offset) + "_" + std::to_string(size),
             lab.cu.ParamSetv(function, offset, bytes.data(), size));
  }
}

void null_parameter(Lab& lab) {
  const CUfunction touch = shaped(lab, "touch");
  lab.is("set", lab.cu.ParamSetv(touch, 0, nullptr, 8));
}

// The kernel has one parameter of eight bytes, and may read what was not given.
constexpr unsigned launched_sizes[] = {0, 4, 7, 9, 16};

template <std::size_t index>
void launch_with(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction touch = shaped(lab, "touch");
  unsigned* const word = lab.word();
  CUdeviceptr where = Lab::address(word);
  lab.is("whole", cu.ParamSetv(touch, 0, &where, sizeof where));
  lab.is("size", cu.ParamSetSize(touch, launched_sizes[index]));
  lab.is("launch", cu.Launch(touch));
  lab.is("synchronize", cu.CtxSynchronize());
  lab.shows("ran", *word);
}

// The parameters of a kernel that has none.
void superfluous(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction step = shaped(lab, "step");
  lab.is("size", cu.ParamSetSize(step, 8));
  lab.is("integer", cu.ParamSeti(step, 0, 1));
  lab.is("launch", cu.Launch(step));
  lab.is("synchronize", cu.CtxSynchronize());
}

struct OnFunction {
  const char* name;
  CUresult (*call)(const Api&, CUfunction, CUstream);
};
constexpr OnFunction calls[] = {
    {"block_shape", [](const Api& cu, CUfunction of, CUstream) { return cu.FuncSetBlockShape(of, 1, 1, 1); }},
    {"shared_size", [](const Api& cu, CUfunction of, CUstream) { return cu.FuncSetSharedSize(of, 0); }},
    {"size", [](const Api& cu, CUfunction of, CUstream) { return cu.ParamSetSize(of, 0); }},
    {"integer", [](const Api& cu, CUfunction of, CUstream) { return cu.ParamSeti(of, 0, 0); }},
    {"float", [](const Api& cu, CUfunction of, CUstream) { return cu.ParamSetf(of, 0, 0); }},
    {"piece",
     [](const Api& cu, CUfunction of, CUstream) {
       char byte = 0;
       return cu.ParamSetv(of, 0, &byte, 1);
     }},
    {"launch", [](const Api& cu, CUfunction of, CUstream) { return cu.Launch(of); }},
    {"grid", [](const Api& cu, CUfunction of, CUstream) { return cu.LaunchGrid(of, 1, 1); }},
    {"async", [](const Api& cu, CUfunction of, CUstream on) { return cu.LaunchGridAsync(of, 1, 1, on); }},
};

template <std::size_t index>
void null_function(Lab& lab) {
  Stream stream(lab);
  lab.is("call", calls[index].call(lab.cu, nullptr, stream));
}

void in_captures(Lab& lab) {
  const CUfunction step = shaped(lab, "step");
  for (const auto& [name, call] : calls)
    everywhere_and_captured(lab, name, [&, of = call](CUstream on) { return of(lab.cu, step, on); });
}

// The function is of a context that is not current.
void other_context(Lab& lab) {
  const CUfunction step = shaped(lab, "step");
  Stream at_home(lab);
  const Current other(lab, lab.second_context());
  Stream stream(lab);
  for (const auto& [name, call] : calls)
    lab.is(name, call(lab.cu, step, stream));
  lab.is("async.home_stream", lab.cu.LaunchGridAsync(step, 1, 1, at_home));
  lab.is("synchronize", lab.cu.CtxSynchronize());
}

// A scenario is a plain function, so each call needs one of its own.
template <std::size_t... index>
constexpr std::array<void (*)(Lab&), sizeof...(index)> null_functions(std::index_sequence<index...>) {
  return {null_function<index>...};
}

void add_null_functions(std::vector<Scenario>& all) {
  constexpr auto scenarios = null_functions(std::make_index_sequence<std::size(calls)>());
  for (std::size_t index = 0; index < scenarios.size(); ++index)
    all.push_back(
        {std::string("old_launch.null_function.") + calls[index].name, scenarios[index], Place::child});
}

template <std::size_t... index>
void add_launches(std::vector<Scenario>& all, std::index_sequence<index...>) {
  (all.push_back(
       {"old_launch.with_bytes_" + std::to_string(launched_sizes[index]), launch_with<index>, Place::last}),
   ...);
}

} // namespace

std::vector<Scenario> old_launch_scenarios() {
  std::vector<Scenario> all = {{"old_launch.unshaped", unshaped, Place::child},
                               {"old_launch.sizes", sizes, Place::child},
                               {"old_launch.parameters", parameters, Place::child},
                               {"old_launch.held", held, Place::child},
                               {"old_launch.wrong_parameters", wrong_parameters, Place::last},
                               {"old_launch.pieces", pieces, Place::child},
                               {"old_launch.null_parameter", null_parameter, Place::child},
                               {"old_launch.superfluous", superfluous, Place::child},
                               {"old_launch.in_captures", in_captures, Place::alone},
                               {"old_launch.other_context", other_context, Place::child}};
  add_null_functions(all);
  add_launches(all, std::make_index_sequence<std::size(launched_sizes)>());
  return all;
}

} // namespace transcript
