// The state file is small and rewritten whole, by way of a temporary file, after each layer.
#include "quantizer/model/workspace.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "formats/files.h"
#include "quantizer/model/checksum.h"
#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolder = ".graft-quantize";
constexpr const char* kState = "state.json";

LinearReport linear_of(const json& from) {
  LinearReport out;
  from.at("module").get_to(out.module);
  from.at("rows").get_to(out.rows);
  from.at("columns").get_to(out.columns);
  from.at("loss").get_to(out.loss);
  from.at("dead_columns").get_to(out.dead_columns);
  from.at("dampening").get_to(out.dampening);
  from.at("total_ms").get_to(out.times.total);
  from.at("factor_ms").get_to(out.times.factor);
  from.at("process_ms").get_to(out.times.process);
  from.at("update_ms").get_to(out.times.update);
  from.at("weight_crc32").get_to(out.weight_crc32);
  return out;
}

LayerReport layer_of(const json& from) {
  LayerReport out;
  from.at("layer").get_to(out.layer);
  from.at("seconds").get_to(out.seconds);
  out.resumed = true;
  for (const json& linear : from.at("linears")) out.linears.push_back(linear_of(linear));
  return out;
}

}  // namespace

double LayerReport::loss() const {
  double out = 0;
  for (const LinearReport& linear : linears) out += linear.loss;
  return out;
}

json to_json(const LayerReport& report) {
  json linears = json::array();
  for (const LinearReport& linear : report.linears) {
    linears.push_back({{"module", linear.module},
                       {"rows", linear.rows},
                       {"columns", linear.columns},
                       {"loss", linear.loss},
                       {"dead_columns", linear.dead_columns},
                       {"dampening", linear.dampening},
                       {"total_ms", linear.times.total},
                       {"factor_ms", linear.times.factor},
                       {"process_ms", linear.times.process},
                       {"update_ms", linear.times.update},
                       {"weight_crc32", linear.weight_crc32}});
  }
  return {{"layer", report.layer},
          {"seconds", report.seconds},
          {"resumed", report.resumed},
          {"loss", report.loss()},
          {"linears", linears}};
}

Workspace::Workspace(fs::path out, json identity)
    : out_(std::move(out)),
      folder_(out_ / kFolder),
      files_(folder_ / "files"),
      identity_(std::move(identity)) {
  const auto refuse_foreign_files = [&] {
    if (!holds_foreign_files()) return;
    throw GptqError("--out " + out_.string() +
                    " holds files already, and no unfinished run; name a new folder");
  };
  if (!fs::exists(folder_)) refuse_foreign_files();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw GptqError("--out " + out_.string() + " cannot be made: " + error.message());
  lock_ = ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    throw GptqError(folder_.string() +
                    " cannot be written to: " + std::generic_category().message(errno));
  }
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
      throw GptqError("another process is quantising into " + out_.string() + "; let it end first");
    // What a process that was killed in the middle of a write has left.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename().string().find(".tmp") != std::string::npos)
        fs::remove(entry.path());
    }
    fs::remove_all(files_);
    fs::create_directory(files_);
    load();
    if (done_.empty()) refuse_foreign_files();
  } catch (...) {  // the destructor does not run
    ::close(lock_);
    throw;
  }
}

Workspace::~Workspace() {
  if (done_.empty()) {  // nothing worth keeping
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    fs::remove(out_, ignored);  // if it is empty
  }
  ::close(lock_);
}

bool Workspace::holds_foreign_files() const {
  if (!fs::exists(out_)) return false;
  const fs::directory_iterator entries(out_);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename() != kFolder;
  });
}

fs::path Workspace::working(const std::string& shard) const {
  return folder_ / shard;
}

fs::path Workspace::finished(const std::string& shard) const {
  return fs::exists(folder_ / shard) ? folder_ / shard : out_ / shard;
}

bool Workspace::has_layer(int64_t layer) const {
  const auto found = done_.find(layer);
  if (found == done_.end()) return false;
  const fs::path file = finished(found->second.shard);
  std::error_code error;
  return fs::file_size(file, error) == found->second.bytes && !error &&
         crc_text(crc32_of_file(file)) == found->second.crc32;
}

void Workspace::finish_layer(const LayerReport& report, const std::string& shard) {
  const fs::path file = working(shard);
  done_[report.layer] = {shard, fs::file_size(file), crc_text(crc32_of_file(file)), report};
  save();
}

void Workspace::publish(const std::vector<std::string>& shards) const {
  const auto move = [&](const fs::path& from, const fs::path& name) {
    std::error_code error, ignored;
    fs::create_directories((out_ / name).parent_path(), ignored);
    fs::rename(from, out_ / name, error);
    if (error) {
      throw GptqError((out_ / name).string() + " cannot be made: " + error.message() +
                      "; mend that and run the same command again, nothing is lost");
    }
  };
  for (const std::string& shard : shards) {
    if (fs::exists(working(shard))) move(working(shard), shard);
  }
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(files_)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(files_));
  }
  // A folder without config.json is no model.
  std::partition(names.begin(), names.end(),
                 [](const fs::path& name) { return name != "config.json"; });
  for (const fs::path& name : names) move(files_ / name, name);
  formats::sync_folder(out_);
}

void Workspace::remove() {
  fs::remove_all(folder_);
  done_.clear();
}

void Workspace::load() {
  const fs::path file = folder_ / kState;
  if (!fs::exists(file)) return save();
  const std::string mend = "; remove " + folder_.string() + " to begin anew, or name another --out";
  json state;
  try {
    state = formats::read_json(file);
  } catch (const formats::FileError& error) {
    throw GptqError(error.what() + mend);
  }
  if (!state.is_object() || !state.contains("identity") || !state["identity"].is_object())
    throw GptqError(file.string() + " is damaged" + mend);
  if (state.value("layers", json::array()).empty()) return save();  // begun, and no more
  for (const auto& [key, value] : identity_.items()) {
    const json before = state["identity"].value(key, json::object());
    if (!before.is_object() || !before.contains("said") || !before["said"].is_string())
      throw GptqError(file.string() + " was written by another version of graft" + mend);
    if (before.value("value", json()) == value["value"]) continue;
    const std::string then = before["said"], now = value["said"];
    throw GptqError("--out " + out_.string() + " holds an unfinished run " +
                    (then == now
                         ? "from before " + now + " changed"
                         : "with " + then + ", and now it is " + now + "; give the same to go on") +
                    mend);
  }
  try {
    for (const json& layer : state.at("layers")) {
      Done done;
      layer.at("shard").get_to(done.shard);
      layer.at("bytes").get_to(done.bytes);
      layer.at("crc32").get_to(done.crc32);
      done.report = layer_of(layer.at("report"));
      done_[done.report.layer] = std::move(done);
    }
  } catch (const json::exception&) {
    throw GptqError(file.string() + " is damaged" + mend);
  }
}

void Workspace::save() const {
  json layers = json::array();
  for (const auto& [layer, done] : done_) {
    layers.push_back({{"shard", done.shard},
                      {"bytes", done.bytes},
                      {"crc32", done.crc32},
                      {"report", to_json(done.report)}});
  }
  formats::write_file((folder_ / kState).string(),
                      json{{"identity", identity_}, {"layers", layers}}.dump(1) + '\n');
}

}  // namespace graft::quantizer
