// Prints one kernel as a C++ function, following its plan as LLVM's emitter does.
//
// A frame is an open loop and the lines in it so far. A value is a line of the frame of its home,
// or part of another's line where it is used once. A vector loop is a scalar loop; where its lanes
// have memory of their own (accumulators, scratch by lane), `lane` counts them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "codegen/strips.h"
#include "ir/target.h"

namespace graft::codegen {

class SourcePrinter {
 public:
  /// `routines` gets a declaration for each routine that is called, by its symbol.
  SourcePrinter(const ir::Kernel& kernel, const ir::Target& target,
                std::map<std::string, std::string>& routines);

  std::string print(const std::string& function);

 private:
  struct Frame {
    int loop = 0;
    int depth = 0;  ///< -1: no loop of the plan
    int indent = 1;
    std::string text;
    std::vector<int> defined;  ///< values named here, to forget at the end
  };
  struct Strips {
    StripPlan plan;
    int phase = 0;
  };

  // Shorthands.
  const LoopPlan& loop(int l) const { return plan_.loops[static_cast<size_t>(l)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  const StatementPlan& planned(int p) const { return plan_.statements[static_cast<size_t>(p)]; }
  const ir::Reduction& reduction(int p) const {
    return *kernel_.placed[static_cast<size_t>(p)].statement.reduction;
  }
  static std::string variable(int var) { return "v" + std::to_string(var); }

  // Frames: printer.cpp
  void open(int l, const std::string& head);
  void close();  ///< lines of the closed frame go to the one around it
  void line(const std::string& text);
  void line_at(Frame& frame, const std::string& text);
  Frame& frame_at(int depth);

  // Kernel arguments, sizes and places: printer.cpp
  std::string integer(int slot);
  std::string stride(const Stride& s);
  std::string extent(int var);
  std::string pointer(int access);
  bool is_lanes(int var) const;
  std::string place(int access, const std::vector<std::pair<int, Stride>>& indirect);

  // Loops: printer.cpp
  void range_loop();
  void items(int l);
  void inner_loop(int l);
  void serial_loop(int l);
  void vector_loop(int l, const std::string& from, const std::string& to, const StripPhase* phase);
  void strip_loop(int l, const std::string& from, const std::string& to);
  void statement(int p);
  void product(int p);
  void store(int p);
  bool counts_lanes(int l) const;

  // Values: values.cpp
  void count_uses();
  std::string get(int v);
  std::string compute(int v);
  std::string routine_of(const PlanValue& v);  ///< its symbol, declared
  std::string formula_of(ir::Routine routine);
  std::string library_routine(ir::Routine routine, ScalarType of);  ///< VML's symbol, declared
  std::string load(const PlanValue& v);
  std::string constant(const PlanValue& v) const;
  std::string kept(int v) const;  ///< from its strip's buffer, or empty

  // Reductions: reductions.cpp
  ScalarType accumulated(int p) const;
  std::string accumulator_type(int p) const;
  int vector_variable(int p) const;
  int step_elements(int p) const;
  int lane_sums(int p) const;
  std::string accumulator(int p) const;  ///< the current lane's
  std::string identity(int p) const;
  std::string step(int p, ScalarType type, const std::string& so_far, const std::string& x) const;
  std::string place_of(int p);
  void start_reduction(int p);
  void accumulate(int p);
  void finish_reduction(int p);
  std::string total(int p);
  void finish_with(int p, const std::string& total);
  void array_loop(int p, const std::function<void()>& body);
  std::string array(int p, bool places);

  const ir::Kernel& kernel_;
  const ir::Target& target_;
  std::map<std::string, std::string>& routines_;
  Binding binding_;
  Layout layout_;
  KernelPlan plan_;

  std::vector<Frame> frames_;
  std::vector<std::string> names_;  ///< per value
  std::vector<int> uses_;           ///< per value: by how many values and statements
  std::vector<int> user_depth_;     ///< per value: the depth of its one user
  std::map<int, std::string> integers_, pointers_;
  const Strips* strips_ = nullptr;
};

/// "bf16", "uint8_t": a value's type, and its type in memory. Throw for a dtype that has none.
std::string cpp_type(ScalarType type);
std::string cpp_memory_type(ScalarType type);

}  // namespace graft::codegen
