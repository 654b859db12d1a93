#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "server/report/summary.h"

namespace paceline {

namespace {

using Json = nlohmann::ordered_json;

Json run_json(const RunSummary& run) {
  Json waiting = Json::object();
  Json steps = Json::object();
  for (const WorkerSummary& worker : run.workers) {
    waiting[worker.name] = worker.waiting_share;
    steps[worker.name] = worker.training_steps;
  }
  Json curve = Json::array();
  for (const CurvePoint& point : run.curve)
    curve.push_back({{"seconds", point.seconds},
                     {"bytes_total", point.bytes_total},
                     {"accuracy", point.accuracy},
                     {"loss", point.loss}});
  Json codecs = Json::array();
  for (const CodecChange& change : run.codecs)
    codecs.push_back({{"seconds", change.seconds},
                      {"up", change.up},
                      {"down", change.down},
                      {"reason_up", change.reason_up},
                      {"reason_down", change.reason_down}});
  Json reached(nullptr);
  if (const CurvePoint* point = first_reaching(run, run.target_accuracy))
    reached = {{"accuracy", run.target_accuracy},
               {"seconds", point->seconds},
               {"bytes_total", point->bytes_total}};
  return {{"name", run.name},
          {"accuracy", run.accuracy},
          {"late_control_accuracy", late_accuracy(run)},
          {"reached", reached},
          {"seconds", run.seconds},
          {"bytes_up", run.bytes_up},
          {"bytes_down", run.bytes_down},
          {"exchanges", run.exchanges},
          {"rounds", run.rounds},
          {"waiting_share", waiting},
          {"training_steps", steps},
          {"model_checksum", run.model_checksum},
          {"settings",
           {{"pace", run.settings.pace},
            {"freq", run.settings.freq},
            {"codec_up", run.settings.codec_up},
            {"codec_down", run.settings.codec_down},
            {"link", run.settings.link},
            {"seed", run.settings.seed}}},
          {"codecs", codecs},
          {"curve", curve}};
}

}  // namespace

std::string summary_json(const RunSummary& run, const RunSummary* baseline) {
  Json json = run_json(run);
  json["baseline"] = baseline != nullptr ? run_json(*baseline) : Json(nullptr);
  // A worker's name may be no UTF-8: replaced, because dump() would throw.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status write_summary(const std::string& path, const RunSummary& run, const RunSummary* baseline) {
  const std::string text = summary_json(run, baseline);
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace paceline
