#include "server/report/run_record.h"

#include <nlohmann/json.hpp>

namespace paceline {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_of(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

Json target_json(const TargetRecord& target) {
  return {{"accuracy", target.accuracy},
          {"seconds", number(target.seconds)},
          {"bytes", target.bytes},
          {"exchanges", target.exchanges}};
}

Json decision_json(const RecordDecision& decision) {
  return {{"seconds", decision.seconds}, {"pace", decision.pace},
          {"tau", decision.tau},         {"up", decision.codec_up},
          {"down", decision.codec_down}, {"reasons", decision.reasons}};
}

RecordDecision read_decision(const Json& json) {
  return {json.at("seconds").get<double>(),   json.at("pace").get<std::string>(),
          json.at("tau").get<uint32_t>(),     json.at("up").get<std::string>(),
          json.at("down").get<std::string>(), json.at("reasons").get<std::vector<std::string>>()};
}

RunRecord read_record(const Json& json) {
  RunRecord record;
  record.point = json.at("point").get<size_t>();
  for (const auto& [key, value] : json.at("settings").items())
    record.settings.emplace_back(key, value.get<std::string>());
  record.seed = json.at("seed").get<uint64_t>();
  record.seconds = json.at("seconds").get<double>();
  record.final_accuracy = number_of(json.at("final_accuracy"));
  record.best_accuracy = number_of(json.at("best_accuracy"));
  for (const Json& target : json.at("targets"))
    record.targets.push_back({target.at("accuracy").get<double>(), number_of(target.at("seconds")),
                              target.at("bytes").get<uint64_t>(),
                              target.at("exchanges").get<uint64_t>()});
  record.bytes_up = json.at("bytes_up").get<uint64_t>();
  record.bytes_down = json.at("bytes_down").get<uint64_t>();
  record.exchanges = json.at("exchanges").get<uint64_t>();
  record.rounds = json.at("rounds").get<uint64_t>();
  record.steps = json.at("steps").get<uint64_t>();
  record.refused = json.at("refused").get<uint64_t>();
  record.discarded = json.at("discarded").get<uint64_t>();
  record.waiting_share = json.at("waiting_share").get<double>();
  record.checksum = json.at("model_checksum").get<std::string>();
  record.broken = json.at("broken").get<std::string>();
  for (const Json& decision : json.at("decisions"))
    record.decisions.push_back(read_decision(decision));
  for (const Json& point : json.at("curve"))
    record.curve.push_back({point.at(0).get<double>(), point.at(1).get<uint64_t>(),
                            point.at(2).get<uint64_t>(), number_of(point.at(3)),
                            number_of(point.at(4))});
  return record;
}

}  // namespace

TargetRecord target_record(const std::vector<RecordPoint>& curve, double accuracy) {
  for (size_t i = 2; i < curve.size(); ++i) {
    const RecordPoint& point = curve[i];
    if ((curve[i - 2].accuracy + curve[i - 1].accuracy + point.accuracy) / 3 >= accuracy)
      return {accuracy, point.seconds, point.bytes, point.exchanges};
  }
  return {accuracy, NAN, 0, 0};
}

std::string record_json(const RunRecord& record) {
  Json settings = Json::object(), targets = Json::array(), curve = Json::array(),
       decisions = Json::array();
  for (const auto& [key, value] : record.settings) settings[key] = value;
  for (const TargetRecord& target : record.targets) targets.push_back(target_json(target));
  for (const RecordDecision& decision : record.decisions)
    decisions.push_back(decision_json(decision));
  for (const RecordPoint& point : record.curve)
    curve.push_back(Json::array(
        {point.seconds, point.bytes, point.exchanges, number(point.accuracy), number(point.loss)}));
  const Json json = {{"point", record.point},
                     {"settings", settings},
                     {"seed", record.seed},
                     {"seconds", record.seconds},
                     {"final_accuracy", number(record.final_accuracy)},
                     {"best_accuracy", number(record.best_accuracy)},
                     {"targets", targets},
                     {"bytes_up", record.bytes_up},
                     {"bytes_down", record.bytes_down},
                     {"exchanges", record.exchanges},
                     {"rounds", record.rounds},
                     {"steps", record.steps},
                     {"refused", record.refused},
                     {"discarded", record.discarded},
                     {"waiting_share", record.waiting_share},
                     {"model_checksum", record.checksum},
                     {"broken", record.broken},
                     {"decisions", decisions},
                     {"curve", curve}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RunRecord> parse_record(std::string_view json) {
  try {
    return read_record(Json::parse(json));
  } catch (const Json::exception& error) {
    return fail(Code::kCorrupt, "not a run's line: %s", error.what());
  }
}

}  // namespace paceline
