// What `edge_server init` proposes for sparse rows (LibSVM): which places features have, and a
// linear net of them.
#pragma once

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "server/init_run.h"

namespace paceline {

//   rows  a sample that was read without a run
// Errors: kInvalidArgument for labels that are no few classes, and for options of tables.
Result<RunProposal> propose_sparse_run(const Dataset& rows, const InitOptions& options);

}  // namespace paceline
