#include "ir/parse.h"

#include <algorithm>
#include <bit>

#include "ir/cursor.h"
#include "ir/parse_statement.h"
#include "ir/text.h"

namespace graft::ir {

namespace {

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : cursor_(text) {}

  Program run() {
    while (cursor_.next_line()) {
      line();
      if (!cursor_.at_end_of_line()) cursor_.fail_expected("the end of the line");
    }
    check_declared();
    return std::move(program_);
  }

 private:
  void line() {
    Signature& signature = program_.signature;
    if (cursor_.sees("["))
      program_.items.emplace_back(statement(false));
    else if (cursor_.sees("%"))
      storage_or_call();
    else if (cursor_.eat("argument"))
      tensor(signature.arguments, signature.bumped);
    else if (cursor_.eat("captured"))
      tensor(signature.captured, signature.bumped_captured);
    else if (cursor_.eat("abort"))
      abort();
    else if (cursor_.eat("repeat"))
      repeat();
    else if (cursor_.eat("result"))
      result();
    else
      call({});
  }

  // --- The signature and storages ---------------------------------------------------------------

  /// Numbers of arguments, captured tensors and results come in order.
  void numbered(size_t number) {
    size_t place = cursor_.place();
    if (cursor_.index("a number") != static_cast<int>(number))
      cursor_.fail_at(place, "expected number " + std::to_string(number) + ": they come in order");
    cursor_.expect("=");
  }

  void tensor(std::vector<View>& views, std::vector<int>& bumped) {
    numbered(views.size());
    views.push_back(view_or_undefined());
    if (cursor_.eat("bumped")) bumped.push_back(static_cast<int>(views.size()) - 1);
  }

  void result() {
    std::vector<Result>& results = program_.signature.results;
    numbered(results.size());
    Result made;
    auto index = [&](size_t count, const char* what) {
      size_t place = cursor_.place();
      int found = cursor_.index(what);
      if (static_cast<size_t>(found) >= count)
        cursor_.fail_at(place, "the program has no " + std::string(what) + " " +
                                   std::to_string(found) + " before this");
      return found;
    };
    if (cursor_.eat("undefined"))
      made.defined = false;
    else if (cursor_.eat("argument"))
      made.argument = index(program_.signature.arguments.size(), "argument");
    else if (cursor_.eat("captured"))
      made.captured = index(program_.signature.captured.size(), "captured tensor");
    else if (cursor_.eat("result"))
      made.same_as = index(results.size(), "result");
    else
      made.view = view();
    while (cursor_.eat(",")) standing(made);
    results.push_back(std::move(made));
  }

  /// "view of result 0", "version of argument 1", "creation 3", "inference", "gradient of
  /// captured 0", "not returned". The
  /// result that another is a view of may come later.
  void standing(Result& made) {
    Lineage& lineage = made.lineage;
    if (cursor_.eat("inference")) {
      lineage.inference = true;
    } else if (cursor_.eat("creation")) {
      lineage.creation = static_cast<uint8_t>(cursor_.index("what autograd allows on a view"));
    } else if (cursor_.eat("gradient")) {
      cursor_.expect("of");
      const bool captured = cursor_.eat("captured");
      if (!captured) cursor_.expect("argument");
      made.gradient_of = CallersTensor{captured, cursor_.index("the leaf's number")};
      made.returned = false;
    } else if (cursor_.eat("not")) {
      cursor_.expect("returned");
      made.returned = false;
    } else {
      lineage.view = cursor_.eat("view");
      if (!lineage.view) cursor_.expect("version");
      cursor_.expect("of");
      lineage.root = cursor_.eat("argument")   ? Lineage::Root::Argument
                     : cursor_.eat("captured") ? Lineage::Root::Captured
                                               : Lineage::Root::Result;
      if (lineage.root == Lineage::Root::Result) cursor_.expect("result");
      lineage.index = cursor_.index("its number");
    }
  }

  /// A storage's number behind its %; it may be declared further down.
  int storage_number() {
    cursor_.expect("%");
    size_t place = cursor_.place();
    int storage = cursor_.index("a storage's number");
    mentioned_.push_back({storage, place});
    return storage;
  }

  View view() {
    View made;
    made.storage = storage_number();
    made.dtype = cursor_.type();
    cursor_.expect("[");
    size_t place = cursor_.place();
    made.sizes = integers("]");
    if (std::any_of(made.sizes.begin(), made.sizes.end(), [](int64_t size) { return size < 0; }))
      cursor_.fail_at(place, "a size is at least 0");
    cursor_.expect(":");
    cursor_.expect("(");
    place = cursor_.place();
    made.strides = integers(")");
    if (made.strides.size() != made.sizes.size())
      cursor_.fail_at(place, "expected " + std::to_string(made.sizes.size()) +
                                 " strides, one per size, but found " +
                                 std::to_string(made.strides.size()));
    if (cursor_.eat("@")) made.byte_offset = cursor_.integer("a byte offset");
    return made;
  }

  View view_or_undefined() { return cursor_.eat("undefined") ? View() : view(); }

  std::vector<int64_t> integers(const char* end) {
    std::vector<int64_t> values;
    while (!cursor_.eat(end)) {
      if (!values.empty()) cursor_.expect(",");
      values.push_back(cursor_.integer());
    }
    return values;
  }

  void storage_or_call() {
    size_t start = cursor_.place();
    cursor_.expect("%");
    size_t place = cursor_.place();
    int number = cursor_.index("a storage's number");
    if (cursor_.eat(":")) return storage(static_cast<size_t>(number), place);
    cursor_.back_to(start);
    std::vector<View> outputs;
    do outputs.push_back(view_or_undefined());
    while (cursor_.eat(","));
    cursor_.expect("=");
    call(std::move(outputs));
  }

  void storage(size_t number, size_t place) {
    if (number >= declared_.size()) {
      declared_.resize(number + 1, false);
      program_.storages.resize(number + 1);
    }
    if (declared_[number])
      cursor_.fail_at(place, "storage %" + std::to_string(number) + " is declared twice");
    declared_[number] = true;
    Storage& made = program_.storages[number];
    place = cursor_.place();
    std::string_view name = cursor_.word("argument, captured, output or temporary");
    auto role = role_named(name);
    if (!role)
      cursor_.fail_at(place, "expected argument, captured, output or temporary, but found \"" +
                                 std::string(name) + "\"");
    made.role = *role;
    if (cursor_.sees_digit()) made.source = cursor_.index("the number of its tensor");
    cursor_.expect(",");
    place = cursor_.place();
    made.bytes = cursor_.integer("its size");
    if (made.bytes < 0) cursor_.fail_at(place, "a size is at least 0");
    cursor_.expect("bytes");
    if (!cursor_.eat(",")) return;
    for (const char* word : {"made", "by", "extern"}) cursor_.expect(word);
    made.made_by_extern = true;
  }

  void check_declared() const {
    for (const Mention& m : mentioned_) {
      auto number = static_cast<size_t>(m.storage);
      if (number < declared_.size() && declared_[number]) continue;
      std::string name = "%" + std::to_string(m.storage);
      cursor_.fail_at(m.place, "storage " + name + " is not declared, as by \"" + name +
                                   ": temporary, 64 bytes\"");
    }
  }

  // --- Items ------------------------------------------------------------------------------------

  Statement statement(bool repeated) {
    size_t place = cursor_.place();
    Statement made = parse_statement(cursor_, repeated);
    mentioned_.push_back({made.store.storage, place});
    for (const Access& load : made.loads) mentioned_.push_back({load.storage, place});
    return made;
  }

  void abort() {
    cursor_.expect("if");
    program_.items.emplace_back(Abort{storage_number(), -1});
  }

  void repeat() {
    int indentation = cursor_.indentation();
    Repeat made;
    made.count = cursor_.integer("the number of steps");
    if (!cursor_.eat("in order")) made.origin = program_.items.size();
    if (!cursor_.at_end_of_line()) cursor_.fail_expected("the end of the line");
    while (true) {
      size_t end = cursor_.place();
      if (!cursor_.next_line() || cursor_.indentation() <= indentation) {
        cursor_.back_to(end);
        break;
      }
      made.body.push_back(statement(true));
    }
    program_.items.emplace_back(std::move(made));
  }

  void call(std::vector<View> outputs) {
    Extern made;
    made.outputs = std::move(outputs);
    made.op.name = cursor_.word("an argument, storage, statement, call, abort, repeat or result");
    cursor_.expect("::");
    made.op.name += "::" + std::string(cursor_.word("an operator's name"));
    if (cursor_.eat(".")) made.op.overload = cursor_.word("an overload's name");
    cursor_.expect("(");
    while (!cursor_.eat(")")) {
      if (!made.slots.empty()) cursor_.expect(",");
      made.slots.push_back(slot(made));
    }
    if (cursor_.eat("writes")) {
      do made.written.push_back(storage_number());
      while (cursor_.eat(","));
    }
    program_.items.emplace_back(std::move(made));
  }

  Extern::Slot slot(Extern& call) {
    Extern::Slot made;
    auto tensor = [&] {
      View view = view_or_undefined();
      made.views.push_back(view.storage < 0 ? -1 : static_cast<int>(call.inputs.size()));
      if (view.storage >= 0) call.inputs.push_back(std::move(view));
    };
    auto tensors = [&](OperandKind kind) {
      made.kind = kind;
      cursor_.expect("[");
      while (!cursor_.eat("]")) {
        if (!made.views.empty()) cursor_.expect(",");
        tensor();
      }
    };
    if (cursor_.sees("%") || cursor_.sees("undefined"))
      made.kind = OperandKind::Tensor, tensor();
    else if (cursor_.eat("tensors"))
      tensors(OperandKind::TensorList);
    else if (cursor_.eat("optionals"))
      tensors(OperandKind::OptionalTensorList);
    else if (cursor_.eat("value"))
      made.kind = OperandKind::Number, tensor();
    else
      made.constant = constant(0);
    return made;
  }

  Constant constant(int depth) {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) cursor_.fail_at(cursor_.place(), "lists are nested too deeply");
    if (cursor_.eat("None")) return {};
    if (cursor_.eat("true")) return {true};
    if (cursor_.eat("false")) return {false};
    if (cursor_.sees("\"")) return {cursor_.quoted()};
    if (cursor_.eat("opaque")) return {Opaque{cursor_.quoted(), nullptr}};
    if (cursor_.eat("tensor")) return number_tensor(false);
    if (cursor_.eat("number")) return number_tensor(true);
    if (cursor_.eat("[")) {
      Constant::List items;
      while (!cursor_.eat("]")) {
        if (!items.empty()) cursor_.expect(",");
        items.push_back(constant(depth + 1));
      }
      return {std::move(items)};
    }
    size_t place = cursor_.place();
    std::string_view digits = cursor_.number();
    if (auto whole = number_of(digits, ScalarType::Long)) return {*whole};
    return {std::bit_cast<double>(bits_of(digits, ScalarType::Double, place))};
  }

  Constant number_tensor(bool wrapped) {
    cursor_.expect("(");
    size_t place = cursor_.place();
    std::string_view digits = cursor_.number();
    cursor_.expect(":");
    ScalarType type = cursor_.type();
    cursor_.expect(")");
    int64_t bits = bits_of(digits, is_float(type) ? ScalarType::Double : type, place);
    return {NumberTensor{type, bits, wrapped}};
  }

  int64_t bits_of(std::string_view digits, ScalarType type, size_t place) const {
    auto bits = number_of(digits, type);
    if (!bits)
      cursor_.fail_at(place,
                      '"' + std::string(digits) + "\" is no number of type " + short_name(type));
    return *bits;
  }

  Cursor cursor_;
  Program program_;
  std::vector<bool> declared_;  ///< storages
  struct Mention {
    int storage;
    size_t place;
  };
  std::vector<Mention> mentioned_;
};

}  // namespace

Program parse(std::string_view text) {
  return ProgramParser(text).run();
}

}  // namespace graft::ir
