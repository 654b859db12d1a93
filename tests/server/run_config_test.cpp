#include "server/run_config.h"

#include <doctest/doctest.h>

using namespace paceline;

namespace {

const std::string kModel =
    "[model]\ninput = [4]\nclasses = 3\n[[layer]]\ntype = \"dense\"\nunits = 3\n";

// The message of a text that is refused, after the model's six lines.
std::string message(const std::string& rest) {
  const Result<ServeConfig> serve = parse_serve_config(kModel + rest, "run.toml");
  REQUIRE_FALSE(serve.has_value());
  CHECK(serve.error().code() == Code::kInvalidArgument);
  return serve.error().message();
}

}  // namespace

TEST_SUITE("server/run_config") {
  TEST_CASE("the example that is printed is a run that starts") {
    const Result<ServeConfig> serve = parse_serve_config(kExampleRun, "example");
    REQUIRE_MESSAGE(serve.has_value(), (serve ? "" : serve.error().message()));
    CHECK(serve->core.run.model.class_count == 10);
    CHECK(serve->core.run_text == kExampleRun);
    CHECK(serve->listen == "tcp://0.0.0.0:7433");
    CHECK(serve->state_folder == "paceline-state");
    CHECK(ServerCore::make(serve->core).has_value());
  }

  TEST_CASE("the example shows the defaults: a bare model is the same run") {
    const ServeConfig bare = parse_serve_config(kModel, "run.toml").value();
    const ServeConfig example = parse_serve_config(kExampleRun, "example").value();
    CHECK(bare.core.pace == example.core.pace);
    CHECK(bare.core.freq == example.core.freq);
    CHECK(bare.core.codec_up == example.core.codec_up);
    CHECK(bare.core.codec_down == example.core.codec_down);
    CHECK(bare.core.rate_end == example.core.rate_end);
    CHECK(bare.core.min_workers == example.core.min_workers);
    CHECK(bare.core.heartbeat_ms == example.core.heartbeat_ms);
    CHECK(bare.core.exchange_deadline_ms == example.core.exchange_deadline_ms);
    CHECK(bare.checkpoint_ms == example.checkpoint_ms);
    CHECK(bare.listen == example.listen);
  }

  TEST_CASE("every setting is read") {
    const ServeConfig serve =
        parse_serve_config(
            kModel +
                "[communication]\npace = \"ssp:2\"\nfreq = \"fixed:8\"\n"
                "codec_up = \"q8\"\ncodec_down = \"bf16\"\nrate_end = 0.5\n"
                "warmup_publications = 9\n"
                "[server]\nlisten = \"127.0.0.1:0\"\nstate = \"s\"\n"
                "start = \"m.safetensors\"\ncheckpoint_ms = 5\nmin_workers = 3\nheartbeat_ms = 50\n"
                "exchange_deadline_ms = 700\nseconds = 12.5\nrounds = 77\n",
            "run.toml")
            .value();
    CHECK(serve.core.pace == "ssp:2");
    CHECK(serve.core.freq == "fixed:8");
    CHECK(serve.core.codec_up == CodecId::kQ8);
    CHECK(serve.core.codec_down == CodecId::kBf16);
    CHECK(serve.core.rate_end == 0.5);
    CHECK(serve.core.warmup_publications == 9);
    CHECK(serve.listen == "tcp://127.0.0.1:0");
    CHECK(serve.state_folder == "s");
    CHECK(serve.start_file == "m.safetensors");
    CHECK(serve.checkpoint_ms == 5);
    CHECK(serve.core.min_workers == 3);
    CHECK(serve.core.heartbeat_ms == 50);
    CHECK(serve.core.exchange_deadline_ms == 700);
    CHECK(serve.seconds == 12.5);
    CHECK(serve.rounds == 77);
  }

  TEST_CASE("an unknown table or key is refused with its place and the nearest name") {
    CHECK(message("[comunication]\npace = \"bsp\"\n") ==
          "run.toml:7:1: no table is named 'comunication'; did you mean 'communication'?");
    CHECK(message("[communication]\npaec = \"bsp\"\n") ==
          "run.toml:8:1: [communication] has no key 'paec'; did you mean 'pace'?");
    CHECK(message("[server]\n\nmin_worker = 1\n") ==
          "run.toml:9:1: [server] has no key 'min_worker'; did you mean 'min_workers'?");
    CHECK(message("[training]\nrat = 0.1\n").find(":8:1: ") != std::string::npos);
  }

  TEST_CASE("a value that can't be is refused, with its place or the names that there are") {
    CHECK(message("[server]\nmin_workers = 0\n").find("run.toml:8:15: server.min_workers") == 0);
    CHECK(message("[server]\nheartbeat_ms = \"1 s\"\n").find("run.toml:8:16:") == 0);
    CHECK(message("[communication]\nrate_end = 2\n").find("run.toml:8:12:") == 0);
    CHECK(message("[communication]\ncodec_up = \"s1x\"\n").find("s1r") != std::string::npos);
    CHECK_FALSE(message("[server]\nlisten = \"udp://a\"\n").empty());
    CHECK(message("[training]\noptimizer = \"adam\"\n[communication]\ncodec_up = \"s1\"\n")
              .find("run.toml:10:12: codec_up s1 moves all weights") == 0);
  }

  TEST_CASE("a private run has no batch_norm, whose statistics are exact") {
    const std::string privacy = "[privacy]\nclip = 0.1\nnoise = 1\n";
    const Result<ServeConfig> serve = parse_serve_config(kModel + privacy, "run.toml");
    REQUIRE(serve.has_value());
    REQUIRE(serve->core.run.privacy.has_value());
    CHECK(serve->core.run.privacy->noise == 1);
    const Result<ServeConfig> exact =
        parse_serve_config(kModel + "[[layer]]\ntype = \"batch_norm\"\n" + privacy, "run.toml");
    REQUIRE_FALSE(exact.has_value());
    CHECK(exact.error().message().find("batch_norm sends") != std::string::npos);
  }

  TEST_CASE("a text that is too long to be sent to workers is refused") {
    CHECK(message("#" + std::string(kRunTextBytesMax, 'x')).find("run.toml: ") == 0);
  }
}
