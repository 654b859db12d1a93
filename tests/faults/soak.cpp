#include "tests/faults/soak.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "server/command_replay.h"
#include "tests/faults/fleet.h"
#include "tests/faults/power_disk.h"
#include "tests/faults/soak_plan.h"

namespace paceline::test {

namespace {

constexpr uint32_t kServerDiskMb = 24;
constexpr uint32_t kBoardDiskMb = 16;
constexpr size_t kBoardsOnDisk = 3;  // their power goes together
constexpr int kPatience = 120'000;
constexpr int kFaultsPerCheck = 20;
constexpr TimeUs kLookEvery = from_ms(1'000);
constexpr TimeUs kSampleEvery = from_ms(1'000);

class Soak {
 public:
  explicit Soak(const SoakOptions& options)
      : options_(options),
        random_(options.seed, 0),
        plan_(&random_),
        history_(!plan_.waits_for_disk) {
    PACELINE_CHECK(options_.workers > kBoardsOnDisk + 1);
  }
  ~Soak() {
    fleet_.reset();
    server_disk_.reset();
    board_disk_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(images_folder_, ignored);
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  SoakReport run() {
    report_.run = plan_.words();
    began_ = monotonic_now_us();
    make_disks();
    make_fleet();
    if (start_server()) rage();
    if (options_.stopped()) report_.broken.clear();  // the programs may have been told to stop, too
    if (report_.broken.empty() && !options_.stopped()) settle();
    if (!report_.broken.empty() || options_.stopped()) leave();
    if (fleet_->restart_s_max() > 5) broken("a start took longer than 5 s");
    report_.seconds = to_seconds(monotonic_now_us() - began_);
    report_.history = history_.verdict();
    report_.restart_s_max = fleet_->restart_s_max();
    report_.server_growth = server_growth_.slope();
    report_.worker_growth = worker_growth_.slope();
    return std::move(report_);
  }

 private:
  void say(const std::string& what) {
    options_.say(format_text("%8.1f s  %s", to_seconds(monotonic_now_us() - began_), what.c_str()));
  }
  void broken(const std::string& promise) {
    say("BROKEN: " + promise);
    report_.broken.push_back(promise);
  }
  bool check(const Status& status, const char* what) {
    if (status.ok()) return true;
    broken(format_text("%s: %s", what, status.message().c_str()));
    return false;
  }
  Board& any_board() {
    // The last one is never killed: how it grows is to be seen.
    return fleet_->boards()[static_cast<size_t>(random_.below(options_.workers - 1))];
  }

  void make_disks();
  void make_fleet();
  bool start_server();
  void resume_server();
  void rage();
  void strike();
  void settle();

  void let_it_publish();
  void kill_server();
  void stop_server();
  void cut_servers_power();
  void fill_servers_disk();
  void kill_worker();
  void stop_worker();
  void pause_worker();
  void cut_boards_power();
  void disturb_network();

  // Mends what is due, reads what was said, measures.
  void tend();
  void pass(int ms_max);
  bool wait_for(const std::function<bool()>& condition, int within_ms = kPatience);
  // Everything is mended, and the run goes on.
  void check_that_it_goes_on();
  void mend(Board& board, TimeUs now);
  // Between two lives of the server.
  bool read_folder();
  void leave();

  const SoakOptions& options_;
  Random random_;
  SoakPlan plan_;
  History history_;
  std::string images_folder_;
  std::unique_ptr<PowerDisk> server_disk_, board_disk_;
  std::string state_folder_;
  std::optional<Fleet> fleet_;
  History::Found found_;
  SoakReport report_;
  Growth server_growth_, worker_growth_;
  TimeUs began_ = 0, look_at_ = 0, sample_at_ = 0;
};

void Soak::make_disks() {
  state_folder_ = options_.folder + "/state";
  if (!options_.cuts_power) {
    report_.no_power_cuts = "not wanted";
    return;
  }
  const std::string memory = "/dev/shm";
  images_folder_ = access(memory.c_str(), W_OK) == 0
                       ? memory + format_text("/paceline-soak-%d", getpid())
                       : options_.folder + "/images";
  std::error_code ignored;
  std::filesystem::create_directories(images_folder_, ignored);
  Result<std::unique_ptr<PowerDisk>> server =
      PowerDisk::make(options_.folder, images_folder_, "server-disk", kServerDiskMb);
  Result<std::unique_ptr<PowerDisk>> boards =
      server ? PowerDisk::make(options_.folder, images_folder_, "board-disk", kBoardDiskMb)
             : fail(server.error());
  if (!boards) {
    report_.no_power_cuts = boards.error().message();
    say("no power cuts and no full disk: " + report_.no_power_cuts +
        "; base_files_test and run_keeper_test stand for them");
    return;
  }
  server_disk_ = std::move(*server);
  board_disk_ = std::move(*boards);
  state_folder_ = server_disk_->path() + "/state";
}

void Soak::make_fleet() {
  FleetOptions fleet;
  fleet.edge_server = options_.edge_server;
  fleet.edge_worker = options_.edge_worker;
  fleet.folder = options_.folder;
  fleet.state_folder = state_folder_;
  fleet.run_text = plan_.text();
  fleet.journal = plan_.journal;
  fleet.seed = options_.seed;
  fleet_.emplace(std::move(fleet), &history_);
  for (uint32_t i = 0; i < options_.workers; ++i) {
    const std::string name = format_text("board%u", i);
    const std::string& folder =
        i < kBoardsOnDisk && board_disk_ ? board_disk_->path() : options_.folder;
    // Some save a few times a second, as no real board does.
    fleet_->add_board(name, folder + "/" + name + ".state",
                      {"--step-ms", std::to_string(2 + 3 * (i % 4)), "--state-mb-per-day",
                       i % 2 == 0 ? "20000" : "50"});
    fleet_->start_board(fleet_->boards().back());
  }
  worker_growth_.begin_life(monotonic_now_us());
  say(report_.run);
}

bool Soak::start_server() {
  if (!check(fleet_->start_server(), "a start")) return false;
  server_growth_.begin_life(monotonic_now_us());
  return true;
}

// From where the folder says.
void Soak::resume_server() {
  if (!start_server()) return;
  fleet_->read_logs();
  const std::string expected = format_text("generation %llu, publication %llu,",
                                           static_cast<unsigned long long>(found_.generation),
                                           static_cast<unsigned long long>(found_.publication));
  if (!fleet_->went_on_from().starts_with(expected))
    broken("it goes on from " + fleet_->went_on_from() + "; its folder says " + expected);
}

void Soak::rage() {
  const TimeUs end = began_ + static_cast<TimeUs>(options_.seconds * 1e6);
  while (monotonic_now_us() < end && report_.broken.empty() && !options_.stopped()) {
    strike();
    if (report_.broken.empty()) pass(300);
    if (report_.broken.empty() && report_.faults % kFaultsPerCheck == 0) check_that_it_goes_on();
  }
}

void Soak::strike() {
  struct Fault {
    void (Soak::*strike)();
    bool possible;
  };
  const bool server = !options_.spares_server;
  const Fault faults[] = {
      // as kSoakFaults has them
      {&Soak::kill_server, server},   {&Soak::cut_servers_power, server && server_disk_},
      {&Soak::stop_server, server},   {&Soak::fill_servers_disk, server_disk_ != nullptr},
      {&Soak::kill_worker, true},     {&Soak::stop_worker, true},
      {&Soak::pause_worker, true},    {&Soak::cut_boards_power, board_disk_ != nullptr},
      {&Soak::disturb_network, true},
  };
  static_assert(std::size(faults) == std::size(kSoakFaults));
  std::vector<uint64_t> weights;
  uint64_t sum = 0;
  for (size_t i = 0; i < std::size(faults); ++i) {
    const bool wanted =
        options_.only.empty() ||
        std::ranges::find(options_.only, kSoakFaults[i].name) != options_.only.end();
    weights.push_back(wanted && faults[i].possible ? kSoakFaults[i].weight : 0);
    sum += weights.back();
  }
  if (sum == 0) return;
  uint64_t drawn = random_.below(sum);
  size_t kind = 0;
  while (drawn >= weights[kind]) drawn -= weights[kind++];
  ++report_.faults;
  (this->*faults[kind].strike)();
}

// What a start would find is what it then goes on from, and what workers rely on is in it.
bool Soak::read_folder() {
  fleet_->read_logs();
  Result<History::Found> found = history_.read_folder(state_folder_);
  if (!found) {
    broken("the folder of a server that was killed: " + found.error().message());
    return false;
  }
  found_ = *found;
  if (found_.whole) return true;
  // What a start raises it to.
  ++found_.generation;
  report_.generations = std::max(report_.generations, found_.generation);
  if (plan_.waits_for_disk) broken("a new generation: " + found_.fault);
  return report_.broken.empty();
}

// Mostly: a server that is struck while nobody is there yet has little to lose.
void Soak::let_it_publish() {
  if (random_.below(4) == 0) return;
  const uint64_t made = fleet_->publications_made();
  wait_for([&] { return fleet_->publications_made() > made; }, 3'000);
  pass(100);
}

void Soak::kill_server() {
  let_it_publish();
  say("the server is killed");
  ++report_.kills;
  fleet_->kill_server();
  if (!read_folder()) return;
  pass(200);
  resume_server();
}

void Soak::stop_server() {
  say("the server is stopped in order");
  ++report_.stops;
  if (check(fleet_->stop_server(), "SIGTERM") && read_folder()) resume_server();
}

void Soak::cut_servers_power() {
  let_it_publish();
  say("the server's power is cut");
  ++report_.power_cuts;
  Fleet::pause(fleet_->server());
  if (!check(server_disk_->freeze(), "the image")) return;
  fleet_->kill_server();
  if (!check(server_disk_->restore(), "the image") || !read_folder()) return;
  resume_server();
}

void Soak::fill_servers_disk() {
  history_.read_journals(state_folder_);
  history_.allow_gaps();
  ++report_.full_disks;
  const bool dies = !options_.spares_server && random_.below(3) == 0;
  say(dies ? "the server's disk is full, and then it is killed" : "the server's disk is full");
  if (!check(server_disk_->fill(), "the disk")) return;
  // A snapshot may let it remove enough to go on.
  const uint64_t made = fleet_->publications_made();
  if (!wait_for(
          [&] { return fleet_->journal_in_trouble() || fleet_->publications_made() > made + 3; }))
    return broken("on a full disk it neither says so nor goes on");
  pass(1'000);
  if (dies) {
    ++report_.kills;
    fleet_->kill_server();
    if (!read_folder()) return;
    if (check(server_disk_->free_up(), "the disk")) resume_server();
    return;
  }
  if (!fleet_->server_runs()) return broken("the server ended when its disk was full");
  if (!check(server_disk_->free_up(), "the disk")) return;
  if (!wait_for([&] { return !fleet_->journal_in_trouble(); }))
    broken("the server does not notice that its disk has space again");
}

void Soak::kill_worker() {
  Board& board = any_board();
  say(board.name + " is killed");
  ++report_.worker_kills;
  board.life->process.kill_hard();
  fleet_->read_logs();
  pass(300);
  fleet_->start_board(board);
}

void Soak::stop_worker() {
  Board& board = any_board();
  mend(board, kNever);
  say(board.name + " is stopped in order");
  ++report_.worker_stops;
  board.life->process.signal(SIGTERM);
  const int exit = board.life->process.wait_exit();
  fleet_->read_logs();
  // A worker that was just started may not have come to where signals mean to leave in order.
  if (exit != 0 && exit != 128 + SIGTERM)
    broken(format_text("%s ended with %d: ", board.name.c_str(), exit) +
           tail_of(board.life->process.err()));
  fleet_->start_board(board);
}

void Soak::pause_worker() {
  Board& board = any_board();
  const auto ms = static_cast<TimeUs>(100 + random_.below(3'000));
  say(format_text("%s stands still for %.1f s", board.name.c_str(), to_seconds(from_ms(ms))));
  ++report_.worker_pauses;
  board.life->process.signal(SIGSTOP);
  board.paused_until = monotonic_now_us() + from_ms(ms);
}

void Soak::cut_boards_power() {
  say("the power of the first boards is cut");
  ++report_.worker_power_cuts;
  for (size_t i = 0; i < kBoardsOnDisk; ++i) Fleet::pause(fleet_->boards()[i].life->process);
  const bool frozen = check(board_disk_->freeze(), "the image");
  for (size_t i = 0; i < kBoardsOnDisk; ++i) fleet_->boards()[i].life->process.kill_hard();
  fleet_->read_logs();
  if (!frozen || !check(board_disk_->restore(), "the image")) return;
  for (size_t i = 0; i < kBoardsOnDisk; ++i) fleet_->start_board(fleet_->boards()[i]);
}

void Soak::disturb_network() {
  Board& board = fleet_->boards()[static_cast<size_t>(random_.below(options_.workers))];
  const auto ms = static_cast<TimeUs>(100 + random_.below(2'500));
  const char* what = "";
  switch (random_.below(6)) {
    case 0:
      what = "is cut";
      board.proxy->cut();
      break;
    case 1:
      what = "lets nothing pass";
      board.proxy->hold();
      break;
    case 2:
      what = "lets nothing pass upwards";
      board.proxy->set_up({.held = true});
      break;
    case 3:
      what = "lets nothing pass downwards";
      board.proxy->set_down({.held = true});
      break;
    case 4:
      what = "has 64 kbit/s";
      board.proxy->set_up({.bits_per_s = 64e3});
      board.proxy->set_down({.bits_per_s = 64e3});
      break;
    default:
      what = "is far away";
      board.proxy->set_up({.delay_us = from_ms(150)});
      board.proxy->set_down({.delay_us = from_ms(150)});
  }
  say(format_text("%s's network %s, %.1f s", board.name.c_str(), what, to_seconds(from_ms(ms))));
  ++report_.network_faults;
  board.network_until = monotonic_now_us() + from_ms(ms);
}

void Soak::mend(Board& board, TimeUs now) {
  if (board.network_until != 0 && now >= board.network_until) {
    board.proxy->heal();
    board.network_until = 0;
  }
  if (board.paused_until != 0 && now >= board.paused_until) {
    board.life->process.signal(SIGCONT);
    board.paused_until = 0;
  }
}

void Soak::tend() {
  const TimeUs now = monotonic_now_us();
  fleet_->read_logs();
  for (Board& board : fleet_->boards()) mend(board, now);
  if (now >= look_at_) {
    look_at_ = now + kLookEvery;
    history_.read_journals(state_folder_);
  }
  if (now < sample_at_) return;
  sample_at_ = now + kSampleEvery;
  if (fleet_->server_runs())
    if (const auto size = size_of_process(fleet_->server().pid()))
      server_growth_.observe(*size, now);
  if (const auto size = size_of_process(fleet_->boards().back().life->process.pid()))
    worker_growth_.observe(*size, now);
}

void Soak::pass(int ms_max) {
  const auto ms = static_cast<int>(random_.below(static_cast<uint64_t>(ms_max)));
  wait_for([] { return false; }, ms);
}

bool Soak::wait_for(const std::function<bool()>& condition, int within_ms) {
  return wait_until(
      [&] {
        tend();
        return condition() || options_.stopped();
      },
      within_ms);
}

void Soak::check_that_it_goes_on() {
  for (Board& board : fleet_->boards()) mend(board, kNever);
  const uint64_t made = fleet_->publications_made();
  std::vector<uint64_t> taken;
  for (const Board& board : fleet_->boards()) taken.push_back(board.publications_taken);
  const auto all_go_on = [&] {
    for (size_t i = 0; i < taken.size(); ++i)
      if (fleet_->boards()[i].publications_taken <= taken[i]) return false;
    return fleet_->publications_made() >= made + 3;
  };
  if (wait_for(all_go_on)) return;
  if (fleet_->publications_made() < made + 3)
    broken("nothing is published any more: " + tail_of(fleet_->server().err()));
  for (size_t i = 0; i < taken.size(); ++i)
    if (Board& board = fleet_->boards()[i]; board.publications_taken <= taken[i])
      broken(board.name + " takes no model any more: " + tail_of(board.life->process.err()));
}

// All is mended, the server ends in order, its folder is held against its last words, and a last
// life of it ends the run.
void Soak::settle() {
  say("all is mended, the run ends");
  check_that_it_goes_on();
  if (!report_.broken.empty() || !check(fleet_->stop_server(), "the last SIGTERM")) return;
  const std::string model = fleet_->last_words();
  if (!read_folder()) return;
  if (model != format_text("publication %llu, checksum %08x",
                           static_cast<unsigned long long>(found_.publication), found_.checksum))
    broken("the server ended at " + model + ", its folder says another");
  const Result<Replay> replay = replay_run(state_folder_);
  const bool has_gap = report_.full_disks > 0;
  if (!replay) {
    broken("replay: " + replay.error().message());
  } else if (!(has_gap && !replay->fault.empty()) &&
             (!replay->agrees || replay->checksum != found_.checksum)) {
    broken("replay leads elsewhere than the run: " + replay_text(*replay));
  }
  if (!check(fleet_->start_server("1"), "the last start")) return;
  for (Board& board : fleet_->boards())
    if (const int exit = board.life->process.wait_exit(kPatience); exit != 0)
      broken(format_text("%s ended with %d: ", board.name.c_str(), exit) +
             tail_of(board.life->process.err()));
  if (const int exit = fleet_->server().wait_exit(kPatience); exit != 0)
    broken(format_text("the server ended with %d", exit));
  read_folder();
}

// After a broken promise, or when it is stopped: what is there is still held against what was said.
void Soak::leave() {
  if (fleet_->server_runs()) fleet_->kill_server();
  read_folder();
}

}  // namespace

SoakReport soak(const SoakOptions& options) {
  set_log_level(LogLevel::kOff);  // of the cores that read folders here
  return Soak(options).run();
}

}  // namespace paceline::test
