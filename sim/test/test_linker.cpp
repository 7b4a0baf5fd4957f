// SPDX-License-Identifier: MIT
// The driver's linker, with inputs as compilers make them.
#include "death.hpp"
#include "fixture.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

/// A link state, and what was said last.
struct Linker {
  explicit Linker(Fixture& f)
      : add(f.cu.find<PFN_cuLinkAddData_v6050>("cuLinkAddData", 6050)),
        finish(f.cu.find<PFN_cuLinkComplete_v5050>("cuLinkComplete", 5050)),
        destroy(f.cu.find<PFN_cuLinkDestroy_v5050>("cuLinkDestroy", 5050)) {
    OK(f.cu.find<PFN_cuLinkCreate_v6050>("cuLinkCreate", 6050)(0, nullptr, nullptr, &state));
  }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;
  ~Linker() { destroy(state); }

  CUresult input(CUjitInputType type, std::string content) const {
    return add(state, type, content.data(), content.size(), "a", 0, nullptr, nullptr);
  }
  CUresult ptx(const std::string& body) const {
    return input(CU_JIT_INPUT_PTX, ".version 7.0\n.target sm_75\n" + body);
  }
  CUresult complete() { return finish(state, &out, nullptr); }

  PFN_cuLinkAddData_v6050 add;
  PFN_cuLinkComplete_v5050 finish;
  PFN_cuLinkDestroy_v5050 destroy;
  CUlinkState state = nullptr;
  void* out = nullptr;
};

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A fat binary with one PTX.
std::string fat_binary(const std::string& body) {
  std::string text = ".version 7.0\n.target sm_75\n" + body;
  text.resize((text.size() + 8) / 8 * 8, '\0');
  std::string fat;
  append(fat, std::uint32_t{0xba55ed50});
  append(fat, std::uint16_t{1}); // the version, and the size of this head
  append(fat, std::uint16_t{16});
  append(fat, std::uint64_t{64 + text.size()});
  append(fat, std::uint16_t{1}); // PTX
  append(fat, std::uint16_t{0x101});
  append(fat, std::uint32_t{64}); // the size of this head
  append(fat, std::uint64_t{text.size()});
  append(fat, std::uint64_t{0});
  append(fat, std::uint32_t{0x70000});
  append(fat, std::uint32_t{75}); // the architecture
  fat.resize(fat.size() + 32, '\0');
  return fat + text;
}

/// An object of the host with this section, as the host's compiler makes one for nvcc.
std::string host_object(const std::string& fat) {
  const std::string names = std::string(1, '\0') + "__nv_relfatbin" + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_type = ET_REL;
  head.e_machine = EM_X86_64;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = 3;
  head.e_shstrndx = 2;
  head.e_shoff = sizeof head + fat.size() + names.size();
  Elf64_Shdr none{}, code{}, table{};
  code.sh_name = 1;
  code.sh_type = SHT_PROGBITS;
  code.sh_offset = sizeof head;
  code.sh_size = fat.size();
  table.sh_name = 16;
  table.sh_type = SHT_STRTAB;
  table.sh_offset = sizeof head + fat.size();
  table.sh_size = names.size();
  std::string file;
  append(file, head);
  file += fat + names;
  for (const Elf64_Shdr& section : {none, code, table})
    append(file, section);
  return file;
}

/// A library, as `ar` makes one: with a table of names before its members.
std::string library(const std::vector<std::string>& members) {
  std::string file = "!<arch>\n";
  const auto add = [&](std::string name, const std::string& content) {
    name.resize(48, ' ');
    std::string size = std::to_string(content.size());
    size.resize(10, ' ');
    file += name + size + "`\n" + content;
    if (content.size() % 2 != 0) file += '\n';
  };
  add("/", "table");
  for (const std::string& member : members)
    add("a.o/", member);
  return file;
}

const char* const caller = ".extern .func (.param .b32 r) outside (.param .b32 a);\n"
                           ".visible .entry calls(.param .u64 p) { call.uni (r), outside, (a); ret; }\n";
const char* const callee = ".visible .func (.param .b32 r) outside (.param .b32 a) { ret; }\n";

} // namespace

TEST_CASE("the driver's linker says what is missing, and what is there twice") {
  Fixture f;
  {
    Linker missing(f);
    OK(missing.ptx(caller));
    CHECK(missing.complete() == CUDA_ERROR_INVALID_SOURCE);
    CHECK(missing.ptx(callee) == CUDA_ERROR_INVALID_VALUE); // too late
    CHECK(missing.complete() == CUDA_ERROR_INVALID_SOURCE);
  }
  {
    Linker twice(f);
    OK(twice.ptx(caller));
    CHECK(twice.ptx(caller) == CUDA_ERROR_INVALID_SOURCE);
    CHECK(twice.ptx(callee) == CUDA_ERROR_INVALID_SOURCE);
    OK(twice.input(CU_JIT_INPUT_OBJECT, "text"));
    CHECK(twice.complete() == CUDA_ERROR_INVALID_SOURCE);
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  {
    Linker linker(f);
    OK(linker.ptx(caller));
    OK(linker.ptx(callee));
    OK(linker.complete());
    CHECK(linker.complete() == CUDA_ERROR_INVALID_HANDLE);
    OK(f.cu.module_load(&module, linker.out));
  }
  CHECK(f.cu.module_function(&function, module, "calls") == CUDA_SUCCESS);
  CHECK(f.cu.module_function(&function, module, "outside") == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("what the linker finds after an input that misleads it is not modelled") {
  struct Input {
    CUjitInputType type;
    const char* content;
    CUresult result;
  };
  const Input inputs[] = {
      {CU_JIT_INPUT_PTX, ".version 99.0\n.target sm_75\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
      {CU_JIT_INPUT_OBJECT, "text", CUDA_ERROR_UNKNOWN},
      {CU_JIT_INPUT_OBJECT, ".version 7.0\n.target sm_75\n", CUDA_ERROR_UNKNOWN},
      {CU_JIT_INPUT_LIBRARY, ".version 7.0\n.target sm_75\n", CUDA_ERROR_UNKNOWN}};
  for (const Input& given : inputs)
    for (const bool missing : {false, true}) {
      INFO(given.content << ", " << missing);
      const Death death = death_of([&] {
        Fixture f;
        Linker linker(f);
        if (linker.input(given.type, given.content) != given.result) return;
        OK(linker.ptx(".visible .entry a() { ret; }"));
        OK(linker.ptx(".extern .func m ();\n.visible .entry b() { call.uni m; ret; }"));
        if (missing)
          linker.complete();
        else
          linker.ptx(".visible .entry a() { ret; }");
      });
      CHECK(death.aborted);
      CHECK(death.says("after an input that misled it"));
    }
}

// As NVIDIA's linker of CUDA 13.0 links them.
TEST_CASE("names that are weak or local can be there twice, and unused functions need nothing") {
  Fixture f;
  const std::string head = ".extern .func missing ();\n.visible .func unused () { call.uni missing; ret; }\n";
  const auto both = [&](const std::string& first, const std::string& second) {
    Linker linker(f);
    OK(linker.ptx(first));
    const CUresult added = linker.ptx(second);
    return added == CUDA_SUCCESS ? linker.complete() : added;
  };
  for (const char* name : {"", ".weak ", ".common "}) {
    const std::string variable = name + std::string(".global .u32 v;\n");
    CHECK(both(head + variable + ".visible .entry a() { ret; }", variable) == CUDA_SUCCESS);
  }
  CHECK(both(".weak .entry a();\n.weak .entry a() { ret; }", ".weak .entry a() { ret; }") == CUDA_SUCCESS);
  CHECK(both(".func g () { ret; } .entry a() { call.uni g; ret; }",
             ".func g () { ret; } .entry b() { call.uni g; ret; }") == CUDA_SUCCESS);
  CHECK(both(".visible .global .u32 v;", ".visible .global .u32 v;") == CUDA_ERROR_INVALID_SOURCE);
  CHECK(both(".visible .func g () { ret; }", ".visible .func g () { ret; }") == CUDA_ERROR_INVALID_SOURCE);
  const std::string user = ".extern .global .u32 v;\n.entry a() { ld.global.u32 r, [v+4]; ret; }";
  CHECK(both(user, ".visible .global .u32 w;") == CUDA_ERROR_INVALID_SOURCE);
  CHECK(both(user, ".visible .global .u32 v;") == CUDA_SUCCESS);
  const std::string parent = ".extern .entry b ();\n.entry a() { mov.u64 r, b; ret; }";
  CHECK(both(parent, ".entry c() { ret; }") == CUDA_ERROR_INVALID_SOURCE);
  CHECK(both(parent, ".visible .entry b() { ret; }") == CUDA_SUCCESS);
}

TEST_CASE("the driver's linker takes what it needs from objects and libraries of the host") {
  Fixture f;
  const std::string object = host_object(fat_binary(callee)), other = host_object(fat_binary(caller));
  {
    Linker linker(f);
    OK(linker.ptx(caller));
    OK(linker.input(CU_JIT_INPUT_OBJECT, object));
    OK(linker.complete());
  }
  {
    Linker linker(f);
    OK(linker.input(CU_JIT_INPUT_LIBRARY, library({host_object(""), other, object}))); // before it is needed
    OK(linker.ptx(caller)); // the library's kernel of this name is not used
    OK(linker.complete());
  }
  {
    Linker linker(f);
    OK(linker.ptx(caller));
    OK(linker.input(CU_JIT_INPUT_LIBRARY, library({host_object("")})));
    CHECK(linker.complete() == CUDA_ERROR_INVALID_SOURCE);
  }
  {
    std::ifstream in(CUEVENT_BINARY_CODE "/library", std::ios::binary);
    REQUIRE(in);
    Linker linker(f);
    OK(linker.input(CU_JIT_INPUT_LIBRARY, std::string(std::istreambuf_iterator<char>(in), {})));
    OK(linker.ptx(".extern .global .u32 counter;\n.entry a() { ld.global.u32 r, [counter]; ret; }"));
    OK(linker.complete());
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    OK(f.cu.module_load(&module, linker.out));
    CHECK(f.cu.module_function(&function, module, "odd") == CUDA_SUCCESS); // it is in the same object
  }
  Linker linker(f);
  const std::string good = library({object});
  for (const std::size_t size : {9U, 60U, 130U, 200U, 400U}) // of the head, the table, a member
    CHECK(linker.input(CU_JIT_INPUT_LIBRARY, good.substr(0, size)) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(linker.input(CU_JIT_INPUT_OBJECT, object.substr(0, 100)) == CUDA_ERROR_INVALID_IMAGE);
}
