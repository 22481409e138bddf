/* What of intel-ipsec-mb is macros and large structures, as plain functions: shim.c. No decisions but which calls an
 * algorithm takes: those are in the Rust files beside it. The same in Rust is shim.rs.
 */
#ifndef STOA_IPSEC_MB_SHIM_H
#define STOA_IPSEC_MB_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <intel-ipsec-mb.h>

#if IMB_VERSION_NUM < IMB_VERSION(1, 3, 0)
#error "intel-ipsec-mb 1.3 or later is needed"
#endif

#define BATCH 256
#define TAG_MAX 32

/* Which instructions the library may use: the caller has looked whether processor and system have them. */
enum instructions { INSTRUCTIONS_SSE, INSTRUCTIONS_AVX2, INSTRUCTIONS_AVX512 };

enum cipher { CIPHER_NULL, CIPHER_CBC, CIPHER_GCM, CIPHER_CHACHA20_POLY1305 };
enum hash { HASH_NONE, HASH_SHA1, HASH_SHA256, HASH_SHA512 };

/* A key, prepared. */
struct key {
	/* GCM: round keys and powers of H. CBC: round keys. ChaCha20-Poly1305: the key itself. */
	union {
		struct gcm_key_data gcm;
		struct {
			uint8_t encrypt[16 * 15];
			uint8_t decrypt[16 * 15];
		} cbc __attribute__((aligned(16)));
		uint8_t chacha20[32];
	} of;
	/* The states of the HMAC's hashes behind their first blocks. */
	uint8_t inner[64] __attribute__((aligned(64)));
	uint8_t outer[64];
	uint32_t key_bytes;
	uint32_t tag_bytes;
	enum cipher cipher;
	enum hash hash;
};

/* A lane that is well-formed. */
struct lane {
	const struct key *key;
	uint8_t *packet;
	const uint8_t *nonce;
	const uint8_t *aad;
	uint32_t text_offset;
	uint32_t text_length;
	uint32_t aad_length;
	/* Set: whether it is encrypted, or authentic. */
	uint32_t is_good;
};

/* What a thread needs. */
struct thread {
	IMB_MGR *manager;
	uint8_t made[BATCH][64];
	uint8_t received[BATCH][TAG_MAX];
};

#endif
