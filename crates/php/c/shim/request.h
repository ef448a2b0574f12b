/* A request, and its response. */
#ifndef TOKAMAK_SHIM_REQUEST_H
#define TOKAMAK_SHIM_REQUEST_H

#include "shim/board.h"
#include "shim/log.h"
#include "shim/text.h"

/* Fields of a request, in the order of the queue's record. The text is the key in $_SERVER; the
 * fields without one are not handed to PHP as they are. */
#define SHIM_FIELDS(X) \
    X(METHOD, "REQUEST_METHOD") \
    X(URI, "REQUEST_URI") \
    X(QUERY, "QUERY_STRING") \
    X(SCRIPT_FILENAME, "SCRIPT_FILENAME") \
    X(SCRIPT_NAME, "SCRIPT_NAME") \
    X(PATH_INFO, "PATH_INFO") \
    X(DOCUMENT_ROOT, "DOCUMENT_ROOT") \
    X(DOCUMENT_URI, "DOCUMENT_URI") \
    X(SERVER_NAME, "SERVER_NAME") \
    X(SERVER_ADDR, "SERVER_ADDR") \
    X(SERVER_PORT, "SERVER_PORT") \
    X(REMOTE_ADDR, "REMOTE_ADDR") \
    X(REMOTE_PORT, "REMOTE_PORT") \
    X(PROTOCOL, "SERVER_PROTOCOL") \
    X(SCHEME, "REQUEST_SCHEME") \
    X(CONTENT_TYPE, "CONTENT_TYPE") \
    X(CONTENT_LENGTH, "CONTENT_LENGTH")

enum {
#define SHIM_FIELD(name, key) SHIM_##name,
    SHIM_FIELDS(SHIM_FIELD)
#undef SHIM_FIELD
    SHIM_FIELD_COUNT
};

/* What is to be done with a request over FastCGI. */
enum { SHIM_RUN, SHIM_UNKNOWN, SHIM_DENIED, SHIM_NOTHING };

/* What is written of a response: its body, and the fields that follow it, as lines that end with
 * CR LF. */
typedef enum { SHIM_BODY, SHIM_TRAILERS } shim_part;
/* Most bytes of those lines; the front refuses more. */
enum { SHIM_TRAILERS_MOST = 8192 };
/* Bytes of the body of a HEAD that are passed on: one more than the front takes for the whole. */
enum { SHIM_HEAD_BODY_MOST = 64 * 1024 + 1 };

/* A request in memory of the worker's own: valid until the next one is asked for, also after its
 * response. Over FastCGI it has parameters, in the order for scripts, and the fields are what was
 * found out from them. Otherwise the parameters are what an authorizer has said of it, and count
 * more than fields and headers. */
typedef struct {
    shim_text field[SHIM_FIELD_COUNT];
    const shim_pair *headers;
    size_t header_count;
    const shim_pair *parameters;
    size_t parameter_count;
    uint64_t body_len;
    uint64_t begun;     /* nanoseconds of CLOCK_MONOTONIC when it was taken; 0: to warm up */
    uint64_t due;       /* nanoseconds of CLOCK_MONOTONIC by which it is to end */
    shim_doing *doing;  /* in async mode, never NULL; others have the slot after the response */
    shim_calls *calls;  /* never NULL; it is not read after the response */
    uint32_t is_fastcgi;
    uint32_t verdict;
    uint32_t index;     /* among the requests under way */
    uint32_t ticket;    /* of the queue */
    uint32_t slot;      /* of the queue, while there is no whole response */
    uint32_t padding;
} shim_request;

_Static_assert(sizeof(shim_request) == 16 * SHIM_FIELD_COUNT + 96, "no padding in a request");

/* The next request; NULL: leave the loop. Worker mode only. */
const shim_request *rust_next(void);
/* Async mode: looks for the next request, and does not wait. With will_sleep the worker waits for
 * other things if there is none; its doorbell is rung for the next one until it looks again. */
enum { SHIM_NO_REQUEST, SHIM_REQUEST, SHIM_LEAVE };
int rust_look(int will_sleep, const shim_request **request);
/* The worker does not look again, for reasons of its own: another worker is rung instead. */
void rust_look_no_more(int will_leave);
/* Whether the server ends with the requests that it has. */
int rust_is_draining(void);
/* What is called from here on is about the request of this index, or about none
 * (SHIM_NO_SLOT). */
#define SHIM_NO_SLOT UINT32_MAX
void rust_serve(uint32_t index);
/* It is over; the memory of the request of this index is Rust's again. */
void rust_forget(uint32_t index);
/* The index of a request whose client has left; each is reported once. SHIM_NO_SLOT: no more. */
uint32_t rust_left(void);
/* Whether the client of the request whose turn it is has left. */
int rust_client_left(void);
/* What becomes readable when the worker is to look, for requests or for room; -1: there is none. */
int rust_doorbell(void);
/* Where the worker says whom its descriptors are connected to. */
void rust_peers(shim_peers *peers);
/* As much of the body, or of the trailers, as there is room for now; below 0: the front reads no
 * more. */
ptrdiff_t rust_write_now(shim_part part, const char *at, size_t len);
/* What of the body is there now; -1: nothing yet; below: the rest will not come. */
ptrdiff_t rust_read_body_now(char *at, size_t len);
/* The response is complete (or, with a true value, cut short), with the status that PHP has in the
 * end. Once a request. */
void rust_finish(int broken, int status);
/* 0, or 1 when the client has gone. */
int rust_head(int status, const shim_pair *headers, size_t count, int interim);
int rust_write(shim_part part, const char *at, size_t len);
int rust_flush(void);
/* Fills the buffer unless the body ends before. */
size_t rust_read_body(char *at, size_t len);

/* Publishes an update in the site's hub. 1: it is, the answer is its id; 0: it is not, the answer
 * says why. The answer lives until the next call. */
int rust_publish(const char *update, size_t len, shim_text *answer);

/* The status for a script that cannot be opened, by the error's number. */
int rust_unopened_status(int error);
/* The text of a class that is written in PHP, without its opening tag, by its name in lower case.
 * 0: there is none. */
int rust_class(const char *name, size_t len, shim_text *text);
/* Says something about a request over FastCGI: to its sender, if to_sender, and to standard
 * error. 1: the client has gone. */
int rust_complain(shim_level level, const char *at, size_t len, int to_sender);
/* The user of its authentication. */
void rust_user(const char *at, size_t len);

#endif
