// What a journal costs a server: exchanges a second of eight workers whose updates have 100 kB,
// with and without journal, plain and under TLS; beside it the same messages without a server's
// core.
//
// Workers only send and fetch, so it is the server and the transport that are measured; both ends
// share the machine. What is compared is taken in turns.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/net/transport.h"
#include "runtime/quant/codec.h"
#include "runtime/trust/certificate_issue.h"
#include "runtime/wire/messages.h"
#include "server/daemon.h"
#include "server/fleet_folder.h"

namespace {

using namespace paceline;

constexpr const char* kRun =
    "[model]\ninput = [100]\nclasses = 1000\n[[layer]]\ntype = \"dense\"\nunits = 1000\n"
    "[communication]\npace = \"asp\"\nfreq = \"fixed:1\"\ncodec_up = \"q8\"\ncodec_down = \"q8\"\n";
constexpr int64_t kValidToS = 4'000'000'000;
constexpr TimeUs kAnswerUs = from_ms(30'000);

struct Options {
  uint32_t workers = 8;
  double seconds = 2;  // of each measurement
  int repeats = 5;
  std::string folder;  // of the state; its disk is what is synced
  bool json = false;
};

struct Case {
  const char* name;
  bool core;  // a server; otherwise the transport alone
  bool journal;
  bool secure;
};
constexpr std::array kCases = {
    Case{"transport alone", false, false, false}, Case{"no journal", true, false, false},
    Case{"journal", true, true, false},           Case{"transport alone, TLS", false, false, true},
    Case{"no journal, TLS", true, false, true},   Case{"journal, TLS", true, true, true},
};

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "bench_journal: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  return std::move(*result);
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_journal: %s\n", status.message().c_str());
  std::exit(1);
}

std::string name_of(uint32_t worker) { return format_text("worker%u", worker); }

// A fleet of so many workers, on its list.
std::vector<TlsOptions> make_fleet(const std::string& folder, uint32_t workers) {
  must(FleetFolder::make(folder, {}, 1));
  const FleetFolder fleet = must(FleetFolder::open(folder));
  std::vector<TlsOptions> certificates;
  must(fleet.update([&](FleetList* list) -> Status {
    for (uint32_t i = 0; i < workers; ++i) {
      const KeyPair key = must(make_key());
      CertificateContent content;
      content.name = name_of(i);
      content.valid_to_s = kValidToS;
      const std::string pem = must(issue_certificate(content, key.public_der, fleet.authority()));
      const CertificateFacts facts = must(read_certificate(pem));
      list->enlist({.name = name_of(i),
                    .key = to_hex(facts.key),
                    .serial = facts.serial,
                    .enrolled_at_s = 1,
                    .revoked_at_s = 0});
      certificates.push_back({.certificate = pem,
                              .key = key.private_pem,
                              .authority = fleet.authority().certificate_pem,
                              .server_name = kServerName});
    }
    return {};
  }));
  return certificates;
}

// Any update of the run's model, as long as all others.
Bytes example_payload(const ParameterLayout& layout) {
  PACELINE_CHECK(layout.chunk_count() == 1);
  Random random(1, 0);
  std::vector<float> update(layout.element_count());
  for (const TensorSpec& tensor : layout.tensors())
    for (uint64_t i = 0; i < tensor.count; ++i)
      update[static_cast<size_t>(tensor.offset + i)] = random.symmetric() * 1e-3f;
  std::vector<float> residual(update.size());
  EncodedUpdate encoded;
  must(encode_update(layout, CodecId::kQ8, {1, 1}, update, residual, &encoded));
  return encoded.chunks.front();
}

// Answers as a server would, with as many bytes.
class Echo {
 public:
  Echo(std::unique_ptr<Listener> listener, const Bytes& payload)
      : listener_(std::move(listener)),
        payload_(payload),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  std::string address() const { return listener_->address(); }

 private:
  void run(const std::stop_token& stop) {
    Request request;
    while (!stop.stop_requested()) {
      if (!listener_->receive(&request, monotonic_now_us() + from_ms(50))) continue;
      const Result<Envelope> asked = decode(request.message);
      if (asked) request.responder->reply(encode({1, answer(asked->message)}));
    }
  }
  Message answer(const Message& message) {
    if (const auto* push = std::get_if<Push>(&message)) return Got{push->sequence, push->chunk};
    if (std::holds_alternative<Hello>(message)) {
      Welcome welcome;
      welcome.session = welcome.publication = 1;
      return welcome;
    }
    if (const auto* fetch = std::get_if<Fetch>(&message)) {
      Fetched fetched;
      fetched.from = fetch->from;
      fetched.publication = fetch->from + 1;
      fetched.chunk_count = 1;
      fetched.payload = payload_;
      return fetched;
    }
    Granted granted;
    if (const auto* exchange = std::get_if<Exchange>(&message))
      granted.publication = exchange->base_publication + 1;
    return granted;
  }

  std::unique_ptr<Listener> listener_;
  const Bytes& payload_;
  std::jthread thread_;
};

// One worker that exchanges all the time.
class Client {
 public:
  Client(uint32_t number, const std::string& address, const std::optional<TlsOptions>& tls,
         const Bytes& payload)
      : channel_(must(dial_nng({.address = address, .link = {}, .tls = tls}))),
        name_(name_of(number)),
        payload_(payload) {}

  void join() {
    Hello hello;
    hello.name = name_;
    hello.incarnation = 1;
    hello.training_rows = 100;
    hello.held_out_rows = 20;
    hello.feature_count = 100;
    hello.class_count = 1000;
    const TimeUs deadline = monotonic_now_us() + kAnswerUs;
    while (session_ == 0) {
      // The list may not be known to the server yet.
      const std::optional<Message> answer = ask(hello);
      const Welcome* welcome = answer ? std::get_if<Welcome>(&*answer) : nullptr;
      PACELINE_CHECK(monotonic_now_us() < deadline);
      if (welcome == nullptr) continue;
      session_ = welcome->session;
      generation_ = welcome->generation;
      publication_ = welcome->publication;
      checksum_ = welcome->checksum;
      sequence_ = welcome->next_sequence;
    }
  }
  void exchange() {
    const Push push{.incarnation = 1,
                    .sequence = sequence_,
                    .update_checksum = crc32c(payload_),
                    .chunk = 0,
                    .chunk_count = 1,
                    .payload = payload_};
    PACELINE_CHECK(ask(push));
    Exchange exchange;
    exchange.incarnation = 1;
    exchange.sequence = sequence_++;
    exchange.update_checksum = push.update_checksum;
    exchange.chunk_count = 1;
    exchange.generation = generation_;
    exchange.base_publication = publication_;
    exchange.base_checksum = checksum_;
    exchange.steps = 1;
    exchange.step_us = 1000;
    std::optional<Message> answer = ask(exchange);
    while (answer && std::holds_alternative<Wait>(*answer)) answer = ask(exchange);
    const Granted* granted = answer ? std::get_if<Granted>(&*answer) : nullptr;
    PACELINE_CHECK(granted != nullptr);
    const uint64_t to = granted->publication;
    checksum_ = granted->checksum;
    while (publication_ < to) {
      answer = ask(Fetch{.generation = generation_, .from = publication_, .to = to});
      const Fetched* fetched = answer ? std::get_if<Fetched>(&*answer) : nullptr;
      PACELINE_CHECK(fetched != nullptr);
      publication_ = fetched->publication;
    }
  }

 private:
  std::optional<Message> ask(Message message) {
    const uint64_t request =
        channel_->send(Lane::kExchange, encode({session_, std::move(message)}), kAnswerUs);
    Reply reply;
    while (channel_->receive(&reply, monotonic_now_us() + kAnswerUs)) {
      if (reply.request != request) continue;
      Result<Envelope> envelope = reply.status.ok() ? decode(reply.message) : fail(reply.status);
      if (!envelope) return std::nullopt;
      return std::move(envelope->message);
    }
    return std::nullopt;
  }

  std::unique_ptr<Channel> channel_;
  std::string name_;
  const Bytes& payload_;
  uint64_t session_ = 0, generation_ = 0, publication_ = 0, sequence_ = 0;
  uint32_t checksum_ = 0;
};

// Exchanges a second of all workers together.
double rate_of(const std::string& address, const std::vector<TlsOptions>& certificates,
               const Options& options, const Bytes& payload, bool secure) {
  std::vector<Client> clients;
  for (uint32_t i = 0; i < options.workers; ++i)
    clients.emplace_back(i, address, secure ? std::optional(certificates[i]) : std::nullopt,
                         payload);
  for (Client& client : clients) client.join();
  for (Client& client : clients) client.exchange();  // all are members from now on
  std::atomic<uint64_t> count = 0;
  const TimeUs began = monotonic_now_us();
  const TimeUs end = began + static_cast<TimeUs>(options.seconds * 1e6);
  {
    std::vector<std::jthread> threads;
    for (Client& client : clients)
      threads.emplace_back([&] {
        while (monotonic_now_us() < end) {
          client.exchange();
          ++count;
        }
      });
  }
  return static_cast<double>(count) / to_seconds(monotonic_now_us() - began);
}

double measure(const Case& what, const std::string& folder, const Options& options) {
  std::filesystem::create_directories(folder);
  ServeConfig config = must(parse_serve_config(kRun, "the benchmark's run"));
  const Bytes payload = example_payload(config.core.run.model.layout);
  std::vector<TlsOptions> certificates;
  if (what.secure) {
    config.fleet_folder = folder + "/fleet";
    certificates = make_fleet(config.fleet_folder, options.workers);
  }
  const std::string address = what.secure ? "tls+tcp://127.0.0.1:0" : "tcp://127.0.0.1:0";
  if (!what.core) {
    ListenOptions listen{.address = address};
    if (what.secure) listen.tls = must(FleetFolder::open(config.fleet_folder)).server_tls();
    const Echo echo(must(listen_nng(listen)), payload);
    return rate_of(echo.address(), certificates, options, payload, what.secure);
  }
  config.listen = address;
  config.enrol_listen = address;
  config.state_folder = folder + "/state";
  config.journal = what.journal ? Recording::kRecovery : Recording::kOff;
  const std::unique_ptr<ServerDaemon> daemon = must(ServerDaemon::make(std::move(config)));
  std::jthread server([&] { must(daemon->run([](const ServerDaemon&) {})); });
  const double rate = rate_of(daemon->address(), certificates, options, payload, what.secure);
  daemon->stop(ServerDaemon::Stop::kSuspend);
  return rate;
}

bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = word != "--json" && i + 1 < argc ? argv[++i] : "";
    if (word == "--json")
      options->json = true;
    else if (word == "--workers")
      options->workers = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    else if (word == "--seconds")
      options->seconds = std::strtod(value, nullptr);
    else if (word == "--repeats")
      options->repeats = std::atoi(value);
    else if (word == "--folder")
      options->folder = value;
    else
      return false;
  }
  return options->workers > 0 && options->seconds > 0 && options->repeats > 0;
}

void print(const std::array<std::vector<double>, kCases.size()>& rates, bool json) {
  const auto median = [](const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; };
  for (size_t i = 0; i < kCases.size(); ++i) {
    // The journal's cost, against the case before it.
    const double cost = kCases[i].journal ? 1 - median(rates[i]) / median(rates[i - 1]) : 0;
    const char* form =
        json ? "{\"case\":\"%s\",\"exchanges_per_second\":%.1f,\"lowest\":%.1f,\"highest\":%.1f,"
               "\"journal_cost\":%.3f,\"compiler\":\"%s\"}\n"
             : "%-22s %8.1f exchanges/s (%.1f to %.1f), the journal's share %.3f, compiler %s\n";
    std::printf(form, kCases[i].name, median(rates[i]), rates[i].front(), rates[i].back(), cost,
                __VERSION__);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) {
    std::fputs("bench_journal [--workers N] [--seconds S] [--repeats N] [--folder F] [--json]\n",
               stderr);
    return 2;
  }
  set_log_level(LogLevel::kError);
  std::string folder = options.folder;
  if (folder.empty()) folder = std::filesystem::temp_directory_path().string();
  folder += "/paceline-bench-XXXXXX";
  PACELINE_CHECK(mkdtemp(folder.data()) != nullptr);
  std::array<std::vector<double>, kCases.size()> rates;
  for (int repeat = 0; repeat < options.repeats; ++repeat)
    for (size_t i = 0; i < kCases.size(); ++i)
      rates[i].push_back(
          measure(kCases[i], format_text("%s/%d.%zu", folder.c_str(), repeat, i), options));
  for (std::vector<double>& of_case : rates) std::ranges::sort(of_case);
  print(rates, options.json);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
