# shellcheck shell=bash
# What ./dev needs on a bare Debian 12 or 13: the host's packages, and one newer release's development packages
# for every target, unpacked into a cache folder. Sourced by ./dev; names and versions are dependencies.cmake's.
#
# Nothing is done twice, nothing is half done: packages are installed only if missing, and a folder of the cache
# appears by one rename after its download is complete. Functions return non-zero themselves on a failure:
# callers run them inside conditions, where bash's -e is off.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/paceline

# Prints the value of a set() line of dependencies.cmake, on one line.
dependency() {
  tr '\n' ' ' <"$root/cmake/dependencies.cmake" |
    sed -n "s/.*set(PACELINE_$1 \"\\([^\"]*\\)\".*/\\1/p" | tr -s ' '
}

deps_key() { sed -n 's/^set(PACELINE_DEP_[A-Z]* "\(.*\)")$/\1/p' "$root/cmake/dependencies.cmake" | sha256sum | cut -c1-12; }

triplet_of() {
  case $1 in
    amd64) echo x86_64-linux-gnu ;;
    arm64) echo aarch64-linux-gnu ;;
    armhf) echo arm-linux-gnueabihf ;;
    *) return 1 ;;
  esac
}

host_architecture() {
  if command -v dpkg >/dev/null; then
    dpkg --print-architecture
  else
    case $(uname -m) in
      x86_64) echo amd64 ;;
      aarch64) echo arm64 ;;
      *) echo armhf ;;
    esac
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    echo "This needs root and there is no sudo. Run once as root: $*" >&2
    return 1
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# install_packages PACKAGE...: installs what is missing. Touches the network only then.
install_packages() {
  local missing options
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    local tool
    for tool in g++ cmake ninja flatc; do
      command -v "$tool" >/dev/null || {
        echo "apt is missing, so install these (Debian's names) and what they need yourself: $*" >&2
        return 1
      }
    done
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}"
  options=(-y --no-install-recommends --no-remove -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  as_root dpkg --configure -a || return # ends an install that was interrupted
  # An index of some unrelated source may fail; what counts is whether the packages can be had.
  as_root apt-get update || echo "apt-get update failed in part"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "${missing[@]}"
}

# Prints "KEYRING URI" of the host's own main archive, from either form of source list. KEYRING is the option
# signed-by=FILE, or lang=none (which says nothing new) where the host names none.
host_archive() {
  local file files=()
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -r "$file" ] && files+=("$file")
  done
  [ ${#files[@]} -gt 0 ] || return 0
  awk '
    function is_release(word) { return word ~ /^(bookworm|trixie|stable|testing)$/ }
    function stanza_end() {
      if (wanted && uri != "" && !disabled && !found++) print (key != "" ? "signed-by=" key : "lang=none"), uri
      wanted = 0; uri = ""; key = ""; disabled = 0
    }
    FNR == 1 { stanza_end() }
    /^[[:space:]]*#/ { next }
    FILENAME ~ /\.sources$/ {
      if ($0 ~ /^[[:space:]]*$/) stanza_end()
      field = tolower($1)
      if (field == "uris:") uri = $2
      if (field == "signed-by:" && $2 ~ /^\//) key = $2
      if (field == "enabled:" && tolower($2) == "no") disabled = 1
      if (field == "suites:") for (i = 2; i <= NF; ++i) if (is_release($i)) wanted = 1
      next
    }
    $1 == "deb" {
      line = $0
      if (match(line, /signed-by=[^] ]*/)) key = substr(line, RSTART + 10, RLENGTH - 10)
      gsub(/\[[^]]*\]/, "", line)
      split(line, part, /[[:space:]]+/)
      if (is_release(part[3])) { uri = part[2]; wanted = 1 }
      stanza_end()
    }
    END { stanza_end() }' "${files[@]}"
}

# unpack_packages FOLDER ARCHITECTURE...: fetches the pinned packages with an apt root of their own, so that
# nothing on the host changes, and unpacks them to FOLDER/TRIPLET.
unpack_packages() {
  local folder=$1 archive keyring suite apt architecture package name version deb
  shift
  archive=$(host_archive)
  if [ -z "$archive" ]; then
    echo "No Debian source was found in /etc/apt. Install NNG 1.10, mbedTLS 3.6 and zlib yourself and build with" >&2
    echo "cmake --preset release -DPACELINE_SYSTEM_DEPS=ON" >&2
    return 1
  fi
  suite=$(dependency DEP_SUITE)
  mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" \
    "$folder/apt/none" "$folder/debs" || return
  : >"$folder/apt/status"
  read -r keyring archive <<<"$archive"
  echo "deb [arch=$(IFS=,; echo "$*") $keyring] $archive $suite main" >"$folder/apt/sources.list"
  apt=(-q -o "Dir::State=$folder/apt/state" -o "Dir::State::status=$folder/apt/status"
    -o "Dir::Cache=$folder/apt/cache" -o "Dir::Etc::sourcelist=$folder/apt/sources.list"
    -o "Dir::Etc::sourceparts=$folder/apt/none" -o "Dir::Etc::preferences=$folder/apt/none/file"
    -o "Dir::Etc::preferencesparts=$folder/apt/none" -o APT::Sandbox::User=root
    -o Acquire::Languages=none -o Acquire::Retries=3)
  for architecture in "$@"; do apt+=(-o "APT::Architectures::=$architecture"); done
  apt-get "${apt[@]}" update || return

  local wanted=()
  for architecture in "$@"; do
    for name in NNG MBEDTLS XNNPACK ZLIB; do
      read -r package version <<<"$(dependency "DEP_$name")"
      wanted+=("$package:$architecture=$version*")
    done
  done
  (cd "$folder/debs" && apt-get "${apt[@]}" download "${wanted[@]}") || return
  for architecture in "$@"; do
    for deb in "$folder"/debs/*_"$architecture".deb; do
      dpkg-deb -x "$deb" "$folder/$(triplet_of "$architecture")" || return
    done
  done
}

# fetch_dependencies ARCHITECTURE...: makes the cache hold the development packages of each.
fetch_dependencies() {
  local deps work architecture missing=()
  deps=$cache/deps/$(deps_key)
  mkdir -p "$deps" || return
  exec 9>"$cache/lock"
  flock 9 # two runs at once must not fetch into each other's folder
  rm -rf "$deps"/.partial.*
  for architecture in "$@"; do
    [ -d "$deps/$(triplet_of "$architecture")" ] || missing+=("$architecture")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    work=$(mktemp -d "$deps/.partial.XXXXXX") || return
    unpack_packages "$work" "${missing[@]}" || return
    for architecture in "${missing[@]}"; do
      mv -T "$work/$(triplet_of "$architecture")" "$deps/$(triplet_of "$architecture")" || return
    done
    rm -rf "$work"
  fi
  exec 9>&-
}
