// Every bound of the product, with its unit and its reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

// Elements of one scale block; tensors start at multiples of it. On the wire, so for ever.
inline constexpr uint32_t kBlockElements = 256;

// Elements of one chunk: stays in a small L2 as float32 and is the unit of retry.
inline constexpr uint32_t kChunkElementsMax = 128 * 1024;
inline constexpr uint32_t kChunkBlocksMax = kChunkElementsMax / kBlockElements;

// One encoded chunk. RAW32 of a full chunk is 512 KiB and its frame.
inline constexpr size_t kChunkBytesMax = 1024 * 1024;

// One message on a transport, hardly above a chunk: NNG buffers a whole message per connection
// before anybody sees it, so connections x this is the server's ceiling.
inline constexpr size_t kMessageBytesMax = kChunkBytesMax + 64 * 1024;

// Parameters of one model that is held in memory (pads included): 256 MiB as float32.
inline constexpr uint64_t kModelElementsMax = 64ull * 1024 * 1024;
inline constexpr uint32_t kTensorsMax = 4096;
inline constexpr uint32_t kModelChunksMax =
    static_cast<uint32_t>(kModelElementsMax / kChunkElementsMax);

// Workers of one fleet: their P x 2^19 must sum in 64 bits with room, and a session costs about 50
// KB.
inline constexpr uint32_t kWorkersMax = 4096;

inline constexpr size_t kNameBytesMax = 64;            // a worker's or tensor's name
inline constexpr size_t kReasonBytesMax = 512;         // why and how to mend it, for a person
inline constexpr size_t kRunTextBytesMax = 64 * 1024;  // the run's description (TOML)
inline constexpr size_t kLogLineBytesMax = 1024;

// Enrolment: a code's secret, a public key and a certificate (PEM), with room to spare.
inline constexpr size_t kSecretBytesMax = 64;
inline constexpr size_t kPublicKeyBytesMax = 1024;
inline constexpr size_t kCertificateBytesMax = 8192;

// Local steps between two exchanges.
inline constexpr uint32_t kTauMax = 1024;

// Evaluations that ride on one exchange.
inline constexpr uint32_t kEvaluationsPerExchangeMax = 8;

// Encoded deltas that the server keeps for workers that are behind; beyond it they get a key frame.
inline constexpr size_t kDeltaBytesKeptMax = 64ull * 1024 * 1024;
inline constexpr uint32_t kDeltasKeptMax = 4096;

// Means and variances of a model: with a whole chunk they fit into one message.
inline constexpr uint32_t kStatisticElementsMax = 14 * 1024;

static_assert(kChunkElementsMax % kBlockElements == 0);
static_assert(kChunkElementsMax * sizeof(float) + 4096 <= kChunkBytesMax);
static_assert(kChunkBytesMax + kStatisticElementsMax * sizeof(float) + 4096 <= kMessageBytesMax);

}  // namespace paceline
