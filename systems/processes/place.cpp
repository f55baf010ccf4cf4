#include "systems/processes/place.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace graft::systems {
namespace {

constexpr std::string_view kTcp = "tcp://", kFile = "file://";

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int variable_number(const char* name) {
  const std::string text = variable(name);
  if (text.empty())
    throw std::invalid_argument(
        std::string(name) +
        " is not set: start the program with 'graft launch -n 2 PROGRAM' or torchrun, or give its "
        "place in GroupOptions");
  const auto number = number_in(text);
  if (!number)
    throw std::invalid_argument(std::string(name) + " came as '" + text + "'; expected a number");
  return *number;
}

int port_of(std::string_view text, const std::string& whole) {
  const auto port = number_in(text);
  if (!port || *port < 1 || *port > 65535)
    throw std::invalid_argument("the port of '" + whole +
                                "' is none; expected a number from 1 to 65535");
  return *port;
}

}  // namespace

Place place_of(const GroupOptions& options) {
  Place place;
  place.rank = options.rank >= 0 ? options.rank : variable_number("RANK");
  place.size = options.size >= 0 ? options.size : variable_number("WORLD_SIZE");
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
    throw std::invalid_argument("process " + std::to_string(place.rank) + " of " +
                                std::to_string(place.size) +
                                " is no place: expected a rank from 0 to the size less 1");
  if (options.timeout.count() <= 0)
    throw std::invalid_argument("a time-out of " + std::to_string(options.timeout.count()) +
                                " ms; expected more than none");
  const std::string store = options.store.empty() ? variable("GRAFT_STORE") : options.store;
  if (store.starts_with(kFile)) {
    place.file = store.substr(kFile.size());
    if (place.file.empty()) throw std::invalid_argument("'" + store + "' names no file");
  } else if (store.starts_with(kTcp)) {
    const std::string address = store.substr(kTcp.size());
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos || colon == 0)
      throw std::invalid_argument("the store '" + store + "' came; expected tcp://host:port");
    place.host = address.substr(0, colon);
    place.port = port_of(address.substr(colon + 1), store);
  } else if (store.empty()) {
    place.host = variable("MASTER_ADDR");
    if (place.host.empty()) place.host = "127.0.0.1";
    place.port = port_of(std::to_string(variable_number("MASTER_PORT")), "MASTER_PORT");
  } else {
    throw std::invalid_argument("the store '" + store +
                                "' came; expected tcp://host:port or file:///path");
  }
  return place;
}

}  // namespace graft::systems
