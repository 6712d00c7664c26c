#include "harness/exec/mpi/mpi.h"

#include <sluice_build.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <thread>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/numbers.h"

#ifdef SLUICE_HAVE_MPI
#include "harness/exec/mpi/mpi_parts.h"
#endif

namespace sluice {

Launch launch_from_environment() {
  constexpr std::array<std::pair<const char*, const char*>, 3> kNames{{
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // Open MPI's mpirun
      {"PMI_SIZE", "PMI_RANK"},                          // MPICH's, and srun --mpi=pmi2
      {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},          // srun --mpi=pmix
  }};
  for (const auto& [size, rank] : kNames) {
    const auto s = number_in_environment(size), r = number_in_environment(rank);
    if (s && r) return {*s, *r};
  }
  return {};
}

#ifdef SLUICE_HAVE_MPI

namespace {

// When another process is gone, MPI reports an error in whatever call comes next. The failure detector sees the same
// and stores the reason within 8 s; only if it does not, the error of the call is the message.
void on_mpi_error(MPI_Comm*, int* code, ...) {
  std::this_thread::sleep_for(std::chrono::seconds(8));
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(*code, text.data(), &length);
  std::fprintf(stderr, "error: MPI: %s\n", text.data());
  std::_Exit(1);
}

class MpiProcessGroup : public ProcessGroup {
 public:
  // Takes the communicator.
  MpiProcessGroup(MPI_Comm all, bool whole_job) : all_(all), whole_job_(whole_job) {
    MPI_Comm_rank(all, &process_.rank);
    MPI_Comm_size(all, &process_.size);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_mpi_error, &handler);
    MPI_Comm_set_errhandler(all, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_dup(all, &process_.messages);  // with the handler
    MPI_Comm_dup(all, &process_.exchanges);
    MPI_Comm node;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, process_.rank, MPI_INFO_NULL, &node);
    int neighbours = 0;
    MPI_Comm_size(node, &neighbours);
    MPI_Comm_free(&node);
    const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    process_.crowded = neighbours > cores;
    // A process that is bound to one core has none to spare, however many the machine has.
    process_.spare_cores = cores >= 2 * neighbours && std::thread::hardware_concurrency() >= 2;
    if (const char* wish = std::getenv("SLUICE_MPI_HELPER")) process_.spare_cores = std::strcmp(wish, "0") != 0;
  }
  ~MpiProcessGroup() override {
    MPI_Comm_free(&process_.messages);
    MPI_Comm_free(&process_.exchanges);
    if (whole_job_) {
      MPI_Finalize();
    } else {
      MPI_Comm_free(&all_);
    }
  }

  int rank() const override { return process_.rank; }
  int size() const override { return process_.size; }

  std::string broadcast(const std::string& bytes, int root) override {
    std::uint64_t size = bytes.size();
    const auto share = [&](void* data, std::size_t n) {
      complete([&](MPI_Request* request) { MPI_Ibcast(data, static_cast<int>(n), MPI_BYTE, root, all_, request); });
    };
    share(&size, sizeof size);
    std::string result = rank() == root ? bytes : std::string(size, '\0');
    for (std::size_t at = 0; at < size; at += kLargestPart)
      share(result.data() + at, std::min(kLargestPart, size - at));
    return result;
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    std::vector<std::string> result;
    for (int root = 0; root < size(); ++root) result.push_back(broadcast(bytes, root));
    return result;
  }

  void barrier() override {
    // Once to wait for late members, with sleeps in between; and once more awake, so that all leave at the same time.
    complete([&](MPI_Request* request) { MPI_Ibarrier(all_, request); });
    complete([&](MPI_Request* request) { MPI_Ibarrier(all_, request); });
  }

  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(*process_.mpi);
    // A copy, so that the caller need not wait for the receiver; dropped when it has been received.
    Sent& sent = sent_.emplace_back();
    sent.bytes.assign(bytes.begin(), bytes.end());
    sent.size = bytes.size();
    const auto start = [&](const void* data, std::size_t n) {
      sent.requests.emplace_back();
      MPI_Isend(data, static_cast<int>(n), MPI_BYTE, to, 0, all_, &sent.requests.back());
    };
    start(&sent.size, sizeof sent.size);
    for (std::size_t at = 0; at < bytes.size(); at += kLargestPart)
      start(sent.bytes.data() + at, std::min(kLargestPart, bytes.size() - at));
    finish_sends();
  }

  std::vector<std::byte> receive(int from) override {
    std::uint64_t size = 0;
    receive_into(from, &size, sizeof size);
    std::vector<std::byte> bytes(size);
    for (std::size_t at = 0; at < size; at += kLargestPart)
      receive_into(from, bytes.data() + at, std::min(kLargestPart, size - at));
    return bytes;
  }

  std::unique_ptr<ProcessGroup> first(int n) override {
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(all_, rank() < n ? 0 : MPI_UNDEFINED, rank(), &some);
    if (some == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiProcessGroup>(some, false);
  }

  std::unique_ptr<Transport> transport(const Program& program, MessageCodec& codec) override {
    return make_mpi_transport(process_, program, codec);
  }

 private:
  struct Sent {
    std::uint64_t size = 0;
    std::vector<std::byte> bytes;
    std::vector<MPI_Request> requests;
  };

  void finish_sends() {
    sent_.remove_if([](Sent& sent) {
      int done = 0;
      MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &done, MPI_STATUSES_IGNORE);
      return done != 0;
    });
  }

  void receive_into(int from, void* data, std::size_t n) {
    complete([&](MPI_Request* request) { MPI_Irecv(data, static_cast<int>(n), MPI_BYTE, from, 0, all_, request); });
  }

  // Starts an operation and waits for its end, holding the lock of MPI only for moments.
  template <class Start>
  void complete(Start start) {
    MPI_Request request;
    {
      const std::lock_guard lock(*process_.mpi);
      start(&request);
    }
    Backoff backoff(process_.crowded);
    for (int done = 0;;) {
      {
        const std::lock_guard lock(*process_.mpi);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return;
        finish_sends();
      }
      backoff.pause();
    }
  }

  MPI_Comm all_;
  bool whole_job_;
  MpiProcess process_;
  std::list<Sent> sent_;
};

}  // namespace

bool mpi_built() { return true; }

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  // The first words of the text: what follows may name the machine that the library was built on.
  std::string version(text.data());
  version = version.substr(0, version.find_first_of(",\n"));
  std::ranges::replace(version, '\t', ' ');
  return version;
}

std::unique_ptr<ProcessGroup> join_mpi_job() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED)
    throw InputError("mpi", "this MPI library cannot be called from more than one thread",
                     "use one with MPI_THREAD_SERIALIZED");
  MPI_Comm all;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  auto job = std::make_unique<MpiProcessGroup>(all, true);
  if (const int started = launch_from_environment().size; started > 1 && job->size() == 1)
    throw InputError("mpi",
                     "the environment's variables say that " + std::to_string(started) +
                         " processes were started, but no other one has joined this one",
                     "start them with mpirun, or with srun --mpi=pmix; without a launcher unset OMPI_COMM_WORLD_SIZE, "
                     "PMI_SIZE and SLURM_NTASKS");
  return job;
}

void abort_mpi_job(int exit_code) {
  // The launcher kills all processes of the job; should it not answer, at least this one ends.
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

#else

bool mpi_built() { return false; }
std::string mpi_library() { return ""; }
std::unique_ptr<ProcessGroup> join_mpi_job() {
  throw InputError("transport", "this build has no MPI transport",
                   "install MPI (Debian: libopenmpi-dev openmpi-bin) and build again, or use "
                   "threads");
}
void abort_mpi_job(int exit_code) { std::_Exit(exit_code); }

#endif

}  // namespace sluice
