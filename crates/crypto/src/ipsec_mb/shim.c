/* Keys and batches of intel-ipsec-mb. */
#define _DEFAULT_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

void stoa_ipsec_mb_thread_free(struct thread *thread)
{
	if (thread == NULL)
		return;
	if (thread->manager != NULL)
		free_mb_mgr(thread->manager);
	explicit_bzero(thread, sizeof(*thread));
	free(thread);
}

/* Returns NULL without memory, or where the library's own test of itself fails. */
struct thread *stoa_ipsec_mb_thread(enum instructions instructions)
{
	struct thread *thread = calloc(1, sizeof(*thread));

	if (thread == NULL)
		return NULL;
	thread->manager = alloc_mb_mgr(0);
	if (thread->manager == NULL)
		goto failed;
	switch (instructions) {
	case INSTRUCTIONS_SSE:
		init_mb_mgr_sse(thread->manager);
		break;
	case INSTRUCTIONS_AVX2:
		init_mb_mgr_avx2(thread->manager);
		break;
	case INSTRUCTIONS_AVX512:
		init_mb_mgr_avx512(thread->manager);
		break;
	}
	if (imb_get_errno(thread->manager) != 0)
		goto failed;
	if (!(thread->manager->features & IMB_FEATURE_SELF_TEST_PASS))
		goto failed;
	return thread;
failed:
	stoa_ipsec_mb_thread_free(thread);
	return NULL;
}

/* The hash of a block: the integrity key, each byte crossed with `pad` (RFC 2104). */
static void hash_pad(IMB_MGR *manager, enum hash hash, const uint8_t *integrity, size_t length, uint8_t pad,
		     uint8_t *state)
{
	uint8_t block[128];

	memset(block, pad, sizeof(block));
	for (size_t at = 0; at < length; at++)
		block[at] ^= integrity[at];
	switch (hash) {
	case HASH_NONE:
		break;
	case HASH_SHA1:
		IMB_SHA1_ONE_BLOCK(manager, block, state);
		break;
	case HASH_SHA256:
		IMB_SHA256_ONE_BLOCK(manager, block, state);
		break;
	case HASH_SHA512:
		IMB_SHA512_ONE_BLOCK(manager, block, state);
		break;
	}
	explicit_bzero(block, sizeof(block));
}

static void expand(IMB_MGR *manager, struct key *key, const uint8_t *encryption)
{
	switch (key->cipher) {
	case CIPHER_NULL:
		break;
	case CIPHER_CBC:
		if (key->key_bytes == 16)
			IMB_AES_KEYEXP_128(manager, encryption, key->of.cbc.encrypt, key->of.cbc.decrypt);
		else
			IMB_AES_KEYEXP_256(manager, encryption, key->of.cbc.encrypt, key->of.cbc.decrypt);
		break;
	case CIPHER_GCM:
		if (key->key_bytes == 16)
			IMB_AES128_GCM_PRE(manager, encryption, &key->of.gcm);
		else
			IMB_AES256_GCM_PRE(manager, encryption, &key->of.gcm);
		break;
	case CIPHER_CHACHA20_POLY1305:
		memcpy(key->of.chacha20, encryption, sizeof(key->of.chacha20));
		break;
	}
}

/* Returns NULL without memory. The integrity key is not longer than a block of its hash. */
struct key *stoa_ipsec_mb_key(struct thread *thread, enum cipher cipher, enum hash hash, const uint8_t *encryption,
			      uint32_t key_bytes, const uint8_t *integrity, uint32_t integrity_bytes,
			      uint32_t tag_bytes)
{
	struct key *key = aligned_alloc(_Alignof(struct key), sizeof(*key));

	if (key == NULL)
		return NULL;
	memset(key, 0, sizeof(*key));
	key->cipher = cipher;
	key->hash = hash;
	key->key_bytes = key_bytes;
	key->tag_bytes = tag_bytes;
	expand(thread->manager, key, encryption);
	hash_pad(thread->manager, hash, integrity, integrity_bytes, 0x36, key->inner);
	hash_pad(thread->manager, hash, integrity, integrity_bytes, 0x5c, key->outer);
	return key;
}

void stoa_ipsec_mb_key_free(struct key *key)
{
	explicit_bzero(key, sizeof(*key));
	free(key);
}

/* In constant time. */
static bool is_equal(const uint8_t *one, const uint8_t *other, size_t length)
{
	uint8_t difference = 0;

	for (size_t at = 0; at < length; at++)
		difference |= one[at] ^ other[at];
	return difference == 0;
}

/* GCM has no lanes: a call is a packet. */
static void gcm(IMB_MGR *manager, struct lane *lane, bool is_seal, uint8_t *made)
{
	const struct key *key = lane->key;
	struct gcm_context_data context;
	uint8_t *text = lane->packet + lane->text_offset;
	uint8_t *tag = text + lane->text_length;
	aes_gcm_enc_dec_t call;

	if (key->key_bytes == 16)
		call = is_seal ? manager->gcm128_enc : manager->gcm128_dec;
	else
		call = is_seal ? manager->gcm256_enc : manager->gcm256_dec;
	call(&key->of.gcm, &context, text, text, lane->text_length, lane->nonce, lane->aad, lane->aad_length,
	     is_seal ? tag : made, key->tag_bytes);
	lane->is_good = is_seal || is_equal(made, tag, key->tag_bytes);
	/* It has the pad of the tag. */
	explicit_bzero(&context, sizeof(context));
}

static void fill_chacha20_poly1305(IMB_JOB *job, const struct lane *lane)
{
	job->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
	job->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
	job->enc_keys = lane->key->of.chacha20;
	job->dec_keys = lane->key->of.chacha20;
	job->iv = lane->nonce;
	job->iv_len_in_bytes = 12;
	job->u.CHACHA20_POLY1305.aad = lane->aad;
	job->u.CHACHA20_POLY1305.aad_len_in_bytes = lane->aad_length;
	job->hash_start_src_offset_in_bytes = lane->text_offset;
	job->msg_len_to_hash_in_bytes = lane->text_length;
}

static void fill_hmac(IMB_JOB *job, const struct lane *lane)
{
	static const IMB_HASH_ALG hashes[] = {IMB_AUTH_NULL, IMB_AUTH_HMAC_SHA_1, IMB_AUTH_HMAC_SHA_256,
					      IMB_AUTH_HMAC_SHA_512};
	const struct key *key = lane->key;

	/* The library encrypts no texts of no bytes. */
	job->cipher_mode = key->cipher == CIPHER_CBC && lane->text_length > 0 ? IMB_CIPHER_CBC : IMB_CIPHER_NULL;
	job->hash_alg = hashes[key->hash];
	job->enc_keys = key->of.cbc.encrypt;
	job->dec_keys = key->of.cbc.decrypt;
	job->iv = lane->packet + lane->text_offset - 16;
	job->iv_len_in_bytes = 16;
	job->u.HMAC._hashed_auth_key_xor_ipad = key->inner;
	job->u.HMAC._hashed_auth_key_xor_opad = key->outer;
	job->hash_start_src_offset_in_bytes = 0;
	/* AAD is in the place of the tag. */
	job->msg_len_to_hash_in_bytes = lane->text_offset + lane->text_length + lane->aad_length;
}

static void fill(IMB_JOB *job, struct lane *lane, bool is_seal, uint8_t *made)
{
	uint8_t *text = lane->packet + lane->text_offset;

	job->src = lane->packet;
	job->dst = text;
	job->cipher_start_src_offset_in_bytes = lane->text_offset;
	job->msg_len_to_cipher_in_bytes = lane->text_length;
	job->key_len_in_bytes = lane->key->key_bytes;
	job->cipher_direction = is_seal ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
	job->chain_order = is_seal ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
	job->auth_tag_output = is_seal ? text + lane->text_length : made;
	job->auth_tag_output_len_in_bytes = lane->key->tag_bytes;
	job->user_data = lane;
	if (lane->key->cipher == CIPHER_CHACHA20_POLY1305)
		fill_chacha20_poly1305(job, lane);
	else
		fill_hmac(job, lane);
}

/* A job that has ended, or NULL. */
static void end(struct thread *thread, const struct lane *lanes, const IMB_JOB *job, bool is_seal)
{
	struct lane *lane;
	size_t at;

	if (job == NULL || job->status != IMB_STATUS_COMPLETED)
		return;
	lane = job->user_data;
	at = lane - lanes;
	lane->is_good = is_seal || is_equal(thread->made[at], thread->received[at], lane->key->tag_bytes);
}

/* At most BATCH lanes. */
void stoa_ipsec_mb_run(struct thread *thread, struct lane *lanes, size_t count, bool is_seal)
{
	IMB_MGR *manager = thread->manager;
	IMB_JOB *job;

	for (size_t at = 0; at < count; at++) {
		struct lane *lane = &lanes[at];
		uint8_t *tag = lane->packet + lane->text_offset + lane->text_length;

		lane->is_good = false;
		if (lane->key->cipher == CIPHER_GCM) {
			gcm(manager, lane, is_seal, thread->made[at]);
			continue;
		}
		memcpy(thread->received[at], tag, lane->key->tag_bytes);
		if (lane->key->hash != HASH_NONE)
			memcpy(tag, lane->aad, lane->aad_length);
		fill(IMB_GET_NEXT_JOB(manager), lane, is_seal, thread->made[at]);
		end(thread, lanes, IMB_SUBMIT_JOB(manager), is_seal);
	}
	while ((job = IMB_FLUSH_JOB(manager)) != NULL)
		end(thread, lanes, job, is_seal);
}
