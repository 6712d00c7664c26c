// Changed command lines over changed files, each in a fork of this process, and how they end. A command must end by
// itself, or within a second of the SIGTERM that it gets after two; with a documented exit code and a message; leave
// its inputs alone; and leave outputs that are whole. harness/case/README.md documents the codes.
//   mutate_commands [--count N] [--seconds N] [--seed N] [--jobs N] [--only K]
// Command K is the same for a seed, whatever the other arguments are; --only runs it alone. The first commands are the
// lines of commands.txt as they are. A command with a defect leaves its folder, defect-K, with what it printed. Exit
// code 1: there was one.
#include <fcntl.h>
#include <sluice_build.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/base/read_text.h"
#include "harness/base/visible_text.h"
#include "harness/cli/sluice_main.h"
#include "harness/tests/fuzz/mutate.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;
using Files = std::map<std::string, std::string>;  // content by name

constexpr double kPatience = 2;          // seconds until a command gets SIGTERM; limit of CPU seconds for bad input
constexpr double kSecondsToStop = 1;     // of CPU and of time, from the signal to the end
constexpr double kSecondsToKill = 10;    // from the signal
constexpr std::size_t kLargest = 60000;  // bytes of records of which whole lines are taken
const std::string kNotes = "notes.txt", kNotesText = "somebody's notes\n";

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct Command {
  Words words;
  Files inputs;
};

// Makes command K of the lines.
class Maker {
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

 public:
  Maker(const std::vector<Words>& lines, std::uint64_t seed) : lines_(lines), random_(seed) {}

  Command make(std::size_t k) {
    unchanged_ = k < lines_.size();
    const Words& line = unchanged_ ? lines_[k] : pick(lines_);
    Command command{line, {}};
    for (std::size_t n = unchanged_ ? 0 : below(4); n > 0; --n) change(command.words, line.front());
    for (std::string& word : command.words) word = with_input(word, command.inputs);
    std::erase_if(command.words, [](const std::string& word) { return word.starts_with("@@"); });
    return command;
  }

 private:
  const std::string& absurd_number() {
    static const Words numbers = {
        "0",    "-1",     "1e999", "-1e999", "nan",       "0.5", "2147483648", "4294967297", "9223372036854775808",
        "1e18", "1e-320", "",      "64",     "1000000000"};
    return pick(numbers);
  }

  const std::string& absurd_word() {
    static const Words absurd = {
        "",       "-",     "--",   "*",        "..",     ".",    kNotes, "/dev/null",          "/dev/full",
        ",",      "=",     "a=b",  "\x1b[31m", "\xff",   "%s%n", "{}",   "'; touch broken; '", "--json",
        "--help", "--out", "none", "name",     "flat:2", "1/0",  "a\nb"};
    static const std::string long_word(5000, 'x');
    return below(20) == 0 ? long_word : pick(absurd);
  }

  void change(Words& words, const std::string& name) {
    const std::size_t at = below(words.size());
    switch (below(9)) {
      case 0:
        if (words.size() > 1) words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), words[below(words.size())]);
        break;
      case 2:
        std::swap(words[at], words[below(words.size())]);
        break;
      case 3:
        if (at > 0) words[at] = absurd_word();
        break;
      case 4: {  // a flag of another line of the command, with what follows it
        const Words& other = pick(lines_);
        if (other.front() != name) break;
        for (std::size_t k = 1; k < other.size(); ++k)
          if (other[k].starts_with('-') && below(2) == 0) {
            words.push_back(other[k]);
            if (k + 1 < other.size() && !other[k + 1].starts_with('-')) words.push_back(other[k + 1]);
            break;
          }
        break;
      }
      case 5:
        if (!words[at].starts_with('@')) words[at] = mutated({words[at]}, random_).substr(0, 4000);
        break;
      default: {  // a number in a word
        std::string& word = words[at];
        if (word.starts_with('@')) break;
        const std::size_t begin = word.find_first_of("0123456789");
        if (begin == std::string::npos) break;
        const std::size_t end = std::min(word.find_first_not_of("0123456789.", begin), word.size());
        word.replace(begin, end - begin, absurd_number());
      }
    }
    for (std::string& word : words)  // an argument of a program has no zero byte
      word = word.substr(0, word.find('\0'));
  }

  // The word with the name of a copy in place of @PATH.
  std::string with_input(const std::string& word, Files& inputs) {
    const bool unnamed = word.starts_with("@@");
    const std::size_t at = unnamed ? 1 : word.find('@');
    if (at == std::string::npos || (at > 0 && !unnamed && word[at - 1] != '=')) return word;
    fs::path path = fs::path(SLUICE_SOURCE_DIR) / word.substr(at + 1);
    std::error_code none;
    if (fs::is_directory(path, none)) {
      std::vector<fs::path> files;
      for (const auto& entry : fs::directory_iterator(path))
        if (entry.is_regular_file() && entry.path().extension() != ".md" && entry.path().extension() != ".cpp")
          files.push_back(entry.path());
      std::ranges::sort(files);
      path = pick(files);
    }
    if (!fs::is_regular_file(path, none)) return word;
    std::string name = path.filename();
    while (inputs.contains(name)) name = "x" + name;
    inputs[name] = maybe_changed(beginning(path));
    return unnamed ? word : word.substr(0, at) + name;
  }

  static std::string beginning(const fs::path& path) {
    std::string text = text_of(path);
    if (path.extension() == ".jsonl" && text.size() > kLargest) text.resize(text.rfind('\n', kLargest) + 1);
    return text;
  }

  std::string maybe_changed(const std::string& text) {
    if (unchanged_ || below(3) == 0) return text;
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    const bool many = lines.size() > 1 && Json::parse_if_json(lines.front()).value_or(Json()).is_object();
    if (many && below(3) == 0) {  // records twice, in another order, or left out
      std::swap(lines[below(lines.size())], lines[below(lines.size())]);
      lines.push_back(pick(lines));
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(below(lines.size())));
      return joined(lines);
    }
    if (below(3) == 0) return mutated({text}, random_);
    std::string& one = many ? lines[below(lines.size())] : (lines = {text}).front();
    std::optional<Json> json = Json::parse_if_json(one);
    if (!json) return mutated({text}, random_);
    for (std::size_t n = below(3) + 1; n > 0; --n) change_node(*json);
    one = json->dump();
    return joined(lines);
  }

  static std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  void change_node(Json& node) {
    std::vector<std::string> keys;
    if (node.is_object())
      for (const auto& [key, value] : node.items()) keys.push_back(key);
    const bool list = node.is_array() && !node.empty();
    if ((keys.empty() && !list) || below(8) == 0) {
      static const std::vector<Json> values = {Json(),
                                               0,
                                               -1,
                                               0.5,
                                               1e308,
                                               1 << 30,
                                               "",
                                               "\x1b[31m",
                                               "gpipe",
                                               true,
                                               Json::array(),
                                               Json::object(),
                                               Json::array({1, 2}),
                                               4294967297,
                                               1e-320,
                                               "flat:2"};
      node = node.is_number() && below(2) == 0 ? Json(node.get<double>() * (below(2) == 0 ? -1 : 1e6)) : pick(values);
      return;
    }
    if (list) {
      const std::size_t at = below(node.size());
      if (below(8) == 0)
        node.erase(at);
      else if (below(8) == 0)
        node.push_back(Json(node[at]));
      else
        change_node(node[at]);
      return;
    }
    const std::string& key = pick(keys);
    if (below(8) == 0)
      node.erase(key);
    else if (below(8) == 0)
      node[key] = Json(node.at(pick(keys)));
    else
      change_node(node[key]);
  }

  const std::vector<Words>& lines_;
  std::mt19937_64 random_;
  bool unchanged_ = false;
};

struct Ended {
  int code = -1;             // 128 + n: by signal n
  bool signalled = false;    // it got SIGTERM
  bool killed = false;       // SIGKILL, too
  double cpu = 0, stop = 0;  // CPU seconds; the smaller of seconds and CPU seconds from SIGTERM to the end
  std::string out, err;
};

// A place for the commands of one process: folders for home (where SLUICE_HOME leads), temporary files, and the
// command itself.
class Place {
 public:
  explicit Place(const fs::path& root) : root_(root) {
    for (const char* folder : {"home", "tmp", "in"}) fs::create_directories(root / folder);
    const fs::path source(SLUICE_SOURCE_DIR);
    for (const char* folder : {"baselines", "systems", "workloads", "harness/sweeps", "results", "plots"})
      for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
        const fs::path to = root / "home" / fs::relative(entry.path(), source);
        fs::create_directories(entry.is_directory() ? to : to.parent_path());
        if (!entry.is_directory()) fs::create_symlink(entry.path(), to);
      }
  }

  // The defects of a command, in words.
  std::vector<std::string> run(const Command& command, long number) {
    fs::remove_all(in());
    fs::create_directory(in());
    put(in() / kNotes, kNotesText);
    for (const auto& [name, text] : command.inputs) put(in() / name, text);
    const Ended ended = start(command);
    std::vector<std::string> defects = defects_of(command, ended);
    last = ended;
    if (!defects.empty()) {
      const std::string kept = "defect-" + std::to_string(number);
      fs::remove_all(kept);
      fs::copy(in(), kept, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      for (const auto& [name, text] : command.inputs) put(fs::path(kept) / name, text);
      put(fs::path(kept) / ".out", ended.out);
      put(fs::path(kept) / ".err", ended.err);
    }
    for (const auto& entry : fs::directory_iterator(root_ / "tmp")) fs::remove_all(entry.path());
    return defects;
  }

  Ended last;

 private:
  fs::path in() const { return root_ / "in"; }

  [[noreturn]] void become(const Command& command) const {
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
    ::setenv("SLUICE_HOME", (root_ / "home").c_str(), 1);
    ::setenv("TMPDIR", (root_ / "tmp").c_str(), 1);
    ::setenv("HOME", (root_ / "tmp").c_str(), 1);
    ::unsetenv("COLUMNS");
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (::chdir(in().c_str()) != 0) ::_exit(126);
    const auto redirect = [&](const char* file, int flags, int to) {
      const int opened = ::open(file, flags, 0600);
      ::dup2(opened, to);
      ::close(opened);
    };
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect((root_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect((root_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    Words words = command.words;
    words.insert(words.begin(), "sluice");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::_exit(sluice_main(static_cast<int>(words.size()), argv.data()));
  }

  Ended start(const Command& command) const {
    std::fflush(stdout);
    const Clock::time_point begin = Clock::now();
    const pid_t child = ::fork();
    if (child == 0) become(command);
    Ended ended;
    int status = 0;
    rusage used{};
    double cpu_at_signal = 0;
    Clock::time_point signal_at;
    for (;;) {  // SIGCHLD is blocked
      if (::wait4(child, &status, WNOHANG, &used) == child) break;
      if (!ended.signalled && since(begin) > kPatience) {
        clockid_t clock;
        timespec time{};
        if (::clock_getcpuclockid(child, &clock) == 0 && ::clock_gettime(clock, &time) == 0)
          cpu_at_signal = static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
        signal_at = Clock::now();
        ended.signalled = true;
        ::kill(child, SIGTERM);
      }
      if (ended.signalled && !ended.killed && since(signal_at) > kSecondsToKill) {
        ended.killed = true;
        ::kill(child, SIGKILL);
      }
      sigset_t children;
      ::sigemptyset(&children);
      ::sigaddset(&children, SIGCHLD);
      const timespec wait{0, 100'000'000};
      ::sigtimedwait(&children, nullptr, &wait);
    }
    ::kill(-child, SIGKILL);  // what it started and left behind
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    ended.cpu = seconds(used.ru_utime) + seconds(used.ru_stime);
    if (ended.signalled) ended.stop = std::min(since(signal_at), ended.cpu - cpu_at_signal);
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ended.out = text_of(root_ / "out");
    ended.err = text_of(root_ / "err");
    return ended;
  }

  std::vector<std::string> defects_of(const Command& command, const Ended& ended) const {
    std::vector<std::string> defects;
    const auto defect = [&](const std::string& text) { defects.push_back(text); };
    if (ended.killed) return {"runs on after SIGTERM"};
    if (ended.stop > kSecondsToStop) defect("takes " + std::to_string(ended.stop) + " s to end after SIGTERM");
    const bool by_signal = ended.signalled && ended.code == 128 + SIGTERM;
    if (ended.code < 0 || (ended.code > 2 && !by_signal)) defect("exit code " + std::to_string(ended.code));
    if (ended.code == 2 && ended.cpu > kPatience) defect("bad input takes " + std::to_string(ended.cpu) + " s");
    std::vector<std::string> lines;
    std::istringstream in_lines(ended.err);
    for (std::string line; std::getline(in_lines, line);) lines.push_back(line);
    const auto errors = std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("error: "); });
    if (errors > 1) defect("several errors");
    if (ended.code == 2 && (errors != 1 || !lines.back().starts_with("error: "))) defect("bad input without an error");
    if (ended.code == 1 && ended.out.empty() && ended.err.empty()) defect("fails without a word");
    if (ended.code == 2 && errors == 1 && lines.back().size() > 9000) defect("an endless error");
    std::string given;
    for (const auto& [name, text] : command.inputs) given += text;
    for (const char* word :
         {"json.exception", "vector::", "basic_string", "filesystem error", "std::", "c10::", "stol", "stoi",
          "terminate", "map::at", "bad_alloc", "internal error", "Traceback", "anitizer", "runtime error:"})
      if (ended.err.find(word) != std::string::npos && given.find(word) == std::string::npos)
        defect("says '" + std::string(word) + "'");
    for (const auto& [stream, text] : {std::pair("stdout", &ended.out), std::pair("stderr", &ended.err)})
      // A tab is one of tables, or of --help.
      if (std::string shown = *text; std::ranges::replace(shown, '\t', ' '), visible_lines(shown) != shown)
        defect(std::string("a character that a terminal obeys on ") + stream);
    check_files(command, ended, by_signal, defect);
    return defects;
  }

  template <class Defect>
  void check_files(const Command& command, const Ended& ended, bool by_signal, const Defect& defect) const {
    if (text_of(in() / kNotes) != kNotesText) defect("changes " + kNotes);
    for (const auto& entry : fs::recursive_directory_iterator(in())) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), in()), text = text_of(entry.path());
      const auto input = command.inputs.find(name);
      if (input != command.inputs.end() && input->second == text) continue;
      if (input != command.inputs.end() && (!is_output(command.words, name) || ended.code == 2))
        defect("changes its input " + name);
      const bool records = name.ends_with(".jsonl");
      if (name.find(".tmp") != std::string::npos && !by_signal) defect("leaves " + name);
      if (name == kNotes || (by_signal && !records)) continue;
      // A file of records that no case has come to is empty.
      if (text.empty() && (command.words.front() == "run" || command.words.front() == "validate")) continue;
      if (const std::string fault = fault_of(name, text, by_signal); !fault.empty())
        defect(visible(name) + " " + fault);
    }
    for (const auto& [name, text] : command.inputs)
      if (!fs::exists(in() / name)) defect("deletes its input " + name);
    if (!by_signal && !fs::is_empty(root_ / "tmp"))
      defect("leaves " + fs::directory_iterator(root_ / "tmp")->path().filename().string() + " in $TMPDIR");
  }

  // Whether a word before or in it makes the name one of an output.
  static bool is_output(const Words& words, const std::string& name) {
    static const Words flags = {"--out", "-o", "--trace", "--html", "--csv", "--chart", "--torchtitan"};
    for (std::size_t k = 0; k < words.size(); ++k)
      for (const std::string& flag : flags)
        if (words[k] == flag + "=" + name || words[k] == flag + name ||
            (k > 0 && words[k - 1] == flag && words[k] == name))
          return true;
    return false;
  }

  // What shows that an output is not whole; "": nothing.
  static std::string fault_of(const std::string& name, const std::string& text, bool may_be_torn) {
    const auto is_json = [](const std::string& part) { return Json::parse_if_json(part).has_value(); };
    const bool records = name.ends_with(".jsonl");
    if (text.empty()) return "is empty";
    // FILE.torn holds torn lines of records.
    for (const char* ending : {".et", ".png", ".torn"})
      if (name.ends_with(ending)) return "";
    if (records || (text.starts_with('{') && !is_json(text))) {
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);)
        if (!is_json(line) && !(may_be_torn && in.eof())) return "is neither JSON nor records";
      return text.ends_with('\n') || may_be_torn ? "" : "ends in a line";
    }
    if (text.starts_with('<') && text.find_last_not_of('\n') != text.rfind('>')) return "is cut off";
    return "";
  }

  fs::path root_;
};

struct Counts {
  std::atomic<long> done, defects, signalled;
  std::array<std::atomic<long>, 3> codes;
};

std::vector<Words> read_lines() {
  std::vector<Words> lines;
  std::istringstream in(read_text(std::string(SLUICE_SOURCE_DIR) + "/harness/tests/fuzz/commands.txt", 1 << 20));
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    Words words;
    std::istringstream parts(line);
    for (std::string word; parts >> word;) words.push_back(word);
    lines.push_back(words);
  }
  return lines;
}

// Size and time of every file of the checkout's folders that commands write into by default.
std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> checkout() {
  std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> files;
  for (const char* folder : {"baselines", "systems", "workloads", "harness", "results", "plots"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SLUICE_SOURCE_DIR) / folder))
      if (entry.is_regular_file() && entry.path().extension() != ".pyc" &&
          entry.path().string().find("/results/runs/") == std::string::npos)
        files[entry.path()] = {entry.file_size(), entry.last_write_time()};
  return files;
}

struct Limits {
  long count = 20000, only = -1;
  double seconds = 1e9;
  std::uint64_t seed = 1;
  int jobs = 2;
};

void work(const Limits& limits, int job, const fs::path& root, Counts& counts) {
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, nullptr);
  const std::vector<Words> lines = read_lines();
  Place place(root / std::to_string(job));
  const Clock::time_point begin = Clock::now();
  const long first = limits.only >= 0 ? limits.only : job, last = limits.only >= 0 ? limits.only + 1 : limits.count;
  for (long k = first; k < last && since(begin) < limits.seconds; k += limits.jobs) {
    const Command command =
        Maker(lines, limits.seed * 1'000'003 + static_cast<std::uint64_t>(k)).make(static_cast<std::size_t>(k));
    const std::vector<std::string> defects = place.run(command, k);
    ++counts.done;
    if (place.last.signalled) ++counts.signalled;
    if (place.last.code >= 0 && place.last.code <= 2) ++counts.codes[static_cast<std::size_t>(place.last.code)];
    if (limits.only >= 0)
      std::printf("exit code %d\n%s%s", place.last.code, place.last.out.c_str(), place.last.err.c_str());
    if (defects.empty()) continue;
    ++counts.defects;
    std::string text = "command " + std::to_string(k) + ":";
    for (const std::string& word : command.words) text += " '" + visible(word.substr(0, 200)) + "'";
    for (const std::string& defect : defects) text += "\n  " + defect;
    const std::string said =
        place.last.err.substr(place.last.err.size() - std::min<std::size_t>(place.last.err.size(), 400));
    std::printf("%s\n  stderr: %s\n", text.c_str(), visible(said).c_str());
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  Limits limits;
  for (int i = 1; i < argc; i += 2) {
    const std::optional<double> value = i + 1 < argc ? number_in(argv[i + 1]) : std::nullopt;
    const std::string flag = argv[i];
    if (!value) throw InputError(flag, "a number must follow");
    if (flag == "--count")
      limits.count = static_cast<long>(*value);
    else if (flag == "--only")
      limits.only = static_cast<long>(*value);
    else if (flag == "--seconds")
      limits.seconds = *value;
    else if (flag == "--seed")
      limits.seed = static_cast<std::uint64_t>(*value);
    else if (flag == "--jobs")
      limits.jobs = static_cast<int>(*value);
    else
      throw InputError(flag, "unknown flag", "--count, --seconds, --seed, --jobs or --only");
  }
  if (limits.only >= 0) limits.jobs = 1;
  const bool memory = fs::is_directory("/dev/shm");
  std::string pattern = (memory ? "/dev/shm" : fs::temp_directory_path().string()) + "/sluice-commands-XXXXXX";
  if (!::mkdtemp(pattern.data())) throw RunError(pattern + ": cannot be made");
  const fs::path root(pattern);
  const auto before = checkout();
  void* shared = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw RunError("no shared memory");
  Counts& counts = *new (shared) Counts{};
  const Clock::time_point begin = Clock::now();
  for (int job = 0; job < limits.jobs; ++job) {
    const pid_t child = ::fork();
    if (child == 0) {
      work(limits, job, root, counts);
      std::fflush(stdout);
      ::_exit(0);
    }
  }
  bool whole = true;
  for (int job = 0; job < limits.jobs; ++job) {
    int status = 0;
    ::wait(&status);
    whole = whole && status == 0;
  }
  fs::remove_all(root);
  if (!whole) std::printf("a worker did not come to its end\n");
  const bool untouched = checkout() == before;
  if (!untouched) std::printf("files of the checkout have changed\n");
  std::printf("%ld commands in %.0f s: exit code 0: %ld, 1: %ld, 2: %ld; stopped after %g s: %ld; defects: %ld\n",
              counts.done.load(), since(begin), counts.codes[0].load(), counts.codes[1].load(), counts.codes[2].load(),
              kPatience, counts.signalled.load(), counts.defects.load());
  return whole && untouched && counts.defects == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  }
}
