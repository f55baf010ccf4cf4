#include "runtime/family/formula.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace graft::runtime {

namespace {

using Wide = __int128;
using Monomial = Formula::Monomial;

constexpr int64_t kLargest = int64_t{1} << 56;
constexpr Wide kLargestProduct = Wide{1} << 42;  // products of differences stay in Wide
constexpr int64_t kMostDivisor = 64;
constexpr int64_t kShortestBlock = 8, kLongestBlock = 8192;  ///< powers of two

Wide value_of(const Monomial& monomial, std::span<const int64_t> point) {
  Wide product = 1;
  for (int8_t symbol : monomial)
    if (symbol >= 0) product *= point[static_cast<size_t>(symbol)];
  return product;
}

/// Of lower degree first.
std::vector<Monomial> monomials(size_t symbols) {
  std::vector<Monomial> made;
  const auto n = static_cast<int8_t>(symbols);
  for (int8_t a = 0; a < n; ++a) made.push_back({a, -1, -1});
  for (int8_t a = 0; a < n; ++a)
    for (int8_t b = a; b < n; ++b) made.push_back({a, b, -1});
  for (int8_t a = 0; a < n; ++a)
    for (int8_t b = a; b < n; ++b)
      for (int8_t c = b; c < n; ++c) made.push_back({a, b, c});
  return made;
}

/// Values at each point.
using Column = std::vector<Wide>;

/// factor * column + … + constant, over `divisor`.
struct Fit {
  std::vector<Wide> factors;
  Wide constant, divisor;
};

/// values = a * column + b
std::optional<Fit> linear(const Column& column, const Column& values) {
  for (size_t i = 1; i < column.size(); ++i) {
    const Wide dx = column[i] - column[0], dy = values[i] - values[0];
    if (dx == 0) continue;
    if (dy == 0 || dy % dx != 0) return std::nullopt;
    return Fit{{dy / dx}, values[0] - dy / dx * column[0], 1};
  }
  return std::nullopt;
}

/// values = a * m + b * n + c, from three points that determine it.
std::optional<Fit> bilinear(const Column& m, const Column& n, const Column& values) {
  auto d = [](const Column& of, size_t i) { return of[i] - of[0]; };
  for (size_t i = 1; i < m.size(); ++i)
    for (size_t k = i + 1; k < m.size(); ++k) {
      const Wide det = d(m, i) * d(n, k) - d(m, k) * d(n, i);
      if (det == 0) continue;
      // Halves of whole numbers, as in the sum of 1 … s.
      const Wide a = 2 * (d(values, i) * d(n, k) - d(values, k) * d(n, i)),
                 b = 2 * (d(m, i) * d(values, k) - d(m, k) * d(values, i));
      if (a % det != 0 || b % det != 0 || a == 0 || b == 0) return std::nullopt;
      return Fit{{a / det, b / det}, 2 * values[0] - a / det * m[0] - b / det * n[0], 2};
    }
  return std::nullopt;
}

class Search {
 public:
  Search(std::span<const Point> points, std::span<const int64_t> values, bool all)
      : points_(points),
        values_(values),
        all_(all),
        column_(values.begin(), values.end()),
        monomials_(monomials(points.front().size())) {
    std::erase_if(monomials_, [&](const Monomial& m) {
      return std::any_of(points.begin(), points.end(),
                         [&](const Point& at) { return value_of(m, at) > kLargestProduct; });
    });
    for (const Monomial& m : monomials_) {
      columns_.emplace_back();
      for (const Point& point : points) columns_.back().push_back(value_of(m, point));
    }
  }

  std::optional<Formula> run(std::span<const Formula> extents) const {
    if (std::equal(values_.begin() + 1, values_.end(), values_.begin())) {
      Formula made;
      made.constant = values_.front();
      return made;
    }
    for (const Monomial& m : monomials_)
      if (auto made = proportional(m)) return made;
    for (size_t i = 0; i < monomials_.size() && enough(2); ++i)
      if (auto made = in_monomials({i})) return made;
    for (size_t i = 0; i < monomials_.size() && enough(3); ++i)
      for (size_t k = i + 1; k < monomials_.size(); ++k)
        if (auto made = in_monomials({i, k})) return made;
    // The lengths of blocks are one more unknown.
    for (const Formula& extent : extents)
      for (int64_t length = kShortestBlock; length <= kLongestBlock && enough(4); length *= 2)
        if (auto made = in_blocks(extent, length)) return made;
    return std::nullopt;
  }

 private:
  /// Do the points say more than `unknowns` numbers?
  bool enough(size_t unknowns) const { return all_ || points_.size() > unknowns; }

  std::optional<Formula> checked(Formula made) const {
    const bool halves = made.divisor == 2 && made.constant % 2 == 0 &&
                        std::all_of(made.terms.begin(), made.terms.end(),
                                    [](const Formula::Term& term) { return term.factor % 2 == 0; });
    if (halves) {
      made.divisor = 1, made.constant /= 2;
      for (Formula::Term& term : made.terms) term.factor /= 2;
    }
    for (size_t i = 0; i < points_.size(); ++i)
      if (made.at(points_[i]) != values_[i]) return std::nullopt;
    return made;
  }

  std::optional<Formula> proportional(const Monomial& m) const {
    const auto of = static_cast<int64_t>(value_of(m, points_.front()));
    if (of == 0 || values_.front() == 0 || !enough(1)) return std::nullopt;
    const int64_t common = std::gcd(values_.front(), of), divisor = of / common;
    if (divisor > kMostDivisor) return std::nullopt;
    return checked({.terms = {{values_.front() / common, m}}, .divisor = divisor});
  }

  /// The formula that `make` gives of the points without any one of them, where it is always the
  /// same. `columns`: what a fit is made of.
  template <class Make>
  std::optional<Formula> settled(std::vector<Column> columns, Make make) const {
    auto fit = [&](const std::vector<Column>& of, const Column& values) {
      return of.size() == 1 ? linear(of[0], values) : bilinear(of[0], of[1], values);
    };
    const std::optional<Fit> found = fit(columns, column_);
    std::optional<Formula> made = found ? checked(make(*found)) : std::nullopt;
    if (!made || all_) return made;
    for (size_t left_out = 0; left_out < points_.size(); ++left_out) {
      auto without = [&](Column column) {
        column.erase(column.begin() + static_cast<std::ptrdiff_t>(left_out));
        return column;
      };
      std::vector<Column> fewer;
      for (const Column& column : columns) fewer.push_back(without(column));
      const std::optional<Fit> other = fit(fewer, without(column_));
      if (!other || make(*other).at(points_[left_out]) != values_[left_out]) return std::nullopt;
    }
    return made;
  }

  std::optional<Formula> in_monomials(const std::vector<size_t>& of) const {
    std::vector<Column> columns;
    for (size_t k : of) columns.push_back(columns_[k]);
    return settled(columns, [&](const Fit& fit) {
      Formula made{.constant = static_cast<int64_t>(fit.constant),
                   .divisor = static_cast<int64_t>(fit.divisor)};
      for (size_t k = 0; k < of.size(); ++k)
        made.terms.push_back({static_cast<int64_t>(fit.factors[k]), monomials_[of[k]]});
      return made;
    });
  }

  std::optional<Formula> in_blocks(const Formula& extent, int64_t length) const {
    Column whole;
    for (const Point& point : points_) {
      const std::optional<int64_t> size = extent.at(point);
      if (!size || *size < 1) return std::nullopt;
      whole.push_back((*size - 1) / length);
    }
    // A number of blocks, alone or times a size, and perhaps a size or a product of two.
    for (size_t times = 0; times <= points_[0].size(); ++times) {
      Column blocks = whole;
      Formula::Blocks how{.length = length, .terms = extent.terms, .constant = extent.constant};
      if (times > 0) {
        how.of = {static_cast<int8_t>(times - 1), -1, -1};
        for (size_t i = 0; i < blocks.size(); ++i) blocks[i] *= points_[i][times - 1];
      }
      auto alone = settled({blocks}, [&](const Fit& fit) {
        Formula made{.constant = static_cast<int64_t>(fit.constant), .blocks = how};
        made.blocks.factor = static_cast<int64_t>(fit.factors[0]);
        return made;
      });
      if (alone) return alone;
      for (size_t m = 0; m < monomials_.size(); ++m) {
        auto made = settled({columns_[m], blocks}, [&](const Fit& fit) {
          Formula made{.constant = static_cast<int64_t>(fit.constant),
                       .divisor = static_cast<int64_t>(fit.divisor),
                       .blocks = how};
          made.terms.push_back({static_cast<int64_t>(fit.factors[0]), monomials_[m]});
          made.blocks.factor = static_cast<int64_t>(fit.factors[1] / fit.divisor);
          return made;
        });
        if (made) return made;
      }
    }
    return std::nullopt;
  }

  std::span<const Point> points_;
  std::span<const int64_t> values_;
  const bool all_;
  const Column column_;
  std::vector<Monomial> monomials_;
  std::vector<Column> columns_;
};

double as_double(int64_t bits) {
  return std::bit_cast<double>(bits);
}

double in_form(double whole, Formula::Form form) {
  switch (form) {
    case Formula::Form::Integer:
    case Formula::Form::Double:
      return whole;
    case Formula::Form::Inverse:
      return 1.0 / whole;
    case Formula::Form::Root:
      return std::sqrt(whole);
    case Formula::Form::InverseRoot:
      return 1.0 / std::sqrt(whole);
  }
  return whole;
}

/// The whole number behind a double of that form, or what is nearest to one.
double behind(double value, Formula::Form form) {
  switch (form) {
    case Formula::Form::Integer:
    case Formula::Form::Double:
      return std::round(value);
    case Formula::Form::Inverse:
      return std::round(1.0 / value);
    case Formula::Form::Root:
      return std::round(value * value);
    case Formula::Form::InverseRoot:
      return std::round(1.0 / (value * value));
  }
  return value;
}

double rounded(double value, bool single) {
  return single ? static_cast<double>(static_cast<float>(value)) : value;
}

std::optional<Formula> explain_real(std::span<const Point> points, std::span<const int64_t> bits,
                                    std::span<const Formula> extents, bool all) {
  using Form = Formula::Form;
  for (Form form : {Form::Double, Form::Inverse, Form::Root, Form::InverseRoot})
    for (bool single : {false, true}) {
      std::vector<int64_t> whole;
      for (int64_t b : bits) {
        const double value = as_double(b), number = behind(value, form);
        if (!(std::abs(number) < static_cast<double>(kLargest)) ||
            rounded(in_form(number, form), single) != value)
          break;
        whole.push_back(static_cast<int64_t>(number));
      }
      if (whole.size() != bits.size()) continue;
      if (auto made = explain(points, whole, ir::NumberKind::Exact, extents, all)) {
        made->form = form, made->single = single;
        return made;
      }
    }
  return std::nullopt;
}

bool small_integers(std::span<const int64_t> values) {
  return std::all_of(values.begin(), values.end(),
                     [](int64_t v) { return std::abs(v) < (int64_t{1} << 40); });
}

}  // namespace

std::string list(std::span<const int64_t> values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

std::optional<int64_t> Formula::at(std::span<const int64_t> point) const {
  bool fits = true;
  auto total = [&](const std::vector<Term>& all, int64_t more) {
    Wide sum = more;
    for (const Term& term : all) {
      const Wide product = value_of(term.of, point);
      fits = fits && product <= kLargest;
      sum += fits ? term.factor * product : 0;
    }
    return sum;
  };
  Wide sum = total(terms, constant);
  if (!fits) return std::nullopt;
  if (divisor != 1) {
    if (sum % divisor != 0) return std::nullopt;
    sum /= divisor;
  }
  if (blocks.factor != 0) {
    const Wide extent = total(blocks.terms, blocks.constant);
    if (!fits || extent < 1 || extent > kLargest) return std::nullopt;
    const Wide times = value_of(blocks.of, point);
    if (times > kLargest) return std::nullopt;
    sum += blocks.factor * times * ((static_cast<int64_t>(extent) - 1) / blocks.length);
  }
  if (is_constant()) return constant;
  if (sum > kLargest || sum < -kLargest) return std::nullopt;
  const auto whole = static_cast<int64_t>(sum);
  if (form == Form::Integer) return whole;
  return std::bit_cast<int64_t>(rounded(in_form(static_cast<double>(whole), form), single));
}

uint32_t Formulas::add(Formula formula) {
  // With sizes below 2^31 the sum stays below kLargest.
  constexpr int64_t kLargestFactor = int64_t{1} << 24;
  Line line{0, formula.constant, -1};
  const bool plain = formula.form == Formula::Form::Integer && formula.divisor == 1 &&
                     formula.blocks.factor == 0 && std::abs(formula.constant) <= kLargest / 2;
  if (plain && formula.terms.size() == 1) {
    const auto& [factor, of] = formula.terms[0];
    if (of[0] >= 0 && of[1] < 0 && of[2] < 0 && std::abs(factor) <= kLargestFactor)
      line.factor = factor, line.symbol = of[0];
  }
  lines_.push_back(line);
  all_.push_back(std::move(formula));
  return static_cast<uint32_t>(all_.size() - 1);
}

bool Formulas::at(std::span<const int64_t> point, Values& values) const {
  values.resize(all_.size());
  for (size_t i = 0; i < all_.size(); ++i) {
    if (const Line& line = lines_[i]; line.symbol >= 0) {
      values[i] = line.factor * point[static_cast<size_t>(line.symbol)] + line.constant;
      continue;
    }
    const auto value = all_[i].at(point);
    if (!value) return false;
    values[i] = *value;
  }
  return true;
}

std::string Formula::text(const std::vector<std::string>& names) const {
  std::string sum;
  auto monomial = [&](const Monomial& of) {
    std::string text;
    for (int8_t symbol : of)
      if (symbol >= 0) text += (text.empty() ? "" : "*") + names[static_cast<size_t>(symbol)];
    return text;
  };
  auto add = [&](int64_t factor, const std::string& of) {
    if (factor == 0) return;
    const bool first = sum.empty();
    sum += factor < 0 ? (first ? "-" : " - ") : (first ? "" : " + ");
    const int64_t size = std::abs(factor);
    if (of.empty())
      sum += std::to_string(size);
    else
      sum += (size == 1 ? "" : std::to_string(size) + "*") + of;
  };
  for (const Term& term : terms) add(term.factor, monomial(term.of));
  add(constant, {});
  if (divisor != 1) sum = "(" + sum + ")/" + std::to_string(divisor);
  if (blocks.factor != 0) {
    const Formula extent{.terms = blocks.terms, .constant = blocks.constant - 1};
    const std::string times = monomial(blocks.of);
    add(blocks.factor, (times.empty() ? "" : times + "*") + "floor((" + extent.text(names) + ")/" +
                           std::to_string(blocks.length) + ")");
  }
  if (sum.empty()) sum = "0";
  switch (form) {
    case Form::Integer:
    case Form::Double:
      return sum;
    case Form::Inverse:
      return "1/(" + sum + ")";
    case Form::Root:
      return "sqrt(" + sum + ")";
    case Form::InverseRoot:
      return "1/sqrt(" + sum + ")";
  }
  return sum;
}

std::optional<Formula> explain(std::span<const Point> points, std::span<const int64_t> values,
                               ir::NumberKind kind, std::span<const Formula> extents, bool all) {
  const bool constant = std::equal(values.begin() + 1, values.end(), values.begin());
  if (kind == ir::NumberKind::Real && !constant && !small_integers(values))
    return explain_real(points, values, extents, all);
  return Search(points, values, all).run(extents);
}

}  // namespace graft::runtime
