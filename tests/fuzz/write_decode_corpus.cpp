// Inputs to start fuzzing decode() from: two messages of each kind.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/runtime/wire/random_message.h"

int main(int argc, char** argv) {
  using namespace paceline;
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_decode_corpus FOLDER\n");
    return 2;
  }
  test::RandomMessage random(1, 60);
  for (size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
    Envelope envelope = random.next_envelope(kind);
    const std::string name = message_name(envelope.message);
    for (const char* variety : {"", "_default"}) {
      const Bytes bytes = encode(envelope);
      std::ofstream file(std::string(argv[1]) + "/" + name + variety, std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
      if (!file) {
        std::fprintf(stderr, "%s: cannot write\n", argv[1]);
        return 1;
      }
      std::visit([](auto& message) { message = {}; }, envelope.message);
    }
  }
  return 0;
}
