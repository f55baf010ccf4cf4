#include <algorithm>
#include <bit>

#include "codegen/layout.h"
#include "ir/facts.h"
#include "ir/product.h"
#include "ir/range.h"
#include "ir/touch.h"

namespace graft::codegen {

namespace {

using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::TreeNode;

constexpr uint8_t kStructureVersion = 12;

/// Of a product, for which the other operand is copied.
constexpr int64_t kManyRows = 32, kManyColumns = 128;
/// So few rows are computed by the time a panel of the right operand has come from memory.
constexpr int64_t kFewRows = 24;
/// Terms of a right operand that are no more elements apart lie near enough: a block of them, of
/// one panel's columns, stays in the first cache where it is.
constexpr int64_t kNearTerms = 64;

class Walk {
 public:
  Walk(const Kernel& kernel, Binding& binding) : kernel_(kernel), binding_(binding) {}

  Layout run() {
    put(kStructureVersion);
    variables();
    layout_.statements.resize(kernel_.placed.size());
    binding_.scratch_bytes = (kernel_.scratch_bytes + 63) / 64 * 64;
    tree(kernel_.body);
    for (size_t p = 0; p < kernel_.placed.size(); ++p) statement(p);
    find_interleaved();
    binding_.grain = kernel_.grain;
    binding_.has_room = kernel_.is_rest;
    layout_.storages = static_cast<int>(storages_.size());
    return std::move(layout_);
  }

 private:
  /// Seven bits per byte, so that the usual small number takes one; distinct sequences of numbers
  /// give distinct texts.
  void put(int64_t value) {
    auto bits = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
    for (; bits >= 128; bits >>= 7) binding_.structure.push_back(static_cast<char>(bits | 128));
    binding_.structure.push_back(static_cast<char>(bits));
  }

  int integer(int64_t value) {
    binding_.integers.push_back(value);
    return static_cast<int>(binding_.integers.size() - 1);
  }
  int in_scratch(int64_t base, int64_t offset) {
    const int slot = integer(base + offset);
    binding_.in_scratch.push_back({slot, base});
    return slot;
  }

  /// Loops of which the code knows the extent. A vector loop that a serial one starts again and
  /// again, as for groups of weights with a scale each or for heads: with its extent unknown,
  /// starting it would take as long as its few steps. Powers of two alone, so that other sizes
  /// compile few more kernels. And those that is_short() tells.
  void fix_short_loops(const std::vector<TreeNode>& body, bool again, bool in_lanes) {
    constexpr int64_t kLeast = 16, kMost = 256;
    // The part of such a loop that has to run is known at each start alone.
    const auto is_quiet = [&](const TreeNode& node) {
      return node.placed >= 0 && kernel_.placed[static_cast<size_t>(node.placed)].quiet;
    };
    for (const TreeNode& node : body) {
      if (!node.loop) continue;
      const std::vector<TreeNode>& inside = node.loop->body;
      const ir::Variable& v = kernel_.vars[static_cast<size_t>(node.loop->var)];
      const bool is_vector = v.kind == LoopKind::Vector;
      const bool restarted = again && is_vector && v.extent >= kLeast && v.extent <= kMost &&
                             std::has_single_bit(static_cast<uint64_t>(v.extent));
      if (v.growth == 0 && (restarted || (in_lanes && is_short(v, inside))) &&
          std::none_of(inside.begin(), inside.end(), is_quiet))
        layout_.fixed[static_cast<size_t>(node.loop->var)] = v.extent;
      fix_short_loops(inside, again || (v.kind == LoopKind::Serial && !is_unit(node.loop->var)),
                      in_lanes || is_vector);
    }
  }
  /// A loop in the lanes of a vector over a pixel's channels, a stencil's row, the rows of a small
  /// matrix: its steps are written out, unless that is much code.
  bool is_short(const ir::Variable& v, const std::vector<TreeNode>& body) const {
    constexpr int64_t kMostSteps = 8, kMostNodes = 160;
    if (v.kind != LoopKind::Serial || v.extent > kMostSteps || v.extent < 2) return false;
    size_t nodes = 0;
    for (const TreeNode& node : body) {
      if (node.placed < 0) return false;
      const Placed& p = kernel_.placed[static_cast<size_t>(node.placed)];
      if (p.product) return false;
      nodes += p.statement.expr.nodes.size();
    }
    return v.extent * static_cast<int64_t>(nodes) <= kMostNodes;
  }

  void variables() {
    put(static_cast<int64_t>(kernel_.vars.size()));
    for (const ir::Variable& v : kernel_.vars) {
      bool unit = v.extent == 1 && v.growth == 0;
      layout_.extent.push_back(unit ? -1 : integer(v.extent));
      layout_.growth.push_back(stride(v.growth));
      put(static_cast<int64_t>(v.kind) * 2 + unit);
      put(static_cast<int64_t>(layout_.growth.back().kind));
      if (v.growth != 0) put(v.step);
    }
    layout_.fixed.resize(kernel_.vars.size());
    if (!kernel_.any_size) fix_short_loops(kernel_.body, false, false);
    for (int64_t extent : layout_.fixed) put(extent);
    put(static_cast<int64_t>(kernel_.range.size()));
    binding_.range_extent = 1;
    for (int v : kernel_.range) {
      put(v);
      binding_.range_extent *= extent(v);
    }
    // A loop of one step is dissolved: there is nothing to share.
    const bool by_rows = kernel_.rows > 0 && !is_unit(kernel_.body[0].loop->var);
    put(by_rows);
    if (by_rows) {
      layout_.range = RangeKind::Rows;
      layout_.rows = integer(kernel_.rows);
      binding_.range_extent = kernel_.rows;
      return;
    }
    layout_.range = kernel_.range.empty() ? RangeKind::Once : RangeKind::Flattened;
    if (layout_.range == RangeKind::Once && elements_are_range()) {
      layout_.range = RangeKind::Elements;
      binding_.range_extent = extent(kernel_.body[0].loop->var);
    }
  }

  int64_t extent(int var) const { return kernel_.vars[static_cast<size_t>(var)].extent; }
  /// Of extent 1 at every step.
  bool is_unit(int var) const { return layout_.extent[static_cast<size_t>(var)] < 0; }
  int64_t longest(int var) const {
    const ir::Variable& v = kernel_.vars[static_cast<size_t>(var)];
    return v.step < 0 ? v.extent : v.extent + std::max<int64_t>(0, v.growth * (extent(v.step) - 1));
  }

  bool elements_are_range() const {
    if (kernel_.body.size() != 1 || !kernel_.body[0].loop) return false;
    int var = kernel_.body[0].loop->var;
    if (kernel_.vars[static_cast<size_t>(var)].kind != LoopKind::Vector || is_unit(var))
      return false;
    return std::none_of(kernel_.placed.begin(), kernel_.placed.end(),
                        [&](const Placed& p) { return reduces_over(p, var); });
  }

  void tree(const std::vector<TreeNode>& body) {
    put(static_cast<int64_t>(body.size()));
    for (const TreeNode& node : body) {
      put(node.loop ? -1 - node.loop->var : node.placed);
      if (!node.loop) {
        accumulators(static_cast<size_t>(node.placed));
        continue;
      }
      path_.push_back(node.loop->var);
      tree(node.loop->body);
      path_.pop_back();
    }
  }

  /// Accumulators stay in registers unless a Vector loop that is not reduced runs inside a reduced
  /// one.
  void accumulators(size_t p) {
    const Placed& placed = kernel_.placed[p];
    if (!placed.statement.reduction) return;
    bool inside = false;
    for (int v : path_) {
      if (reduces_over(placed, v)) {
        inside = true;
      } else if (inside && kernel_.vars[static_cast<size_t>(v)].kind == LoopKind::Vector &&
                 !is_unit(v)) {
        layout_.statements[p].array = in_scratch(binding_.scratch_bytes, 0);
        // Values, and for ArgMax and ArgMin the indices after them; eight bytes each whatever the
        // type.
        binding_.scratch_bytes += array_entries(longest(v)) * 16;
      }
    }
  }

  int64_t terms(const Placed& placed) const {
    int64_t count = 1;
    for (size_t a = 0; a < placed.statement.axes.size(); ++a)
      if (placed.statement.reduction->axes[a]) count *= longest(placed.axis_var[a]);
    return count;
  }

  Levels levels(const Placed& placed) const {
    const ir::Statement& s = placed.statement;
    if (s.reduction->scan || !ir::needs_levels(s)) return Levels::None;
    if (s.rest) return Levels::Cascade;
    int64_t lanes = 1;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      const auto var = static_cast<size_t>(placed.axis_var[a]);
      if (s.reduction->axes[a] && kernel_.vars[var].kind == LoopKind::Vector)
        lanes = extent(static_cast<int>(var));
    }
    const int64_t count = terms(placed);
    if (count <= kPlainTerms * std::min(lanes, kFewestLanes)) return Levels::None;
    if (s.reduction->type == ScalarType::Double) return Levels::Cascade;
    return count <= kPlainTerms * kPlainBlocks * std::min(lanes, kBlockLanes) ? Levels::Blocks
                                                                              : Levels::Cascade;
  }

  /// Of numbers in memory: what comes of places alone has other ranges at other sizes.
  static std::vector<Digit> digits(const ir::Statement& s) {
    using ir::Op;
    std::vector<Digit> found;
    std::vector<bool> of_places;
    auto range = [&](ir::NodeId id) {
      return ir::range_of(s, id, [](const ir::Access& load) { return ir::range_of(load.dtype); });
    };
    for (size_t k = 0; k < s.expr.nodes.size(); ++k) {
      const ir::Node& node = s.expr.nodes[k];
      of_places.push_back(node.op == Op::Axis);
      for (int i = 0; i < ir::arity(node); ++i)
        if (of_places[static_cast<size_t>(node.in[static_cast<size_t>(i)])]) of_places[k] = true;
      if (node.op != Op::And && node.op != Op::Shr && node.op != Op::IRem) continue;
      if (of_places[k]) continue;
      if (is_float(node.type) || node.type == ScalarType::Bool) continue;
      Digit digit{static_cast<ir::NodeId>(k), -1};
      const ir::Range all = range(digit.node);
      if (all.low < 0 || all.high >= kDigits) continue;
      for (int other = 0; other < 2 && node.op == Op::And; ++other) {
        const ir::Range mask = range(node.in[static_cast<size_t>(1 - other)]);
        if (mask.low == kDigits - 1 && mask.high == kDigits - 1) digit.low_bits_of = other;
      }
      found.push_back(digit);
    }
    return found;
  }

  bool has_many_products(const Placed& placed) const {
    const ir::Statement& s = placed.statement;
    const ir::Node& term = s.expr.nodes[static_cast<size_t>(s.reduction->input)];
    return term.op == ir::Op::Mul && widens(*s.reduction, term.type) &&
           (s.rest || kernel_.any_size || terms(placed) > kPlainTerms);
  }

  void statement(size_t p) {
    const Placed& placed = kernel_.placed[p];
    const ir::Statement& s = placed.statement;
    StatementLayout& layout = layout_.statements[p];
    put(static_cast<int64_t>(s.axes.size()));
    for (int v : placed.axis_var) put(v);
    put(static_cast<int64_t>(s.scalars.size()));
    for (uint64_t value : s.scalars) {
      layout.scalars.push_back(scalar(value));
      put(layout.scalars.back());
    }
    layout.store = use(placed, s.store);
    layout.streamed = placed.streamed;
    layout.transposed = placed.transposed;
    layout.columns = placed.columns;
    put(layout.columns);
    put(placed.product * 4 + placed.streamed * 2 + placed.transposed);
    if (placed.product) {
      layout.product = product(placed);
      put(layout.product->whole_rows * 4 + layout.product->whole_columns * 2 +
          layout.product->adds);
      put(static_cast<int64_t>(layout.product->zeros));
      put(layout.product->left_down * 2 + layout.product->left_in_tiles);
      copies(placed, *layout.product);
      put(layout.product->panel_by_panel * 8 + layout.product->pairs * 4 +
          (layout.product->left_copy >= 0) * 2 + (layout.product->right_copy >= 0));
      put(layout.product->needed);
      put(placed.outside.has_value());
      if (placed.outside)
        for (int load : {placed.outside->first, placed.outside->last, placed.outside->finite})
          put(load);
      put(layout.product->in_pair >= 0);
    }
    put(static_cast<int64_t>(s.loads.size()));
    for (const ir::Access& load : s.loads) layout.loads.push_back(use(placed, load));
    layout.quiet = placed.quiet;
    put(placed.quiet.has_value());
    if (placed.quiet) {
      put(placed.quiet->first);
      put(placed.quiet->last);
      put(std::bit_cast<int64_t>(placed.quiet->value));
      put(placed.quiet->deferred);
      put(static_cast<int64_t>(placed.quiet->finite.size()));
      for (ir::NodeId id : placed.quiet->finite) put(id);
    }
    put(static_cast<int64_t>(placed.ahead.size()));
    for (const Placed::Ahead& a : placed.ahead) {
      put(a.load);
      put(a.var);
      put(a.iterations);
      const int access = layout.loads[static_cast<size_t>(a.load)].access;
      layout_.accesses[static_cast<size_t>(access)].ahead = a.iterations;
      layout_.accesses[static_cast<size_t>(access)].ahead_var = a.var;
    }
    put(static_cast<int64_t>(s.expr.nodes.size()));
    for (const ir::Node& node : s.expr.nodes) {
      put(static_cast<int64_t>(node.op));
      put(static_cast<int64_t>(node.type));
      for (ir::NodeId in : node.in) put(in);
      put(node.payload);
    }
    layout.digits = digits(s);
    put(static_cast<int64_t>(layout.digits.size()));
    for (const Digit& digit : layout.digits) {
      put(digit.node);
      put(digit.low_bits_of);
    }
    put(s.value);
    put(s.reduction.has_value());
    if (!s.reduction) return;
    layout.levels = levels(placed);
    layout.many_products = has_many_products(placed);
    put(static_cast<int64_t>(layout.levels));
    put(layout.many_products);
    put(static_cast<int64_t>(s.reduction->op));
    put(static_cast<int64_t>(s.reduction->type));
    put(s.reduction->input);
    put(s.reduction->scan);
    for (bool reduced : s.reduction->axes) put(reduced);
  }

  Stride stride(int64_t value) {
    if (value == 0) return {StrideKind::Zero, -1};
    if (value == 1) return {StrideKind::One, -1};
    if (value == -1) return {StrideKind::MinusOne, -1};
    return {StrideKind::Argument, integer(value)};
  }

  Stride stride_along(size_t var, int64_t value) {
    if (kernel_.vars[var].kind == LoopKind::Vector) {
      if (value == 2) return {StrideKind::Two, -1};
      if (value == 3) return {StrideKind::Three, -1};
      if (value == 4) return {StrideKind::Four, -1};
    }
    return stride(value);
  }

  AccessUse use(const Placed& placed, const ir::Access& access) {
    AccessUse use;
    use.access = affine(placed, access);
    put(static_cast<int64_t>(access.indirect.size()));
    for (const ir::Indirect& part : access.indirect) {
      const bool small = access.indirect.size() == 1 && c10::elementSize(access.dtype) <= 4 &&
                         part.stride == 1 && part.extent <= kTableEntries;
      const int64_t most = kNearElements / std::max<int64_t>(std::abs(part.stride), 1);
      use.indirect.push_back({part.index, stride(part.stride),
                              small ? static_cast<int>(part.extent) : 0,
                              part.extent > 0 && part.extent <= most});
      put(part.index);
      put(static_cast<int64_t>(use.indirect.back().stride.kind));
      put(2 * use.indirect.back().table + use.indirect.back().near);
    }
    return use;
  }

  int affine(const Placed& placed, const ir::Access& access) {
    std::vector<int64_t> strides(kernel_.vars.size(), 0);
    for (size_t a = 0; a < access.strides.size(); ++a) {
      int var = placed.axis_var[a];
      if (!is_unit(var)) strides[static_cast<size_t>(var)] += access.strides[a];
    }
    AffineAccess key;
    key.storage = storage(access.storage);
    key.dtype = access.dtype;
    key.byte_offset = access.offset * static_cast<int64_t>(c10::elementSize(access.dtype));
    size_t shapes = layout_.shapes.size();
    key.shape = shape(strides);
    bool new_shape = layout_.shapes.size() > shapes;
    for (size_t k = 0; k < layout_.accesses.size(); ++k) {
      const AffineAccess& other = layout_.accesses[k];
      if (other.storage == key.storage && other.dtype == key.dtype && other.shape == key.shape &&
          other.byte_offset == key.byte_offset) {
        put(static_cast<int64_t>(k));
        return static_cast<int>(k);
      }
    }
    auto scratch = std::find_if(kernel_.scratch.begin(), kernel_.scratch.end(),
                                [&](const ir::Scratch& s) { return s.storage == access.storage; });
    if (scratch != kernel_.scratch.end()) {
      key.scratch = in_scratch(scratch->offset, key.byte_offset);
      key.vectors = scratch->vectors;
    } else {
      key.pointer = static_cast<int>(binding_.pointers.size());
      binding_.pointers.push_back({access.storage, key.byte_offset});
    }
    // An access is told by its number, and a new one by what it is too (likewise shapes): the text
    // stays unambiguous.
    put(static_cast<int64_t>(layout_.accesses.size()));
    put(key.storage);
    put(static_cast<int64_t>(key.dtype));
    key.own = scratch != kernel_.scratch.end() ||
              std::count(kernel_.own.begin(), kernel_.own.end(), access.storage) > 0;
    put(key.pointer >= 0 ? -1 : key.vectors);
    put(key.own);
    put(key.shape);
    if (new_shape)
      for (const Stride& stride : layout_.shapes.back().strides)
        put(static_cast<int64_t>(stride.kind));
    layout_.accesses.push_back(key);
    return static_cast<int>(layout_.accesses.size() - 1);
  }

  /// The least number of elements between lanes of the shape that are loaded together; 0: none are.
  int interleave_of(int shape) const {
    int least = 0;
    for (const Stride& s : layout_.shapes[static_cast<size_t>(shape)].strides)
      if (int apart = interleave(s); apart > 0 && (least == 0 || apart < least)) least = apart;
    return least;
  }

  /// In order of their places, each access joins those before it that have their lanes around its.
  void find_interleaved() {
    std::vector<int> order;
    for (size_t k = 0; k < layout_.accesses.size(); ++k)
      if (interleave_of(layout_.accesses[k].shape) > 0) order.push_back(static_cast<int>(k));
    auto access = [&](int k) -> AffineAccess& { return layout_.accesses[static_cast<size_t>(k)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return access(a).byte_offset < access(b).byte_offset; });
    for (size_t k = 0; k < order.size(); ++k) {
      AffineAccess& own = access(order[k]);
      own.first = order[k];
      for (size_t i = k; i-- > 0;) {
        const AffineAccess& other = access(access(order[i]).first);
        if (other.storage != own.storage || other.dtype != own.dtype || other.shape != own.shape)
          continue;
        int64_t apart = (own.byte_offset - other.byte_offset) /
                        static_cast<int64_t>(c10::elementSize(own.dtype));
        if (apart >= interleave_of(own.shape)) break;
        own.first = access(order[i]).first;
        own.part = static_cast<int>(apart);
        break;
      }
      access(own.first).reach = own.part;
    }
    for (int k : order) {
      access(k).reach = access(access(k).first).reach;
      put(access(k).first);
      put(access(k).part);
    }
  }

  ProductLayout product(const Placed& placed) const {
    const ir::ProductAxes axes = *ir::product_axes(placed.statement);
    ProductLayout made;
    made.left = axes.left, made.right = axes.right;
    made.left_dtype = placed.statement.loads[axes.left].dtype;
    made.right_dtype = placed.statement.loads[axes.right].dtype;
    made.left_type = axes.left_type, made.right_type = axes.right_type;
    // (Blocks of rows may be steps around it.)
    auto inner = [&](size_t a) {
      return kernel_.vars[static_cast<size_t>(placed.axis_var[a])].kind == LoopKind::Serial;
    };
    for (size_t a : axes.rows)
      if (inner(a)) made.rows = placed.axis_var[a];
    for (size_t a : axes.columns) {
      if (!inner(a)) continue;
      const bool by_one = placed.statement.loads[axes.right].strides[a] == axes.column_stride();
      (by_one ? made.columns : made.panels) = placed.axis_var[a];
    }
    made.terms = placed.axis_var[axes.terms];
    if (axes.in_pair) made.in_pair = placed.axis_var[*axes.in_pair];
    auto whole = [&](int var, int64_t of) {
      return var >= 0 && !kernel_.any_size && extent(var) % of == 0;
    };
    made.whole_rows = whole(made.rows, ir::kProductRows);
    made.whole_columns = whole(made.columns, ir::kMostProductColumns);
    made.needed = placed.needed;
    made.outside = placed.outside;
    made.adds = placed.adds;
    find_zeros(placed.statement, axes, placed.axis_var, made);
    made.left_in_tiles = made.in_pair >= 0 && made.left_along &&
                         made.left_dtype == ScalarType::BFloat16 &&
                         made.left_type == ScalarType::BFloat16 &&
                         whole(made.rows, ir::kTileRows) && whole(made.terms, ir::kTileTerms / 2);
    return made;
  }

  /// Where enough of the other operand comes to it, what is copied, and widened, costs little.
  void copies(const Placed& placed, ProductLayout& made) {
    const ir::ProductAxes axes = *ir::product_axes(placed.statement);
    auto size = [&](int var) {
      return var < 0 || (kernel_.is_rest && var == made.rows) ? 1 : extent(var);
    };
    const int64_t columns = size(made.columns) * size(made.panels),
                  terms = placed.statement.loads[axes.right].strides[axes.terms];
    const bool in_lines = made.left_down || made.left_along;
    const bool in_pairs = made.in_pair >= 0;
    made.pairs = in_lines && made.left_type == ScalarType::BFloat16 &&
                 made.right_type == ScalarType::BFloat16 &&
                 (in_pairs || size(made.rows) >= ir::kProductRows);
    made.panel_by_panel = made.panels >= 0 && terms == ir::kMostProductColumns && !made.adds &&
                          made.needed < 0 && made.zeros == ProductLayout::Zeros::Computed &&
                          size(made.rows) <= kFewRows;
    const bool far =
        !made.panel_by_panel && !is_scratch(kernel_, placed.statement.loads[axes.left].storage);
    if (made.pairs || (in_lines && (far || is_reduced(made.left_dtype)) && columns >= kManyColumns))
      made.left_copy = room(left_copy_, kLeftCopyPitch * ir::kProductBlock * 4);
    const bool apart = terms > kNearTerms || is_reduced(made.right_dtype);
    if (!in_pairs && (made.pairs || (apart && size(made.rows) >= kManyRows)))
      made.right_copy = room(right_copy_, ir::kProductTerms * ir::kMostProductColumns * 4);
  }
  /// In the scratch block, one for all products.
  int room(int& slot, int64_t bytes) {
    if (slot >= 0) return slot;
    slot = in_scratch(binding_.scratch_bytes, 0);
    binding_.scratch_bytes += bytes;
    return slot;
  }

  void find_zeros(const ir::Statement& s, const ir::ProductAxes& axes,
                  const std::vector<int>& axis_var, ProductLayout& made) const {
    const ir::Access &left = s.loads[axes.left], &right = s.loads[axes.right];
    auto by_one = [&](int var) {
      for (size_t a = 0; a < axis_var.size(); ++a)
        if (axis_var[a] == var && left.strides[a] == 1) return true;
      return false;
    };
    const bool along = made.left_along = by_one(made.in_pair >= 0 ? made.in_pair : made.terms);
    made.left_down = !along && by_one(made.rows);
    if (is_scratch(kernel_, left.storage) && along)
      made.zeros = ProductLayout::Zeros::Terms;
    else if (made.adds && is_scratch(kernel_, left.storage) && made.left_down)
      made.zeros = ProductLayout::Zeros::Rows;
    else if (made.adds && is_scratch(kernel_, right.storage) && (along || made.left_down))
      made.zeros = ProductLayout::Zeros::Columns;
  }

  int scalar(uint64_t value) {
    auto& known = binding_.scalars;
    auto found = std::find(known.begin(), known.end(), value);
    if (found == known.end()) found = known.insert(known.end(), value);
    return static_cast<int>(found - known.begin());
  }

  int storage(int id) {
    auto found = std::find(storages_.begin(), storages_.end(), id);
    if (found == storages_.end()) found = storages_.insert(storages_.end(), id);
    return static_cast<int>(found - storages_.begin());
  }

  int shape(const std::vector<int64_t>& values) {
    for (size_t k = 0; k < layout_.shapes.size(); ++k)
      if (layout_.shapes[k].values == values) return static_cast<int>(k);
    Shape made;
    made.values = values;
    for (size_t v = 0; v < values.size(); ++v) made.strides.push_back(stride_along(v, values[v]));
    layout_.shapes.push_back(std::move(made));
    return static_cast<int>(layout_.shapes.size() - 1);
  }

  const Kernel& kernel_;
  Binding& binding_;
  Layout layout_;
  std::vector<int> storages_;  ///< the schedule's number of each storage, in order of appearance
  std::vector<int> path_;      ///< variables of the open loops
  int left_copy_ = -1, right_copy_ = -1;
};

}  // namespace

bool reduces_over(const Placed& placed, int var) {
  if (!placed.statement.reduction) return false;
  for (size_t a = 0; a < placed.axis_var.size(); ++a)
    if (placed.axis_var[a] == var && placed.statement.reduction->axes[a]) return true;
  return false;
}

Layout lay_out(const Kernel& kernel, Binding& binding) {
  return Walk(kernel, binding).run();
}

Binding bind(const Kernel& kernel) {
  Binding binding;
  lay_out(kernel, binding);
  return binding;
}

}  // namespace graft::codegen
