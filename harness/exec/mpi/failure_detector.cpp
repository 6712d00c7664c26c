#include "harness/exec/mpi/failure_detector.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

namespace sluice {

namespace {

constexpr auto kTick = std::chrono::milliseconds(500);
// Counted in one's own ticks: if the whole job is suspended, nobody's silence counts.
constexpr int kSilentTicks = 12;  // 6 s
constexpr int kGraceTicks = 4;    // so long the witness whose turn it is may take to report, before another one does
constexpr int kWitnesses = 2;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// "HOST PORT ADDRESS ADDRESS ...": where a witness can be reached.
std::string contact_of(int port) {
  std::string text = host_name() + " " + std::to_string(port);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return text;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
      continue;
    std::array<char, INET_ADDRSTRLEN> address{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, address.data(), address.size());
    text += std::string(" ") + address.data();
  }
  freeifaddrs(all);
  return text;
}

sockaddr_in at(const std::string& address, int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  return where;
}

void put(int fd, const std::string& line) {
  // A line is short and the other end reads: if it does not fit, the other end is gone or suspended.
  (void)!::send(fd, (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool wait_for(int fd, short events, int milliseconds) {
  pollfd p{fd, events, 0};
  return ::poll(&p, 1, milliseconds) == 1;
}

// Reads one line, byte by byte, so that nothing behind it is read; "" if none comes within two seconds.
std::string get_line(int fd) {
  std::string line;
  for (char c = 0; line.size() < 200 && wait_for(fd, POLLIN, 2000);) {
    if (::recv(fd, &c, 1, 0) != 1) break;
    if (c == '\n') return line;
    line += c;
  }
  return "";
}

// Connects to a witness. It answers with the same greeting: an address may lead to another machine, where something
// else listens.
int connect_to(const std::string& contact, const std::string& greeting) {
  std::istringstream in(contact);
  std::string host, address;
  int port = 0;
  in >> host >> port;
  std::vector<std::string> addresses;
  if (host == host_name()) addresses.push_back("127.0.0.1");
  while (in >> address) addresses.push_back(address);
  for (const std::string& a : addresses) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const sockaddr_in where = at(a, port);
    (void)!::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where);
    int error = 0;
    socklen_t size = sizeof error;
    if (wait_for(fd, POLLOUT, 2000) && ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
      put(fd, greeting);
      if (get_line(fd) == greeting) return fd;
    }
    ::close(fd);
  }
  return -1;
}

}  // namespace

class FailureDetector::Thread {
 public:
  Thread(int rank, int size, Report report, EndJob end_job)
      : rank_(rank), size_(size), report_(std::move(report)), end_job_(std::move(end_job)) {}

  ~Thread() {
    leaving_.store(true);
    if (thread_.joinable()) thread_.join();
    for (const Line& line : lines_) ::close(line.fd);
    if (listener_ >= 0) ::close(listener_);
  }

  // Returns how to reach this witness (see contact_of); "" in a process that is none.
  std::string listen() {
    if (rank_ >= kWitnesses) return "";
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in any = at("0.0.0.0", 0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(listener_, 4096) != 0 || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      return "";
    return contact_of(ntohs(bound.sin_port));
  }

  // Starts the thread, before anybody connects: witnesses must answer.
  void start(const std::string& token) {
    token_ = token;
    thread_ = std::thread([this] { run(); });
  }

  // Returns whether every witness but itself was reached.
  bool connect(const std::vector<std::string>& contacts) {
    bool all = true;
    for (int w = 0; w < std::min(kWitnesses, size_); ++w) {
      if (w == rank_) continue;
      const int fd = connect_to(contacts[w], "sluice " + token_ + " " + std::to_string(rank_));
      if (fd < 0) {
        all = false;
        continue;
      }
      const std::lock_guard lock(mutex_);
      fresh_.push_back({fd, w});
    }
    return all;
  }

  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    failing_ = reason;
  }

 private:
  struct Line {
    int fd = -1;
    int peer = -1;  // the process at the other end
    int silent = 0;
    std::string text;     // received, up to a line end
    bool closed = false;  // after "bye"
  };

  void run() {
    auto next = std::chrono::steady_clock::now() + kTick;
    while (!leaving_.load()) {
      accept_new_connections();
      std::vector<pollfd> fds{{listener_, POLLIN, 0}};
      for (const Line& line : lines_) fds.push_back({line.closed ? -1 : line.fd, POLLIN, 0});
      ::poll(fds.data(), fds.size(), 100);
      if (leaving_.load()) break;
      if (listener_ >= 0 && (fds[0].revents & POLLIN)) accept();
      for (std::size_t k = 1; k < fds.size(); ++k)
        if (fds[k].revents != 0) read(lines_[k - 1]);
      if (std::chrono::steady_clock::now() >= next) {
        tick();
        next = std::chrono::steady_clock::now() + kTick;
      }
      if (lost_) consider(*lost_);
    }
    // Reads what the others sent last before it closes the connections: unread bytes would cut off the "bye".
    for (const Line& line : lines_) {
      put(line.fd, "bye");
      ::shutdown(line.fd, SHUT_WR);
    }
    std::array<char, 256> rest;
    for (const Line& line : lines_)
      while (wait_for(line.fd, POLLIN, 200) && ::recv(line.fd, rest.data(), rest.size(), 0) > 0) {
      }
  }

  void accept_new_connections() {
    std::optional<std::string> failing;
    {
      const std::lock_guard lock(mutex_);
      lines_.insert(lines_.end(), fresh_.begin(), fresh_.end());
      fresh_.clear();
      failing.swap(failing_);
    }
    if (!failing) return;
    for (const Line& line : lines_)
      if (!line.closed) put(line.fd, "fail " + *failing);
    lose(rank_, *failing);
  }

  void accept() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const std::string line = get_line(fd);
    std::istringstream in(line);
    std::string name, token;
    int peer = -1;
    in >> name >> token >> peer;
    if (name != "sluice" || token != token_ || peer < 0 || peer >= size_) {
      ::close(fd);
      return;
    }
    put(fd, line);
    lines_.push_back({fd, peer});
  }

  void read(Line& line) {
    std::array<char, 4096> bytes;
    const ssize_t n = ::recv(line.fd, bytes.data(), bytes.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      line.closed = true;
      lose(line.peer, "its process ended (killed, or out of memory)");
      return;
    }
    line.silent = 0;
    line.text.append(bytes.data(), static_cast<std::size_t>(n));
    for (std::size_t end; (end = line.text.find('\n')) != std::string::npos;) {
      const std::string what = line.text.substr(0, end);
      line.text.erase(0, end + 1);
      if (what == "bye") line.closed = true;
      if (what.starts_with("fail ")) lose(line.peer, what.substr(5));
      if (what == "end") end_job_();  // reported by another process
    }
  }

  void tick() {
    for (Line& line : lines_) {
      if (line.closed) continue;
      put(line.fd, ".");
      if (++line.silent == kSilentTicks)
        lose(line.peer, "its process has not answered for 6 s (stopped, or its machine is gone)");
    }
    if (lost_) ++lost_->ticks;
  }

  void lose(int peer, const std::string& how) {
    if (!lost_) lost_ = Lost{peer, how, 0};
  }

  struct Lost {
    int peer;
    std::string how;
    int ticks;
  };

  // Process 0 reports; should it be the one that is lost, or not be heard of, process 1.
  void consider(const Lost& lost) {
    const bool in_turn = rank_ == (lost.peer == 0 ? 1 : 0);
    const bool late = lost.ticks >= kGraceTicks;
    const bool alone = size_ == 1;
    if (!in_turn && !alone && !late) return;
    if (in_turn || alone || rank_ < kWitnesses) report_(lost.peer, lost.how);
    for (const Line& line : lines_)
      if (!line.closed) put(line.fd, "end");
    end_job_();
  }

  const int rank_, size_;
  Report report_;
  EndJob end_job_;
  std::string token_;
  int listener_ = -1;
  std::vector<Line> lines_;
  std::optional<Lost> lost_;
  std::mutex mutex_;
  std::vector<Line> fresh_;
  std::optional<std::string> failing_;
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

FailureDetector::FailureDetector(ProcessGroup& processes, Report report, EndJob end_job)
    : processes_(processes),
      thread_(std::make_unique<Thread>(processes.rank(), processes.size(), std::move(report), std::move(end_job))) {
  const std::string token = processes.broadcast(std::to_string(std::random_device()()) + std::to_string(::getpid()), 0);
  const std::vector<std::string> contacts = processes.all_gather(thread_->listen());
  thread_->start(token);
  const bool connected = thread_->connect(contacts);
  const std::vector<std::string> all = processes.all_gather(connected ? "" : "x");
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty() && warning_.empty() && processes.rank() == 0)
      warning_ = "process " + std::to_string(r) +
                 " has no TCP connection to processes 0 and 1: should it die, only the launcher "
                 "notices";
}

FailureDetector::~FailureDetector() {
  processes_.barrier();
  thread_.reset();
}

const std::string& FailureDetector::warning() const { return warning_; }

void FailureDetector::fail(const std::string& reason) {
  std::string line = reason;
  std::ranges::replace(line, '\n', ' ');
  thread_->fail(line);
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));  // the failure detector ends the process
}

}  // namespace sluice
