#include "experiments/processes/ring.h"

#include <ATen/ops/tensor.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace graft::experiments {
namespace {

constexpr int64_t kPiece = 1 << 20;

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

Ring::Ring(systems::Group& group) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own = loopback(0);
  socklen_t length = sizeof own;
  require(bind(listener, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0 &&
              listen(listener, 1) == 0 &&
              getsockname(listener, reinterpret_cast<sockaddr*>(&own), &length) == 0,
          "no socket to listen at");
  const at::Tensor ports =
      group.all_gather(at::tensor({static_cast<int64_t>(ntohs(own.sin_port))}));
  const int right = (group.rank() + 1) % group.size();
  const sockaddr_in address = loopback(static_cast<int>(ports[right].item<int64_t>()));
  next_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(connect(next_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "no connection to the next process");
  before_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  require(before_ >= 0, "no connection from the process before");
  const int yes = 1;
  setsockopt(next_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  close(listener);
}

Ring::~Ring() {
  for (const int socket : {next_, before_})
    if (socket >= 0) close(socket);
}

void Ring::pass(int64_t bytes) {
  static std::vector<char> out(kPiece), in(kPiece);
  int64_t to_send = bytes, to_come = bytes;
  while (to_send > 0 || to_come > 0) {
    pollfd both[] = {{next_, static_cast<short>(to_send > 0 ? POLLOUT : 0), 0},
                     {before_, static_cast<short>(to_come > 0 ? POLLIN : 0), 0}};
    require(poll(both, 2, -1) > 0 || errno == EINTR, "poll");
    if ((both[0].revents & POLLOUT) != 0) {
      const ssize_t sent = send(next_, out.data(), static_cast<size_t>(std::min(kPiece, to_send)),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      require(sent > 0 || errno == EAGAIN || errno == EINTR, "send");
      to_send -= std::max<ssize_t>(sent, 0);
    }
    if ((both[1].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t came =
          recv(before_, in.data(), static_cast<size_t>(std::min(kPiece, to_come)), MSG_DONTWAIT);
      require(came > 0 || (came < 0 && (errno == EAGAIN || errno == EINTR)), "recv");
      to_come -= std::max<ssize_t>(came, 0);
    }
  }
}

}  // namespace graft::experiments
