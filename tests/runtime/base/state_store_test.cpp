#include "runtime/base/state_store.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/files.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::TempFolder;

namespace {

Bytes state_of(char letter, size_t length = 40) {
  return Bytes(length, static_cast<std::byte>(letter));
}

Bytes bytes_of(const std::string& path) { return read_file(path, 1 << 20).value(); }

bool exists(const std::string& path) { return std::filesystem::exists(path); }

// A folder with the states 'a' (older, in state.b) and 'b' (newer, in state.a).
void two_generations(const std::string& folder) {
  StateStore store = StateStore::open(folder, "state").value();
  REQUIRE(store.save(state_of('a'), false).ok());
  REQUIRE(store.save(state_of('b'), true).ok());
}

Result<std::optional<StateStore::Found>> load(const std::string& folder) {
  StateStore store = StateStore::open(folder, "state").value();
  return store.load();
}

}  // namespace

TEST_SUITE("base/state_store") {
  TEST_CASE("a new folder is made and holds nothing; what is saved last is loaded") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    CHECK_FALSE(load(path)->has_value());
    two_generations(path);
    const StateStore::Found found = load(path)->value();
    CHECK(found.state == state_of('b'));
    CHECK(found.exact);
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
  }

  TEST_CASE("every change of a byte of the newest file is noticed: the older one serves") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    two_generations(path);
    const Bytes whole = bytes_of(path + "/state.a");
    for (size_t i = 0; i < whole.size(); ++i) {
      Bytes changed = whole;
      changed[i] ^= static_cast<std::byte>(1u << (i % 8));
      folder.write("state/state.a", changed);
      const Result<std::optional<StateStore::Found>> found = load(path);
      REQUIRE(found.has_value());
      CHECK((*found)->state == state_of('a'));
      CHECK_FALSE((*found)->exact);
      CHECK_FALSE(exists(path + "/state.a"));
      CHECK(bytes_of(path + "/state.a.bad") == changed);
    }
  }

  TEST_CASE("every truncation of the newest file, and every tail, is noticed") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    two_generations(path);
    const Bytes whole = bytes_of(path + "/state.a");
    for (size_t length = 0; length <= whole.size() + 1; ++length) {
      if (length == whole.size()) continue;
      Bytes changed = whole;
      changed.resize(length);
      folder.write("state/state.a", changed);
      CHECK((*load(path))->state == state_of('a'));
      CHECK(exists(path + "/state.a.bad"));
    }
  }

  TEST_CASE("after a fallback the next state takes the broken one's place and is the newest") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    two_generations(path);
    folder.write("state/state.a", "torn");
    {
      StateStore store = StateStore::open(path, "state").value();
      REQUIRE(store.load()->value().state == state_of('a'));
      REQUIRE(store.save(state_of('c'), false).ok());
    }
    CHECK(load(path)->value().state == state_of('c'));
    CHECK(exists(path + "/state.b"));  // and the older one is still there
  }

  TEST_CASE("with both broken the error names the folder, and both files are kept aside") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    two_generations(path);
    folder.write("state/state.a", "torn");
    folder.write("state/state.b", "torn");
    const Result<std::optional<StateStore::Found>> found = load(path);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code() == Code::kCorrupt);
    CHECK(found.error().message().find(path) != std::string::npos);
    CHECK(exists(path + "/state.a.bad"));
    CHECK(exists(path + "/state.b.bad"));
  }

  TEST_CASE("states of both slots alternate, and a long life keeps two files") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    StateStore store = StateStore::open(path, "state").value();
    for (char letter = 'a'; letter <= 'z'; ++letter)
      REQUIRE(store.save(state_of(letter, static_cast<size_t>(letter)), false).ok());
    CHECK(store.load()->value().state == state_of('z', 'z'));
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++files;
    CHECK(files == 3);  // and the lock
  }

  TEST_CASE("a second program on one folder is refused until the first one is gone") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    {
      StateStore first = StateStore::open(path, "state").value();
      const Result<StateStore> second = StateStore::open(path, "state");
      REQUIRE_FALSE(second.has_value());
      CHECK(second.error().code() == Code::kUnavailable);
      const StateStore moved = std::move(first);
      CHECK_FALSE(StateStore::open(path, "state").has_value());
    }
    CHECK(StateStore::open(path, "state").has_value());
  }

  TEST_CASE("files that are of no use to their owner are kept aside, and the next state is whole") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    two_generations(path);
    {
      StateStore store = StateStore::open(path, "state").value();
      REQUIRE(store.load()->has_value());
      store.set_aside("it belongs to another run");
      CHECK_FALSE(store.load()->has_value());
      REQUIRE(store.save(state_of('c'), false).ok());
    }
    CHECK(load(path)->value().state == state_of('c'));
    CHECK(exists(path + "/state.a.bad"));
    CHECK(exists(path + "/state.b.bad"));
  }

  TEST_CASE("a folder that can't be is an error that names it") {
    const TempFolder folder;
    folder.write("file", "x");
    for (const std::string& path : {folder.file("file"), folder.file("none/state")}) {
      const Result<StateStore> store = StateStore::open(path, "state");
      REQUIRE_FALSE(store.has_value());
      CHECK(store.error().code() == Code::kIo);
      CHECK(store.error().message().find(path) != std::string::npos);
    }
  }
}
