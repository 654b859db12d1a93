// What makes a board a member of a fleet, in a folder of its own: key.pem (readable by its owner
// only), certificate.pem, authority.pem and fleet.toml.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace paceline {

struct Credentials {
  std::string name;         // of this board
  std::string server;       // "tls+tcp://192.0.2.7:7433"
  std::string server_name;  // what the server's certificate has to name
  std::string key;          // PEM, like the two below
  std::string certificate;
  std::string authority;
};

// Where they are if nobody says: .paceline in the home folder. Errors: kNotFound without a home.
Result<std::string> default_credentials_folder();

// None in a folder without fleet.toml, or without a folder. Errors: kCorrupt, kIo, kRefused, naming
// the file: what is there is not whole, or does not belong together.
Result<std::optional<Credentials>> load_credentials(const std::string& folder);

// Makes the folder where it is missing. fleet.toml goes last: without it there is nothing.
Status save_credentials(const std::string& folder, const Credentials& credentials);

}  // namespace paceline
