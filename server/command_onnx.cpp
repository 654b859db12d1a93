#include "server/command_onnx.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "runtime/base/safetensors.h"
#include "runtime/data/schema.h"
#include "server/onnx/export.h"
#include "server/onnx/import.h"
#include "server/run_config.h"

namespace paceline {
namespace {

constexpr uint64_t kModelFileBytesMax = kModelElementsMax * sizeof(float) + (uint64_t{16} << 20);

tl::unexpected<Status> fail_in(const std::string& path, const Status& status) {
  return fail(status.code(), "%s: %s", path.c_str(), status.message().c_str());
}

Result<OnnxImport> load(const ImportOptions& options) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(options.model_file, kModelFileBytesMax));
  const Result<OnnxModel> model = read_onnx(bytes);
  if (!model) return fail_in(options.model_file, model.error());
  Result<OnnxImport> import = import_onnx(*model, options.numbers);
  if (!import) return fail_in(options.model_file, import.error());
  return import;
}

std::string run_text(const ImportOptions& options, const OnnxImport& import) {
  const std::string file = std::filesystem::path(options.model_file).filename().string();
  std::string text =
      "# Made by edge_server import from an ONNX model. Serve it with:\n"
      "#   edge_server serve " +
      options.folder + "/run.toml\n\n";
  text += import.toml;
  text += std::string("\n[training]\n") + (import.model.class_count > 0 ? "" : "loss = \"mse\"\n") +
          "batch = 32\nrate = 0.005            # lower than for a start at random\n";
  text += "\n[server]\nstart = \"" + options.folder + "/model.safetensors\"\n";
  return text;
}

Status write(const ImportOptions& options, const OnnxImport& import, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return fail(Code::kIo, "%s: %s", options.folder.c_str(), error.message().c_str());
  const std::string run_file = options.folder + "/run.toml";
  if (std::filesystem::exists(run_file) && !options.force)
    return fail(Code::kInvalidArgument, "%s is there already; --force replaces it",
                run_file.c_str());
  PACELINE_TRY(write_safetensors(options.folder + "/model.safetensors", import.model.layout,
                                 import.parameters,
                                 model_metadata(text, model_checksum(import.parameters))));
  return write_file_atomically(run_file, std::as_bytes(std::span(text)));
}

}  // namespace

Result<std::string> import_model(const ImportOptions& options) {
  PACELINE_ASSIGN(const OnnxImport import, load(options));
  const std::string found = import_text(import);
  if (!import.refused.empty())
    return fail(Code::kUnsupported, "%s has %zu nodes that can't be taken\n%s",
                options.model_file.c_str(), import.refused.size(), found.c_str());
  const std::string text = run_text(options, import);
  PACELINE_TRY([&]() -> Status {
    const Result<ServeConfig> config = parse_serve_config(text, options.model_file);
    return config ? Status() : config.error();
  }());
  if (options.check) return found;
  PACELINE_TRY(write(options, import, text));
  return found + "wrote " + options.folder +
         "/run.toml and model.safetensors; next: edge_server serve " + options.folder +
         "/run.toml\n";
}

Result<std::string> export_model(const ExportOptions& options) {
  const bool folder = std::filesystem::is_directory(options.run);
  const std::string path = folder ? options.run + "/model.safetensors" : options.run;
  Result<Bytes> bytes = read_file(path, kModelFileBytesMax);
  if (!bytes)
    return fail(bytes.error().code(),
                "%s; a run's state folder has it once the run has ended or was stopped",
                bytes.error().message().c_str());
  const Result<Safetensors> file = Safetensors::parse(std::move(*bytes));
  if (!file) return fail_in(path, file.error());
  const auto text = file->metadata().find("run");
  if (text == file->metadata().end())
    return fail(Code::kInvalidArgument, "%s does not hold its run's description", path.c_str());
  const Result<RunSpec> run = parse_run(text->second);
  if (!run) return fail_in(path, run.error());
  const Result<DataSchema> schema = parse_data_schema(text->second);
  if (!schema) return fail_in(path, schema.error());
  const Result<std::vector<float>> parameters = file->parameters(run->model.layout);
  if (!parameters) return fail_in(path, parameters.error());
  if (run->model.sparse_entries() > 0)
    return fail(Code::kUnsupported, "%s: a model of sparse rows can't be written as ONNX",
                path.c_str());
  const OnnxModel onnx = export_onnx(run->model, *schema, *parameters);
  PACELINE_TRY(write_file_atomically(options.file, write_onnx(onnx)));
  return format_text("wrote %s: %zu nodes, %llu parameters\n", options.file.c_str(),
                     onnx.nodes.size(),
                     static_cast<unsigned long long>(run->model.layout.parameter_count()));
}

}  // namespace paceline
