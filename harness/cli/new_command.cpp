#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/output_file.h"
#include "harness/base/read_text.h"
#include "harness/base/source_folder.h"
#include "harness/base/visible_text.h"
#include "harness/cli/commands.h"
#include "harness/cli/new_templates.h"
#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "workloads/models/models.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"

namespace sluice {

namespace {

// A name that is a file's, a variable's and a word on the command line at once.
void require_name(const std::string& name) {
  if (!is_plain_name(name)) {
    std::string plain = name;
    for (char& c : plain) c = c == '-' || c == ' ' || c == '.' ? '_' : static_cast<char>(std::tolower(c));
    throw InputError("new", "'" + name + "' is not a name",
                     is_plain_name(plain) ? "write " + plain : "use lower-case letters, digits and _, a letter first");
  }
  const std::vector<std::string> reserved = {
      "alignas", "alignof", "and",      "asm",      "auto",     "bool",     "break",    "case",     "catch",
      "char",    "class",   "concept",  "const",    "continue", "decltype", "default",  "delete",   "do",
      "double",  "else",    "enum",     "explicit", "export",   "extern",   "false",    "float",    "for",
      "friend",  "goto",    "if",       "inline",   "int",      "long",     "mutable",  "new",      "noexcept",
      "not",     "nullptr", "operator", "or",       "private",  "public",   "register", "return",   "requires",
      "short",   "signed",  "sizeof",   "sluice",   "std",      "static",   "struct",   "switch",   "template",
      "this",    "throw",   "true",     "try",      "typedef",  "typename", "union",    "unsigned", "using",
      "virtual", "void",    "while",    "xor"};
  if (std::ranges::count(reserved, name) > 0)
    throw InputError("new", "'" + name + "' is a word of C++", "choose another name");
  for (const char* ending : {"_test", "_bench", "_workload"})
    if (name.ends_with(ending))
      throw InputError("new", "'" + name + "' would be taken for a test, a benchmark or a workload",
                       std::string("leave ") + ending + " out");
}

void write(const std::string& file, const std::string& text, const std::string& next) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, none))) throw InputError(file, "exists already");
  write_text(output_place(file), text);
  fmt::print("wrote {}\n{}\n", visible(std::filesystem::relative(file).string()), next);
}

std::string folder_for(const NewArguments& a, const std::string& shipped) {
  return a.folder.empty() ? folder_of_new(shipped) : a.folder;
}

// By its name in the folder where Sluice looks for such files, or else by its path.
std::string known_as(const NewArguments& a, const std::string& file) {
  return file.starts_with(source_folder() + "/") ? a.name : file;
}

// After a new file of a system: of which folders CMake knows, it has only to be built.
std::string how_to_build(const std::string& folder) {
  std::vector<std::string> known = extra_system_folders();
  known.push_back(source_folder() + "/baselines");
  std::error_code none;
  const auto same = [&](const std::string& other) { return std::filesystem::equivalent(folder, other, none); };
  if (std::ranges::any_of(known, same)) return "build again";
  const std::filesystem::path path = std::filesystem::weakly_canonical(folder, none);
  return fmt::format("configure Sluice with -DSLUICE_EXTRA_SYSTEMS={} and build it", path.string());
}

int new_baseline(const NewArguments& a) {
  std::vector<std::string> kinds;
  for (const BaselineKind& kind : baseline_kinds()) kinds.push_back(kind.kind);
  const std::string wanted = a.kind.empty() ? kinds.front() : a.kind;
  if (std::ranges::count(kinds, wanted) == 0)
    throw InputError("--kind", "unknown kind '" + wanted + "'", suggestion(wanted, kinds));
  for (const System* system : all_systems())
    if (system->is_called(a.name)) throw InputError("new", "there is a system '" + a.name + "' already");
  const std::string folder = folder_for(a, "baselines");
  write(
      folder + "/" + a.name + ".cpp", new_file(wanted + ".cpp.in", a.name),
      fmt::format("{0}, then: sluice check {1} && sluice schedule --system {1} --text", how_to_build(folder), a.name));
  return 0;
}

// What a workload's file begins with.
Workload small_workload(const std::string& name) {
  ChainBuilder b(name, {.shape = {64}});
  for (int i = 0; i < 4; ++i) {
    b.add("linear" + std::to_string(i), Linear{64, 64});
    b.add("relu" + std::to_string(i), Activation{});
    b.next_block();
  }
  b.add("loss", MseLoss{});
  Workload w{.name = name, .title = name, .task = "regression on one random batch", .model = b.finish()};
  w.batch = 64;
  w.microbatches = 8;
  w.optimizer = {.name = "sgd", .lr = 0.01};
  w.source = "paper or definition";
  return w;
}

int new_workload(const NewArguments& a) {
  for (const Workload& workload : all_workloads())
    if (workload.name == a.name) throw InputError("new", "there is a workload '" + a.name + "' already");
  const std::vector<std::string> kinds = {"code", "file"};
  const std::string kind = !a.kind.empty() ? a.kind : a.like.empty() ? "code" : "file";
  if (std::ranges::count(kinds, kind) == 0)
    throw InputError("--kind", "unknown kind '" + kind + "'", suggestion(kind, kinds));
  if (kind == "code" && !a.like.empty()) throw InputError("--like", "goes with --kind file", "leave --kind out");
  if (kind == "file") {
    const std::string file = folder_for(a, "workloads/models") + "/" + a.name + ".json";
    write(file, file_text(a.like.empty() ? small_workload(a.name) : find_workload(a.like, "--like")),
          fmt::format("it is there at once: sluice list {0} && sluice run --system 1f1b --workload {0}",
                      known_as(a, file)));
    return 0;
  }
  if (folder_for(a, "workloads/models") != source_folder() + "/workloads/models")
    throw InputError("new", "a workload in C++ is built with Sluice, in a checkout's workloads/models",
                     "use --kind file, or a checkout without --folder");
  write(source_folder() + "/workloads/models/" + a.name + "_workload.cpp", new_file("workload.cpp.in", a.name),
        fmt::format("build again, then: sluice list {0} && sluice run --system 1f1b --workload {0}", a.name));
  return 0;
}

int new_cluster(const NewArguments& a) {
  if (a.name == "flat") throw InputError("new", "flat:N is a cluster without a file", "choose another name");
  if (std::ranges::count(names_of_json_files(source_folder() + "/workloads/clusters"), a.name) > 0)
    throw InputError("new", "there is a cluster '" + a.name + "' already");
  const std::string file = folder_for(a, "workloads/clusters") + "/" + a.name + ".json";
  write(file, new_file("cluster.json.in", a.name),
        fmt::format("it is there at once: sluice plan --system 1f1b --workload vgg16 --cluster {}", known_as(a, file)));
  return 0;
}

}  // namespace

int new_command(const NewArguments& a) {
  const std::vector<std::string> kinds = {"baseline", "workload", "cluster"};
  if (std::ranges::count(kinds, a.what) == 0)
    throw InputError("new", "unknown kind '" + a.what + "'", suggestion(a.what, kinds));
  if (a.what == "cluster" && !a.kind.empty())
    throw InputError("--kind", "goes with baselines and workloads", "leave --kind out");
  if (a.what != "workload" && !a.like.empty()) throw InputError("--like", "goes with workloads", "leave --like out");
  require_name(a.name);
  return a.what == "baseline" ? new_baseline(a) : a.what == "workload" ? new_workload(a) : new_cluster(a);
}

}  // namespace sluice
