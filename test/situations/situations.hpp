// SPDX-License-Identifier: MIT
// The matrix of situations: every public class in every situation that breaks wrappers. A class is a small
// struct with its operations, in classes_*.cpp. A situation is a function that runs any class, in
// situations_*.cpp. docs/situations.md is printed from these two tables.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/stream_ref.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace situations {

/// What a process has before it makes an object of a class: a context, and two streams of it. No context is
/// current.
struct World {
  explicit World(cuevent::Context of);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World(); ///< destroys the streams, unless the context is lost

  /// The primary context of a device, through the driver under test.
  static cuevent::Context primary(int device = 0);

  CUstream make_stream() const;
  void synchronize() const; ///< waits for the streams, except for those that are being captured

  const cuevent::Context context;
  const CUstream stream;    ///< of the objects
  const CUstream other;     ///< of the same context
  CUstream target = stream; ///< the operations that submit work submit it to this stream
  /// The context that the operations name for the target, if they name one.
  std::optional<cuevent::Context> name{};
  cuevent::StreamRef given() const {
    return name ? cuevent::StreamRef(*name, target) : cuevent::StreamRef(target);
  }
  bool faulted = false; ///< whether device work has failed
};

/// What an operation needs. Its result in each situation follows, unless the operation says otherwise.
enum class Does {
  nothing, ///< no driver call
  asks,    ///< driver calls that create and destroy nothing
  submits, ///< as `asks`, for World::target
  makes,   ///< creates or destroys objects of the driver, so it can wait beside a full launch queue
};

/// The kinds of situations in which results differ.
enum class In {
  working,
  empty,
  forked,
  exited,
  lost,
  faulted,
  full_queue,
  other_device,
  captured,
  capturing,
  misnamed,   ///< only operations that are given a stream with its context run: Operation::named()
  interrupted ///< of these only what is async-signal-safe runs, in a signal handler
};

/// The documented outcome of an operation.
struct Answer {
  CUresult result = CUDA_SUCCESS;   ///< CUDA_ERROR_NOT_READY counts as success
  const char* not_called = nullptr; ///< if not null: why the operation is not called there
  bool breaks_capture = false;
};
constexpr Answer breaks_capture{.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, .breaks_capture = true};

struct Operation {
  Operation(const char* its_name, Does its_needs, std::function<CUresult()> non_throwing,
            std::function<void()> throwing = {})
      : name(its_name), does(its_needs), attempt(std::move(non_throwing)), call(std::move(throwing)) {
    if (does == Does::submits) exceptions[In::lost] = {.not_called = "the stream has ended with its context"};
  }

  /// In such situations, the outcome differs from the rule.
  Operation but(In in, Answer answer) && {
    exceptions[in] = answer;
    return std::move(*this);
  }
  Operation but(In in, CUresult result) && { return std::move(*this).but(in, Answer{.result = result}); }
  template <class... Ins>
  Operation works(Ins... in) && {
    ((exceptions[in] = Answer{}), ...);
    return std::move(*this);
  }
  /// The operation is given a stream with its context, and refuses one that does not belong to it.
  Operation named() && { return std::move(*this).but(In::misnamed, CUDA_ERROR_INVALID_HANDLE); }
  /// A signal handler may call the operation.
  Operation async_signal_safe() && { return std::move(*this).works(In::interrupted); }
  Operation not_called(In in, const char* why) && {
    return std::move(*this).but(in, Answer{.not_called = why});
  }

  Answer expected(In in) const;

  const char* name;
  Does does;
  std::function<CUresult()> attempt; ///< the non-throwing overload; may be null
  std::function<void()> call;        ///< the throwing overload; may be null
  std::map<In, Answer> exceptions;
};

/// A member that has a non-throwing overload `try_name`. The arguments outlive the operation.
#define BOTH(does, object, name, ...)                                                                        \
  Operation(                                                                                                 \
      #name, does, [&] { return (object).try_##name(__VA_ARGS__); },                                         \
      [&] { static_cast<void>((object).name(__VA_ARGS__)); })
/// As BOTH. The non-throwing overload has its result in its first argument.
#define GIVES(does, Result, object, name, ...)                                                               \
  Operation(                                                                                                 \
      #name, does,                                                                                           \
      [&] {                                                                                                  \
        Result result{};                                                                                     \
        return (object).try_##name(result __VA_OPT__(, ) __VA_ARGS__);                                       \
      },                                                                                                     \
      [&] { static_cast<void>((object).name(__VA_ARGS__)); })
/// A constructor, and the function `try_create` of its class.
#define CREATES(does, Made, ...)                                                                             \
  Operation(                                                                                                 \
      #Made, does,                                                                                           \
      [&] {                                                                                                  \
        Made made;                                                                                           \
        return Made::try_create(made, __VA_ARGS__);                                                          \
      },                                                                                                     \
      [&] { const Made made(__VA_ARGS__); })

/// Runs one overload. Returns its result, or the one of its exception.
CUresult result_of(const Operation& operation, bool throwing);
/// Runs both overloads. Their results must be `answer`.
void check(const Operation& operation, const Answer& answer);

/// An object of a class, with what it needs.
class Subject {
public:
  virtual ~Subject() = default;
  virtual std::vector<Operation> operations() = 0;
  virtual bool can_be_empty() const = 0;
  virtual void make_empty() = 0;
  /// Moves the object away and back. In between, the object is empty, and `meanwhile` runs.
  virtual bool can_move() const = 0;
  virtual void move_away(const std::function<void()>& meanwhile) = 0;
  /// Ends an object that belongs to a scope. The operations then make others.
  virtual void end_scope() = 0;

  /// Checks all operations.
  void check_all(In in);
};

/// `Class` is a struct that is initialized with a World&, with operations() and object().
template <class Class>
class SubjectOf final : public Subject {
public:
  explicit SubjectOf(World& world) : its_{world} {}

  std::vector<Operation> operations() override { return its_.operations(); }
  bool can_be_empty() const override { return has_empty; }
  void make_empty() override {
    if constexpr (has_empty) its_.object() = Object();
  }
  bool can_move() const override { return moves; }
  void move_away([[maybe_unused]] const std::function<void()>& meanwhile) override {
    if constexpr (moves) {
      Object taken(std::move(its_.object()));
      meanwhile();
      its_.object() = std::move(taken);
    }
  }
  void end_scope() override {
    if constexpr (requires { its_.end_scope(); }) its_.end_scope();
  }

private:
  using Object = std::remove_reference_t<decltype(std::declval<Class&>().object())>;
  static constexpr bool has_empty =
      std::is_default_constructible_v<Object> && std::is_move_assignable_v<Object>;
  /// A plain value stays as it was when it is moved from.
  static constexpr bool moves =
      std::is_move_assignable_v<Object> && !std::is_trivially_move_constructible_v<Object>;

  Class its_;
};

/// A row of the matrix.
struct Class {
  const char* name;
  std::unique_ptr<Subject> (*make)(World&);
  /// Whether threads may run the operations of one object at the same time.
  bool concurrent = false;
  /// Whether an object belongs to a scope of one thread.
  bool scoped = false;
  /// What is not tested, by the names of situations, and why not.
  std::map<std::string, const char*> except{};
  /// More that must hold in a situation, by its name.
  std::map<std::string, void (*)()> more{};
};

template <class Its>
std::unique_ptr<Subject> make(World& world) {
  return std::make_unique<SubjectOf<Its>>(world);
}

/// How a cell runs.
enum class Alone {
  no,     ///< all classes of the situation share one process
  yes,    ///< in a process of its own
  at_end, ///< likewise, after all others: a fault of the device
};

/// A column of the matrix.
struct Situation {
  const char* name;
  In in;
  Alone alone;
  const char* what; ///< for the page: what happens
  const char* rule; ///< for the page: what each class promises
  void (*run)(const Class&);
  /// Why the class cannot be in this situation; null if it can.
  const char* (*impossible)(const Class&) = [](const Class&) -> const char* { return nullptr; };
  int devices = 1; ///< that the situation needs
  /// More of the environment: a setting of a driver, or null.
  const char* setting = nullptr;
};

std::vector<Class> core_classes();
std::vector<Class> graph_classes();
std::vector<Class> scheduling_classes();
std::vector<Class> timing_classes();
std::vector<Class> all_classes();

std::vector<Situation> situations_of_lives();     ///< moves, threads, failures
std::vector<Situation> situations_of_signals();   ///< handlers of signals
std::vector<Situation> situations_of_streams();   ///< other devices, captures, full queues
std::vector<Situation> situations_of_contexts();  ///< lost contexts, faults
std::vector<Situation> situations_of_processes(); ///< forks, exits, peers
std::vector<Situation> all_situations();

/// Why the cell is not tested; null if it is.
const char* not_tested(const Class& row, const Situation& column);

/// Forks. Returns what the child returned from `run`: 0 if it met all expectations. The child hangs if it
/// takes longer than some seconds, and is killed. The child ends by `_exit`, or by `exit` if `exits`.
bool child_succeeds(const std::function<void()>& run, bool exits = false);

/// The number of errors that went to the error hook since the last call.
int take_reports();

/// The driver under test. Its calls fail if a test::FaultPlan says so, and allocate outside of a
/// test::FailingAllocation.
const cuevent::Driver& driver();

/// The page.
std::string page();

} // namespace situations
