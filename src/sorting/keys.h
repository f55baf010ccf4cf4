// Numbers as keys: unsigned integers in the order that ATen sorts in.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace graft {

/// In memory the key comes last: together they are one number.
template <class Key>
struct Entry {
  uint32_t place;
  Key key;
  bool operator<(const Entry& other) const {
    if constexpr (sizeof(Entry) == sizeof(uint64_t))
      return std::bit_cast<uint64_t>(*this) < std::bit_cast<uint64_t>(other);
    else
      return key != other.key ? key < other.key : place < other.place;
  }
};

/// Grows with the number. All NaN have the largest, both zeros the same.
template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, at::Half> || std::is_same_v<T, at::BFloat16>) {
    return key_of(static_cast<float>(x));
  } else {
    using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
    if constexpr (std::is_floating_point_v<T>) {
      const auto bits = std::bit_cast<Key>(x == 0 ? T{0} : x);
      const Key turned = bits ^ ((Key{0} - (bits >> (8 * sizeof(Key) - 1))) | sign);
      return x != x ? ~Key{0} : turned;
    } else {
      return static_cast<Key>(static_cast<Key>(x) ^ (std::is_signed_v<T> ? sign : 0));
    }
  }
}

/// Which of two elements is less, as ATen's sorts ask: where they put equal ones follows from the
/// answers.
struct ByKey {
  template <class Key>
  bool operator()(const Entry<Key>& a, const Entry<Key>& b) const {
    return a.key < b.key;
  }
};

/// `descending`: the largest has the least key.
template <class T>
auto entry_of(const std::vector<T>& row, size_t place, bool descending) {
  using Key = decltype(key_of(T{}));
  const Key key = key_of(row[place]);
  return Entry<Key>{static_cast<uint32_t>(place), descending ? static_cast<Key>(~key) : key};
}

/// One per element, in the row's order.
template <class T, class Key>
void make_entries(const std::vector<T>& row, bool descending, std::vector<Entry<Key>>& entries) {
  for (size_t k = 0; k < row.size(); ++k) entries[k] = entry_of(row, k, descending);
}

/// Do rows have equal elements nearly always? Then a way that asks for none of them is not tried.
class Ties {
 public:
  bool are_likely() const { return score_ > 0; }
  void met(bool ties) { score_ = std::clamp(score_ + (ties ? 1 : -4), -4, 2); }

 private:
  int score_ = 0;  ///< above 0 where more than four of five rows lately had some
};

/// Bit for bit: NaN and zeros have several forms.
template <class T>
bool are_same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Do all lie in 32 bits? Places and counts do.
inline bool are_small(const at::Tensor& numbers) {
  const auto* const first = numbers.const_data_ptr<int64_t>();
  return std::all_of(first, first + numbers.numel(),
                     [](int64_t x) { return x == static_cast<int32_t>(x); });
}

}  // namespace graft
