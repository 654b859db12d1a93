// Who may talk to whom: real programs, real sockets, every certificate that should not be believed.
#include <doctest/doctest.h>

#include <csignal>

#include "runtime/wire/messages.h"
#include "tests/support/tls_fleet.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

// A fleet's server on TLS, and boards that join it.
struct Fleet {
  Site site;
  std::string folder = site.file("fleet");
  Process server;

  Fleet() : server(start()) {}

  Process start() {
    const Finished made = site.run_server({"init", folder});
    REQUIRE_MESSAGE(made.exit == 0, made.err);
    return site.server({}, {"--fleet", folder}, "tls+tcp://127.0.0.1:0");
  }

  std::string enrol(const std::string& name) {
    const Finished done = site.run_server({"enrol", name, "--fleet", folder});
    REQUIRE_MESSAGE(done.exit == 0, done.err);
    return lines_of(done.out).front();
  }
  // Where boards join: the door opens within a second of enrol, on a port that the system gives.
  std::string door() {
    const std::string words = "enrolment is open on tls+tcp://";
    REQUIRE_MESSAGE(server.wait_err(words), tail_of(server.err()));
    const std::string log = server.err();
    const size_t begin = log.rfind(words) + words.size();
    return log.substr(begin, log.find('\n', begin) - begin);
  }
  Finished join(const std::string& name, const std::string& code) {
    return site.run_worker({"join", door(), code, "--state", site.file(name)});
  }
  void take_in(const std::string& name) {
    const Finished joined = join(name, enrol(name));
    REQUIRE_MESSAGE(joined.exit == 0, joined.err);
  }
  // Knows where to dial by what it joined.
  Process worker(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"--data",        site.data(name), "--state",
                                    site.file(name), "--log",         "debug"};
    all.insert(all.end(), more.begin(), more.end());
    return site.start_worker(all, name + ".worker");
  }
  // The true authority, as only a thief of the folder has it.
  TlsFleet authority() const {
    return TlsFleet(Signer{.certificate_pem = file_text(folder + "/authority.pem"),
                           .key_pem = file_text(folder + "/authority.key")});
  }
  std::unique_ptr<Channel> dial(const TlsOptions& tls) const {
    DialOptions options;
    options.address = site.address();
    options.tls = tls;
    Result<std::unique_ptr<Channel>> channel = dial_nng(options);
    REQUIRE(channel);
    return std::move(*channel);
  }
  // A handshake that fails is told of on both ends. To the worker it may have to say less: the
  // alert that names the reason gets lost where the connection ends before it.
  void is_refused(const TlsOptions& tls, std::string_view to_worker, std::string_view to_server) {
    // A new server: an old one has said enough about refused connections.
    server.signal(SIGTERM);
    REQUIRE(server.wait_exit() == 0);
    server = site.server({}, {"--fleet", folder}, "tls+tcp://127.0.0.1:0");
    const size_t known = server.err().size();
    const std::unique_ptr<Channel> channel = dial(tls);
    CHECK_MESSAGE(wait_until([&] {
                    const std::string state = channel->state();
                    return says(state, to_worker) ||
                           says(state, "does not take our certificate, or");
                  }),
                  channel->state());
    CHECK_MESSAGE(server.wait_err_after(known, to_server), tail_of(server.err()));
  }
};

}  // namespace

TEST_SUITE("system/trust") {
  TEST_CASE("init, enrol, join: a board trains by nothing but its folder, over TLS") {
    Fleet fleet;
    fleet.take_in("barn");
    fleet.take_in("shed");
    Process barn = fleet.worker("barn");
    Process shed = fleet.worker("shed");
    CHECK_MESSAGE(barn.wait_err("publication 5 checksum"), tail_of(barn.err()));
    CHECK_MESSAGE(shed.wait_err("publication 5 checksum"), tail_of(shed.err()));
    CHECK(says(barn.err(), "connected to tls+tcp://127.0.0.1:"));
    CHECK(fleet.server.wait_err("worker barn joins with"));
    // A restart needs no code.
    shed.kill_hard();
    Process again = fleet.worker("shed");
    CHECK_MESSAGE(again.wait_err_after(0, "checksum"), tail_of(again.err()));
    const Finished listed = fleet.site.run_server({"workers", "--fleet", fleet.folder});
    CHECK(says(listed.out, "barn"));
    CHECK(says(listed.out, "shed"));
    for (Process* worker : {&barn, &again}) {
      worker->signal(SIGTERM);
      CHECK(worker->wait_exit() == 0);
    }
    // The door is shut when nobody is to join.
    CHECK(fleet.server.wait_err("enrolment is closed"));
    // No key and no secret is in any log.
    for (const std::string& log : {fleet.server.err(), barn.err(), again.err()})
      CHECK_FALSE(says(log, "PRIVATE KEY"));
  }

  TEST_CASE("a code is good for one board and five tries, and a wrong one is told") {
    Fleet fleet;
    const std::string code = fleet.enrol("barn");
    std::string mistyped = code;
    mistyped[0] = mistyped[0] == '7' ? '8' : '7';
    Finished tried = fleet.join("x", mistyped);
    CHECK(tried.exit == 2);
    CHECK_MESSAGE(says(tried.err, "a wrong or a swapped symbol"), tried.err);
    // Of another fleet: well formed, but this server is not the one.
    const std::string other_folder = fleet.site.file("other");
    REQUIRE(fleet.site.run_server({"init", other_folder}).exit == 0);
    const std::string foreign =
        lines_of(fleet.site.run_server({"enrol", "barn", "--fleet", other_folder}).out).front();
    tried = fleet.join("x", foreign);
    CHECK(tried.exit == 1);
    CHECK_MESSAGE(says(tried.err, "not the one that the code is of"), tried.err);
    CHECK(fleet.join("barn", code).exit == 0);
    // Again, while the door stands open for another.
    const std::string next = fleet.enrol("shed");
    tried = fleet.join("x", code);
    CHECK(tried.exit == 1);
    CHECK_MESSAGE(says(tried.err, "this code is wrong, was used or is too old"), tried.err);
    CHECK_MESSAGE(fleet.server.wait_err("may not join: this code is wrong"),
                  tail_of(fleet.server.err()));
    for (int i = 0; i < 3; ++i) CHECK(fleet.join("x", code).exit == 1);
    CHECK(fleet.join("shed", next).exit == 0);
    // The fifth wrong try ends an enrolment.
    const std::string last = fleet.enrol("hall");
    const std::string door = fleet.door();
    for (int i = 0; i < 5; ++i) CHECK(fleet.join("x", code).exit == 1);
    CHECK(says(fleet.site.run_server({"workers", "--fleet", fleet.folder}).out, "hall") == false);
  }

  TEST_CASE(
      "every certificate that should not be believed is refused, with the reason on both ends") {
    Fleet fleet;
    const TlsFleet ours = fleet.authority(), rogue;
    TlsOptions none = ours.worker("barn");
    none.certificate.clear();
    none.key.clear();
    fleet.is_refused(none, "wants a certificate and we have none", "has no certificate");
    TlsOptions foreign = rogue.worker("barn");
    foreign.authority = ours.authority().certificate_pem;
    fleet.is_refused(foreign, "it belongs to another fleet",
                     "is not signed by this fleet's authority");
    TlsOptions suspicious = ours.worker("barn");
    suspicious.authority = rogue.authority().certificate_pem;
    fleet.is_refused(suspicious, "is not signed by this fleet's authority",
                     "does not take our certificate");
    TlsOptions misled = ours.worker("barn");
    misled.server_name = "server.elsewhere";
    fleet.is_refused(misled, "names another server", "does not take our certificate");
    fleet.is_refused(ours.worker("barn", 0, 1'000'000'000), "our certificate has expired",
                     "has expired");
    fleet.is_refused(ours.worker("barn", kFarAwayS - 1000, kFarAwayS), "the other side",
                     "is not valid yet");
  }

  TEST_CASE("a certificate of the true authority that is on no list is refused by name") {
    Fleet fleet;
    const std::unique_ptr<Channel> channel = fleet.dial(fleet.authority().worker("ghost"));
    Hello ghost;
    ghost.name = "ghost";
    channel->send(Lane::kExchange, encode({0, ghost}), from_ms(kPatienceMs));
    Reply reply;
    REQUIRE(channel->receive(&reply, monotonic_now_us() + from_ms(kPatienceMs)));
    REQUIRE(reply.status.ok());
    const Result<Envelope> envelope = decode(reply.message);
    REQUIRE(envelope);
    const auto* refused = std::get_if<Refused>(&envelope->message);
    REQUIRE(refused != nullptr);
    CHECK(refused->refusal == RefusalClass::kNotAllowed);
    CHECK(says(refused->reason, "'ghost' is not on the fleet's list"));
    CHECK(fleet.server.wait_err("'ghost' is not on the fleet's list"));
  }

#ifdef PACELINE_CLOCK_1970
  TEST_CASE("a board that thinks it is 1970 trains, though it would refuse what begins later") {
    Fleet fleet;
    fleet.take_in("barn");
    const auto start_in_1970 = [&](const std::string& log) {
      return Process(
          {"env",
           {std::string("LD_PRELOAD=") + PACELINE_CLOCK_1970, PACELINE_EDGE_WORKER, "--data",
            fleet.site.data("barn"), "--state", fleet.site.file("barn"), "--log", "debug"},
           fleet.site.file(log)});
    };
    Process worker = start_in_1970("early");
    CHECK_MESSAGE(worker.wait_err("publication 3 checksum"), tail_of(worker.err()));
    worker.signal(SIGTERM);
    CHECK(worker.wait_exit() == 0);
    // That the clock was another one: a server's certificate that begins in 2001.
    CertificateContent content{.use = CertificateContent::Use::kServer,
                               .name = "server",
                               .host_names = {kServerName},
                               .host_addresses = {},
                               .valid_from_s = 1'000'000'000,
                               .valid_to_s = kFarAwayS};
    const KeyPair key = *make_key();
    fleet.site.write("fleet/server.pem",
                     *issue_certificate(content, key.public_der, fleet.authority().authority()));
    fleet.site.write("fleet/server.key", key.private_pem);
    fleet.server.signal(SIGTERM);
    REQUIRE(fleet.server.wait_exit() == 0);
    fleet.server = fleet.site.server({}, {"--fleet", fleet.folder}, fleet.site.address());
    Process confused = start_in_1970("confused");
    CHECK_MESSAGE(confused.wait_err("is not valid yet (check this machine's clock)"),
                  tail_of(confused.err()));
  }
#endif

  TEST_CASE("nobody works under another's name, and a name that was given anew has one board") {
    Fleet fleet;
    fleet.take_in("barn");
    Process liar = fleet.worker("barn", {"--name", "shed"});
    CHECK(liar.wait_exit() == 1);
    CHECK_MESSAGE(says(liar.err(), "its certificate is of 'barn' and it calls itself 'shed'"),
                  tail_of(liar.err()));
    CHECK(fleet.server.wait_err("its certificate is of 'barn' and it calls itself 'shed'"));
    Process old_board = fleet.worker("barn");
    CHECK_MESSAGE(old_board.wait_err("publication 2 checksum"), tail_of(old_board.err()));
    const Finished joined = fleet.join("barn2", fleet.enrol("barn"));
    REQUIRE_MESSAGE(joined.exit == 0, joined.err);
    CHECK(old_board.wait_exit() == 1);
    CHECK_MESSAGE(says(old_board.err(), "'barn' has another key by now"), tail_of(old_board.err()));
    Process new_board = fleet.worker("barn2");
    CHECK_MESSAGE(new_board.wait_err("checksum"), tail_of(new_board.err()));
    // The old board is cut off by its key: the new one's connection stays.
    const size_t known = fleet.server.err().size();
    Process persistent = fleet.worker("barn");
    CHECK(persistent.wait_exit() == 1);
    CHECK_MESSAGE(fleet.server.wait_err_after(known, "may not be here: disconnected"),
                  tail_of(fleet.server.err()));
    const uint64_t reached = newest_publication(fleet.server.err());
    CHECK(wait_until([&] { return newest_publication(fleet.server.err()) > reached + 5; }));
    CHECK_FALSE(says(new_board.err(), "(connection 2)"));
    CHECK_FALSE(says(new_board.err(), "waiting for the server"));
  }

  TEST_CASE("a worker that is revoked while it works is out within five seconds") {
    Fleet fleet;
    fleet.take_in("barn");
    fleet.take_in("shed");
    Process barn = fleet.worker("barn");
    Process shed = fleet.worker("shed");
    CHECK_MESSAGE(barn.wait_err("publication 5 checksum"), tail_of(barn.err()));
    CHECK_MESSAGE(shed.wait_err("publication 5 checksum"), tail_of(shed.err()));
    const Finished revoked = fleet.site.run_server({"revoke", "shed", "--fleet", fleet.folder});
    CHECK_MESSAGE(revoked.exit == 0, revoked.err);
    CHECK_MESSAGE(fleet.server.wait_err("worker shed is cut off: 'shed' is revoked", 5'000),
                  tail_of(fleet.server.err()));
    CHECK_MESSAGE(shed.wait_exit(5'000) == 1, tail_of(shed.err()));
    CHECK_MESSAGE(says(shed.err(), "'shed' is revoked; if that is a mistake"), tail_of(shed.err()));
    // The others go on, and it does not come back.
    const uint64_t reached = newest_publication(fleet.server.err());
    CHECK(wait_until([&] { return newest_publication(fleet.server.err()) > reached + 5; }));
    Process again = fleet.worker("shed");
    CHECK(again.wait_exit() == 1);
    CHECK(fleet.server.running());
  }

  TEST_CASE("what others can reach is served and dialed over TLS, or on purpose without") {
    Site site;
    const std::string run = site.write("run.toml", RunText().text());
    Finished done =
        site.run_server({"serve", run, "--listen", "0.0.0.0:0", "--fleet", site.file("none")});
    CHECK(done.exit == 2);
    CHECK_MESSAGE(says(done.err, "edge_server init"), done.err);
    CHECK_MESSAGE(says(done.err, "--plain"), done.err);
    done = site.run_worker({"192.0.2.7", "--data", site.data("a")});
    CHECK(done.exit == 2);
    CHECK_MESSAGE(says(done.err, "edge_worker join"), done.err);
    CHECK_MESSAGE(says(done.err, "--plain"), done.err);
    Process plain = site.start_server({"serve", run, "--listen", "0.0.0.0:0", "--plain"}, "plain");
    CHECK(plain.wait_out("listening on tcp://0.0.0.0:"));
    CHECK(plain.wait_err("no encryption and no identities"));
  }
}
