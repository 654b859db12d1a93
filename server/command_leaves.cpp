#include "server/command_leaves.h"

#include <algorithm>

#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/base/version.h"
#include "runtime/quant/codec.h"
#include "runtime/train/statistics.h"
#include "runtime/wire/message_fields.h"
#include "runtime/wire/messages.h"
#include "server/run_config.h"

namespace paceline {

namespace {

constexpr uint64_t kRunFileBytesMax = uint64_t{1} << 20;

struct Meaning {
  const char* message;
  const char* field;
  const char* text;
};
constexpr Meaning kMeanings[] = {
    {"Hello", "name", "the board's name"},
    {"Hello", "incarnation", "a random number, another one in each life of the program"},
    {"Hello", "protocol_min", "the oldest protocol that it speaks"},
    {"Hello", "protocol_max", "the newest"},
    {"Hello", "build", "the program's version"},
    {"Hello", "generation", "which model it holds"},
    {"Hello", "publication", "likewise"},
    {"Hello", "published_checksum", "of that model"},
    {"Hello", "last_settled", "number of its last update that was answered"},
    {"Hello", "pending_sequence", "number of one that was not"},
    {"Hello", "training_rows", "DATA: how many rows it trains on"},
    {"Hello", "held_out_rows", "DATA: how many it holds out"},
    {"Hello", "feature_count", "DATA: how many values a row has"},
    {"Hello", "class_count", "DATA: how many classes its labels have"},
    {"Push", "incarnation", "as in Hello"},
    {"Push", "sequence", "number of the update"},
    {"Push", "update_checksum", "of the whole update"},
    {"Push", "chunk", "which part of it this is"},
    {"Push", "chunk_count", "of how many"},
    {"Push", "payload", "DATA: the update: how the model moved on the board's rows, coded"},
    {"Ready", "incarnation", "as in Hello"},
    {"Ready", "round", "number of the round"},
    {"Ready", "steps", "local steps since its last update"},
    {"Exchange", "incarnation", "as in Hello"},
    {"Exchange", "sequence", "number of the update"},
    {"Exchange", "update_checksum", "of the update"},
    {"Exchange", "chunk_count", "parts of the update"},
    {"Exchange", "generation", "which model the update starts from"},
    {"Exchange", "base_publication", "likewise"},
    {"Exchange", "base_checksum", "of that model"},
    {"Exchange", "round", "number of the round"},
    {"Exchange", "steps", "local steps in the update"},
    {"Exchange", "clock", "local steps since it joined"},
    {"Exchange", "step_us", "how long a step takes it"},
    {"Exchange", "waited_us", "how long it had nothing to do"},
    {"Exchange", "training_loss_bits", "DATA: mean loss over the steps"},
    {"Exchange", "leaving", "whether it goes away"},
    {"Exchange", "evaluations", "of up to 8 models that it was sent:"},
    {"Exchange", "evaluations.publication", "number of the model"},
    {"Exchange", "evaluations.rows", "DATA: held-out rows that it was tried on"},
    {"Exchange", "evaluations.correct",
     "DATA: how many were right; of numbers, how much of their spread was met"},
    {"Exchange", "evaluations.loss_fixed16", "DATA: their loss, summed"},
    {"Exchange", "push_us", "how long sending took"},
    {"Exchange", "fetch_us", "how long fetching took"},
    {"Exchange", "update_norm_bits", "DATA: length of the update"},
    {"Exchange", "coded_norm_bits", "DATA: length of it with what earlier ones left"},
    {"Exchange", "residual_norm_bits", "DATA: length of what is left for later"},
    {"Exchange", "statistic_rows",
     "DATA: with batch_norm, rows that it has seen since the last one"},
    {"Exchange", "statistic_bits", "DATA: their mean and spread in each of its channels"},
    {"Fetch", "generation", "which model it holds"},
    {"Fetch", "from", "likewise"},
    {"Fetch", "to", "which one it wants"},
    {"Fetch", "chunk", "which part of it"},
    {"Fetch", "exact", "whether it needs it whole"},
    {"Heartbeat", "incarnation", "as in Hello"},
    {"Heartbeat", "clock", "local steps since it joined"},
    {"Heartbeat", "round", "number of the round"},
    {"Heartbeat", "step_us", "how long a step takes it"},
    {"Heartbeat", "resting", "whether it rests"},
    {"Enrol", "secret", "the one-time code"},
    {"Enrol", "public_key", "the public half of its key"},
};

struct Sent {
  Message message;
  std::string when;
};

// Length of a text or list in the example.
size_t bytes_of(const Message& message, std::string_view field) {
  if (const auto* hello = std::get_if<Hello>(&message))
    return field == "name" ? hello->name.size() : field == "build" ? hello->build.size() : 0;
  if (const auto* push = std::get_if<Push>(&message))
    return field == "payload" ? push->payload.size() : 0;
  if (const auto* exchange = std::get_if<Exchange>(&message))
    return field == "statistic_bits" ? exchange->statistics.size() * sizeof(float) : 0;
  if (const auto* enrol = std::get_if<Enrol>(&message))
    return field == "secret" ? enrol->secret.size() : enrol->public_key.size();
  return 0;
}

std::string message_text(const Sent& sent) {
  const char* name = message_name(sent.message);
  std::string text = format_text("\n%s: %s; %zu bytes\n", name, sent.when.c_str(),
                                 encode({1, sent.message}).size());
  for (const MessageField& field : message_fields(name)) {
    const size_t bytes = field.bytes > 0 ? field.bytes : bytes_of(sent.message, field.name);
    const char* meaning = meaning_of_field(name, field.name);
    text += format_text("  %-24s %7s  %s\n", field.name.c_str(),
                        bytes > 0 ? std::to_string(bytes).c_str() : "",
                        meaning != nullptr ? meaning : "(this program does not say)");
  }
  return text;
}

// Of any update: how long it is depends on its values with sparse codecs only.
EncodedUpdate example_update(const ParameterLayout& layout, CodecId codec) {
  Random random(1, 0);
  std::vector<float> update(static_cast<size_t>(layout.element_count()));
  for (const TensorSpec& tensor : layout.tensors())
    for (uint64_t i = 0; i < tensor.count; ++i)
      update[static_cast<size_t>(tensor.offset + i)] = random.symmetric();
  std::vector<float> residual(update.size());
  EncodedUpdate encoded;
  static_cast<void>(encode_update(layout, codec, {1, 1}, update, residual, &encoded));
  return encoded;
}

std::string update_text(const ServerOptions& options, const EncodedUpdate& update) {
  const ParameterLayout& layout = options.run.model.layout;
  std::string text = format_text("The update, %llu numbers of the model and none of a row:\n",
                                 static_cast<unsigned long long>(layout.parameter_count()));
  for (const TensorSpec& tensor : layout.tensors())
    text += format_text("  %-24s %9llu\n", tensor.name.c_str(),
                        static_cast<unsigned long long>(tensor.count));
  const CodecInfo& info = codec_info(update.codec);
  text += format_text("  coded as %s, %.4g bits a number: %zu bytes in %zu part%s\n", info.name,
                      info.bits_per_element, update.bytes(), update.chunks.size(),
                      update.chunks.size() == 1 ? "" : "s");
  if (options.codec_up_auto)
    text += format_text("  or as another codec, by the link; raw32, the longest, makes %zu bytes\n",
                        example_update(layout, CodecId::kRaw32).bytes());
  return text;
}

// `rounds`: as many updates of a board are planned; 0: no plan.
std::string privacy_text(const PrivacySpec& privacy, uint64_t rounds) {
  std::string text = format_text(
      "Before it is coded an update is shortened to length %g, and each number gets noise of\n"
      "sd %g. Training loss and evaluations stay on the board; lengths are of what has noise; how\n"
      "many rows it has is said as it is. What updates tell of whether a board had learned\n"
      "anything, and of which of two sets of rows it has, at delta %g:\n",
      privacy.clip, privacy.clip * privacy.noise, privacy.delta);
  PrivacySpec of_two = privacy;
  of_two.noise /= 2;
  std::vector<uint64_t> counts = {1, 100, 1000, 10'000};
  if (rounds > 0) counts = {rounds};
  for (const uint64_t count : counts)
    text += format_text("  %6llu update%s  epsilon %.4g  of two sets %.4g%s\n",
                        static_cast<unsigned long long>(count), count == 1 ? " " : "s",
                        spent_epsilon(privacy, count), spent_epsilon(of_two, count),
                        rounds > 0 ? ", as planned" : "");
  if (privacy.epsilon_max > 0)
    text += format_text("A board that would pass epsilon %g leaves.\n", privacy.epsilon_max);
  return text;
}

// Every number is set: one that is 0 takes no room.
std::vector<Sent> messages_of(const ServerOptions& options, const EncodedUpdate& update) {
  const Enrol enrol{Bytes(10), Bytes(91)};  // a code's half; a P-256 key
  const Hello hello{"greenhouse", 1, 1, 1, kVersionText, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const Heartbeat beat{1, 1, 1, 1, true};
  const Push push{1, 1, 1, 1, 1, update.chunks.front()};
  const std::vector<float> seen(statistic_count(options.run.model.layout), 1.0f);
  Exchange exchange{1, 1, 1, 1, 1, 1, 1,   1, 1, 1, 1, 1, 1, true, {{1, 1, 1, 1}},
                    1, 1, 1, 1, 1, 1, seen};
  if (options.run.privacy) {
    exchange.training_loss = 0;
    exchange.evaluations.clear();
  }
  const size_t parts = update.chunks.size();
  std::vector<Sent> messages = {
      {enrol, "once, to join a fleet"},
      {hello, "at each connection"},
      {beat, format_text("every %.3g s", options.heartbeat_ms / 1e3)},
      {push, parts == 1 ? std::string("every exchange")
                        : format_text("%zu in every exchange, this is the first", parts)},
      {exchange, "every exchange"},
      {Fetch{1, 1, 1, 1, true}, "after an exchange, for each part of the model"}};
  if (options.pace.starts_with("compat"))
    messages.insert(messages.begin() + 3, {Ready{1, 1, 1}, "once a round"});
  return messages;
}

}  // namespace

const char* meaning_of_field(std::string_view message, std::string_view field) {
  const auto found = std::ranges::find_if(kMeanings, [&](const Meaning& meaning) {
    return message == meaning.message && field == meaning.field;
  });
  return found == std::end(kMeanings) ? nullptr : found->text;
}

Result<std::string> show_what_leaves(const std::string& run_file) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(run_file, kRunFileBytesMax));
  PACELINE_ASSIGN(
      const ServeConfig config,
      parse_serve_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, run_file));
  const ServerOptions& options = config.core;
  const EncodedUpdate update = example_update(options.run.model.layout, options.codec_up);
  std::string text =
      "A board of this run talks to its server and to nobody else. It sends these messages; what "
      "says\nsomething of its rows is marked DATA. Sizes are bytes, the last ones of a line those "
      "of "
      "a whole message.\n\n" +
      update_text(options, update);
  if (options.run.privacy) text += privacy_text(*options.run.privacy, config.rounds);
  for (const Sent& sent : messages_of(options, update)) text += message_text(sent);
  text +=
      "\nNever sent: rows, labels, single predictions, names of its files, columns or classes, its "
      "clock, its\nprivate key. Names of columns and classes go the other way, in the run's "
      "description.\nWhat an update tells of rows, and to whom: docs/privacy.md.\n";
  return text;
}

}  // namespace paceline
