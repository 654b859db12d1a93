#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace paceline::test {
namespace {

std::atomic<uint64_t> calls{0};
std::atomic<uint64_t> live_bytes{0};

// In front of every block, on the block's own alignment: its size and the start of what malloc
// gave.
struct Header {
  size_t bytes;
  void* start;
};

void* take(size_t bytes, size_t alignment) noexcept {
  void* start = std::malloc(bytes + sizeof(Header) + alignment);
  if (!start) return nullptr;
  auto address = reinterpret_cast<uintptr_t>(start) + sizeof(Header);
  address = (address + alignment - 1) / alignment * alignment;
  reinterpret_cast<Header*>(address)[-1] = {bytes, start};
  ++calls;
  live_bytes += bytes;
  return reinterpret_cast<void*>(address);
}

void* take_or_throw(size_t bytes, size_t alignment) {
  void* block = take(bytes, alignment);
  if (!block) throw std::bad_alloc();
  return block;
}

void give_back(void* block) noexcept {
  if (!block) return;
  const Header header = static_cast<Header*>(block)[-1];
  live_bytes -= header.bytes;
  std::free(header.start);
}

constexpr size_t kUsual = alignof(std::max_align_t);

}  // namespace

AllocationCounts allocation_counts() { return {calls, live_bytes}; }

}  // namespace paceline::test

using paceline::test::give_back;
using paceline::test::kUsual;
using paceline::test::take;
using paceline::test::take_or_throw;

void* operator new(size_t n) { return take_or_throw(n, kUsual); }
void* operator new[](size_t n) { return take_or_throw(n, kUsual); }
void* operator new(size_t n, std::align_val_t a) { return take_or_throw(n, size_t(a)); }
void* operator new[](size_t n, std::align_val_t a) { return take_or_throw(n, size_t(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return take(n, kUsual); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return take(n, kUsual); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, size_t(a));
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, size_t(a));
}
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, size_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }
