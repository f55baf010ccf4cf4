// What takes part in a function beside its tensors: an optimizer, whose rate and count of steps
// change from call to call without being arguments. A recorded run sees tensors that stand for its
// numbers; a call that a plan serves asks for them first, and says afterwards that it was made.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

namespace graft::record {

/// Not thread-safe: calls of such functions take turns, as eager's must.
class Participant {
 public:
  Participant() = default;
  virtual ~Participant() = default;
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  /// Before a call that a plan may serve: the tensors get this call's numbers. Not empty: why it is
  /// not what was recorded any more, so that the function must be recorded again.
  virtual std::string prepare() = 0;
  /// A plan ran: does what the function would have done beside tensors.
  virtual void commit() = 0;
  /// May it become again what it was when it was recorded, so that plans of both ways are kept?
  /// Then commit() does nothing.
  virtual bool may_come_back() const { return false; }
};

/// Looks at the operators of one recorded run that autograd does not see, for whether they were
/// called by code that takes numbers from such a participant.
class Bystander {
 public:
  Bystander() = default;
  virtual ~Bystander() = default;
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  /// An operator is to be recorded; with `replaced` for its inputs, unless that stays empty: there
  /// something stands for a number (record/symbol.h). Not empty: why a plan cannot be made.
  virtual std::string before(const std::string& op, c10::ArrayRef<const c10::IValue> inputs,
                             std::vector<c10::IValue>& replaced) = 0;
  /// An operator is called that is told whether a module trains, or that the function may call or
  /// not as the mode says. Not null: what is on the stack beyond `outermost` does not count.
  virtual void mode_is_told(const void* outermost) = 0;
  /// The run has ended; says who took part. Not empty: why a plan cannot be made.
  virtual std::string finish(std::vector<std::shared_ptr<Participant>>& participants) = 0;
};

/// Makes one for each recorded run; one kind per process.
void set_bystander(std::unique_ptr<Bystander> (*make)());

/// While alive, what this thread does is not part of the recorded run.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  void* recorder_;
};

}  // namespace graft::record
