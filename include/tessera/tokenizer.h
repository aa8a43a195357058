/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token numbers and back: bytes, or byte-level BPE as GPT-2's (Radford et al., 2019) and most
 * models after it.  Any bytes can be encoded, and decoding what was encoded gives the same bytes. */
#ifndef TESSERA_TOKENIZER_H
#define TESSERA_TOKENIZER_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_tokenizer ts_tokenizer;

/* Token n is the byte n. */
TS_API ts_status ts_tokenizer_bytes(ts_tokenizer **out);
/* A tokenizer.json of the tokenizers library, or a folder that holds one, or vocab.json and merges.txt
 * (GPT-2's pieces are split as GPT-2 does).  TS_EFORMAT: damaged; TS_EUNSUPPORTED names what is not
 * byte-level BPE: other models, normalizers, patterns that are not known. */
TS_API ts_status ts_tokenizer_open(ts_tokenizer **out, const char *path);
TS_API ts_status ts_tokenizer_bpe(ts_tokenizer **out, const char *vocab_path,
                                  const char *merges_path);
TS_API void ts_tokenizer_free(ts_tokenizer *tokenizer); /* NULL is fine */

/* One more than the largest number of a token. */
TS_API int64_t ts_tokenizer_vocab_size(const ts_tokenizer *tokenizer);
/* Number of the token that stands for this text, such as "<|endoftext|>"; -1: there is none. */
TS_API int64_t ts_tokenizer_id(const ts_tokenizer *tokenizer, const char *token);

/* *ids is malloc'd and yours to free.  special: texts of added tokens, such as "<|endoftext|>", become
 * those tokens, as in the tokenizers library; false: they are text like any other, which is right for
 * text that strangers wrote.  Nothing is added at the ends.  Any thread. */
TS_API ts_status ts_tokenizer_encode(int64_t **ids, int64_t *count, const ts_tokenizer *tokenizer,
                                     const void *text, size_t size, bool special);
/* *text is malloc'd, yours to free, and ends with a zero byte that *size (may be NULL) does not count.
 * TS_EINVAL: a number that no token has. */
TS_API ts_status ts_tokenizer_decode(char **text, size_t *size, const ts_tokenizer *tokenizer,
                                     const int64_t *ids, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
