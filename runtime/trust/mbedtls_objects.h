// mbedTLS's objects with their ends taken care of, for the .cpp files of this folder.
#pragma once

#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

struct Key {
  Key() { mbedtls_pk_init(&context); }
  ~Key() { mbedtls_pk_free(&context); }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  mbedtls_pk_context context;
};

struct Certificate {
  Certificate() { mbedtls_x509_crt_init(&context); }
  ~Certificate() { mbedtls_x509_crt_free(&context); }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;
  mbedtls_x509_crt context;
};

// Fill the object. Errors: kCorrupt with mbedTLS's words.
Status parse_key(const std::string& pem, Key* key);
Status parse_public_key(ByteSpan der, Key* key);
Status parse_certificate(const std::string& pem, Certificate* certificate);

// mbedTLS's generator: f_rng and its argument.
int draw_random(void* unused, unsigned char* out, size_t count);
// Before anything else of mbedTLS; repeats do nothing.
Status start_crypto();

// For results that mean failure.
tl::unexpected<Status> crypto_failure(Code code, const char* what, int result);

}  // namespace paceline
