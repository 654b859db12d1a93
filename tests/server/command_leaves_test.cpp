#include "server/command_leaves.h"

#include <doctest/doctest.h>

#include "runtime/wire/message_fields.h"
#include "server/run_config.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::TempFolder;

TEST_SUITE("server/command_leaves") {
  TEST_CASE("every field of every message that a board sends is told of, in words") {
    size_t fields = 0;
    for (const char* message :
         {"Hello", "Push", "Ready", "Exchange", "Fetch", "Heartbeat", "Enrol"})
      for (const MessageField& field : message_fields(message)) {
        ++fields;
        CHECK_MESSAGE(meaning_of_field(message, field.name) != nullptr, message, ".", field.name);
      }
    CHECK(fields >= 57);
    CHECK(message_fields("Rows").empty());
  }

  TEST_CASE("what is shown has every tensor, the codec's bytes and what never leaves") {
    const TempFolder folder;
    const std::string run =
        "[model]\ninput = [4]\nclasses = 3\n[[layer]]\ntype = \"dense\"\nunits = 3\n"
        "[communication]\ncodec_up = \"raw32\"\n";
    const Result<std::string> shown = show_what_leaves(folder.write("run.toml", run));
    REQUIRE_MESSAGE(shown, shown.error().message());
    for (const char* words :
         {"dense", "raw32", "Exchange: every exchange", "evaluations.correct", "Never sent: rows"})
      CHECK_MESSAGE(shown->find(words) != std::string::npos, words, " in ", *shown);
    CHECK(shown->find("does not say") == std::string::npos);
    CHECK(shown->find("epsilon") == std::string::npos);
    CHECK_FALSE(show_what_leaves(folder.file("none.toml")));
  }

  TEST_CASE("of a private run it is told what the planned updates spend") {
    const TempFolder folder;
    const std::string run =
        "[model]\ninput = [4]\nclasses = 3\n[[layer]]\ntype = \"dense\"\nunits = 3\n"
        "[privacy]\nclip = 0.5\nnoise = 0.8\nepsilon_max = 300\n[communication]\nfreq = \"fixed\"\n"
        "[server]\nrounds = 200\n";
    const Result<std::string> shown = show_what_leaves(folder.write("run.toml", run));
    REQUIRE_MESSAGE(shown, shown.error().message());
    for (const char* words : {"length 0.5", "sd 0.4.", "200 updates  epsilon 238.7", "epsilon 300"})
      CHECK_MESSAGE(shown->find(words) != std::string::npos, words, " in ", *shown);
  }
}
