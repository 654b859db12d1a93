#include "simulate/experiment.h"

namespace paceline {

const char* const kExampleExperiment =
    R"(# An experiment of Paceline. Run it with:  edge_server simulate experiment.toml
# Every point of the grid is run with every seed; the clock is virtual, the training is real.

[experiment]
seconds = 60              # of virtual time, for each run
seed = 1                  # of the model's start, shards, boards and links
repeats = 2               # with seeds 1, 2
targets = [0.80, 0.84]    # accuracies whose time, bytes and exchanges are reported
evaluate_every_s = 1      # on the control set
#workers = 8              # the [[worker]]s below in turn; without it as many as are listed
#train = false            # only who waits for whom: paces on boards of these speeds
#backend = "reference"    # the same bytes on every CPU; "auto" is faster

[run]                     # what edge_server serve takes, from a file or inline:
#file = "run.toml"
[run.model]
input = [28, 28]
classes = 10
[[run.layer]]
type = "flatten"
[[run.layer]]
type = "dense"
units = 32
[[run.layer]]
type = "relu"
[[run.layer]]
type = "dense"
units = 10
[run.training]
batch = 32
rate = 0.05
momentum = 0.9
[run.data]
scale = 0.00392156862745098
[run.communication]
pace = "compat"
freq = "trend"
codec_up = "s1r"
codec_down = "s1r"

[data]                    # paths are of this file's folder
file = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
labels = "/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"
#label_column = "class"   # of a CSV file
control_rows = 5000       # the last ones: no worker has them, accuracy is of them
dirichlet = 0.5           # label skew of the shards; 0: rows are dealt out evenly

[[worker]]                # one board, or several alike
count = 2
step_ms = 5               # of one mini-batch
step_sigma = 0.1          # lognormal spread of a step; the mean stays
link = "10mbit"           # or "10mbit/1mbit" for down/up; without it there is no limit
delay_ms = 2
jitter_ms = 1             # messages may overtake each other
loss = 0.001              # share of requests that are lost, and of replies
duplication = 0           # share of requests that come twice
outages = ["20-22"]       # seconds in which nothing comes through

[[worker]]
step_ms = 10
slow_share = 0.1          # of the time, in stretches of slow_s, steps take slow_factor times as long
slow_factor = 4
slow_s = 2
crash_at = 25             # everything but its data is lost
back_after = 5

[[worker]]
step_ms = 20
middle_factor = 2         # in the middle third of the run steps take so many times as long
day_s = 30                # a day; at noon steps take 1 + day_depth times as long
day_depth = 0.5
joins_at = 5
leaves_at = 50

[grid]                    # lists; every combination is run
pace = ["bsp", "compat"]
#freq = ["fixed:4", "trend"]
#codec = ["raw32", "s1r"]     # both ways; codec_up and codec_down for one
#rate = [0.02, 0.05]          # also rate_end, momentum, batch
#link = ["1mbit", "100mbit"]  # of every board; also loss, workers, dirichlet
)";

}  // namespace paceline
