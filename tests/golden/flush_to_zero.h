// The processor's flush-to-zero mode, as some libraries leave it switched on.
#pragma once

#include <cstdint>

namespace paceline::test {

// On for the object's life, for this thread.
class FlushToZero {
 public:
  FlushToZero() : before_(read()) { write(before_ | kOn); }
  ~FlushToZero() { write(before_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
#if defined(__SSE__)
  static constexpr uint32_t kOn = 0x8040;  // results and operands
  static uint32_t read() {
    uint32_t mode;
    asm volatile("stmxcsr %0" : "=m"(mode));
    return mode;
  }
  static void write(uint32_t mode) { asm volatile("ldmxcsr %0" : : "m"(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kOn = 1u << 24;
  static uint64_t read() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#elif defined(__arm__)
  static constexpr uint32_t kOn = 1u << 24;
  static uint32_t read() {
    uint32_t mode;
    asm volatile("vmrs %0, fpscr" : "=r"(mode));
    return mode;
  }
  static void write(uint32_t mode) { asm volatile("vmsr fpscr, %0" : : "r"(mode)); }
#else
  static constexpr uint32_t kOn = 0;
  static uint32_t read() { return 0; }
  static void write(uint32_t) {}
#endif
  const decltype(read()) before_;
};

}  // namespace paceline::test
