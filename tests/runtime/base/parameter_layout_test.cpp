#include "runtime/base/parameter_layout.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

TensorSpec tensor(std::string name, std::vector<uint32_t> shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  return spec;
}

Code refusal(std::vector<TensorSpec> tensors) {
  const Result<ParameterLayout> layout = ParameterLayout::make(std::move(tensors));
  if (layout) return Code::kOk;
  CHECK_FALSE(layout.error().message().empty());
  return layout.error().code();
}

}  // namespace

TEST_SUITE("base/parameter_layout") {
  TEST_CASE("tensors start at blocks, runs cover every block once, chunks as well") {
    Random random(test::seed(), 1);
    for (int round = 0; round < 100; ++round) {
      std::vector<TensorSpec> specs(static_cast<size_t>(1 + random.below(12)));
      uint64_t parameters = 0;
      for (size_t i = 0; i < specs.size(); ++i) {
        const auto rows = static_cast<uint32_t>(1 + random.below(400));
        const auto columns = static_cast<uint32_t>(1 + random.below(300));
        specs[i] = tensor(format_text("t%zu", i), {rows, columns});
        parameters += uint64_t{rows} * columns;
      }
      const ParameterLayout layout = ParameterLayout::make(specs).value();
      CHECK(layout.parameter_count() == parameters);
      CHECK(layout.element_count() == size_t{layout.block_count()} * kBlockElements);

      uint64_t end = 0;
      for (const TensorSpec& placed : layout.tensors()) {
        CHECK(placed.offset % kBlockElements == 0);
        CHECK(placed.offset - end < kBlockElements);  // pads only up to the next block
        end = placed.offset + placed.count;
      }
      CHECK(layout.element_count() - end < kBlockElements);

      uint32_t block = 0;
      uint64_t elements = 0;
      for (const BlockRun& run : layout.runs()) {
        CHECK(run.first_block == block);
        CHECK(run.block_count > 0);
        CHECK(run.element_count > (run.block_count - 1) * kBlockElements);
        CHECK(run.element_count <= run.block_count * kBlockElements);
        block += run.block_count;
        elements += run.element_count;
      }
      CHECK(block == layout.block_count());
      CHECK(elements == parameters);

      uint32_t chunk_block = 0;
      for (uint32_t i = 0; i < layout.chunk_count(); ++i) {
        const ChunkRange chunk = layout.chunk(i);
        CHECK(chunk.first_block == chunk_block);
        CHECK(chunk.block_count >= 1);
        CHECK(chunk.block_count <= kChunkBlocksMax);
        chunk_block += chunk.block_count;
      }
      CHECK(chunk_block == layout.block_count());
    }
  }

  TEST_CASE("wide are the whole blocks of tensors from 4096 elements on, nothing else") {
    for (const uint32_t count : {1u, 255u, 256u, 4095u, 4096u, 4097u, 5000u}) {
      const ParameterLayout layout = ParameterLayout::make({tensor("t", {count})}).value();
      uint32_t wide = 0, narrow = 0;
      for (const BlockRun& run : layout.runs()) (run.wide ? wide : narrow) += run.element_count;
      CHECK(wide == (count >= kWideTensorElements ? count / kBlockElements * kBlockElements : 0));
      CHECK(wide + narrow == count);
    }
  }

  TEST_CASE("the largest model fits to the element; one element more is refused") {
    CHECK(kModelElementsMax == uint64_t{1} << 26);
    const ParameterLayout layout =
        ParameterLayout::make({tensor("t", {1u << 13, 1u << 13})}).value();
    CHECK(layout.element_count() == kModelElementsMax);
    CHECK(layout.chunk_count() == kModelChunksMax);
    CHECK(refusal({tensor("t", {1u << 13, 1u << 13}), tensor("u", {1})}) ==
          Code::kResourceExhausted);
    CHECK(refusal({tensor("t", {(1u << 26) + 1})}) == Code::kResourceExhausted);
  }

  TEST_CASE("shapes whose product would overflow are refused, as are empty ones") {
    CHECK(refusal({tensor("t", {UINT32_MAX, UINT32_MAX, UINT32_MAX})}) == Code::kResourceExhausted);
    CHECK(refusal({tensor("t", {1u << 16, 1u << 16, 1u << 16, 1u << 16})}) ==
          Code::kResourceExhausted);
    CHECK(refusal({tensor("t", {4, 0})}) == Code::kInvalidArgument);
    CHECK(refusal({}) == Code::kInvalidArgument);
  }

  TEST_CASE("names are there, bounded and different; tensors are not too many") {
    CHECK(refusal({tensor("", {1})}) == Code::kInvalidArgument);
    CHECK(refusal({tensor(std::string(kNameBytesMax, 'n'), {1})}) == Code::kOk);
    CHECK(refusal({tensor(std::string(kNameBytesMax + 1, 'n'), {1})}) == Code::kInvalidArgument);
    CHECK(refusal({tensor("a", {1}), tensor("b", {1}), tensor("a", {2})}) ==
          Code::kInvalidArgument);
    std::vector<TensorSpec> many;
    for (uint32_t i = 0; i <= kTensorsMax; ++i) many.push_back(tensor(format_text("%u", i), {1}));
    CHECK(refusal(many) == Code::kResourceExhausted);
    many.pop_back();
    CHECK(refusal(many) == Code::kOk);
  }
}
