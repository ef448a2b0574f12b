/* A load generator for one URL of a server on this machine, which tells latencies as they were.
 *
 *     pace PORT PATH CONNECTIONS RATE MILLISECONDS [close]
 *
 * With a RATE it is an open loop: requests fall due at random moments (a Poisson process, the same
 * in each run), whether earlier ones were answered or not, and a latency begins when its request
 * is due. So a server that stalls is charged for all who would have come meanwhile; to leave them
 * out is called coordinated omission. A request that falls due while all connections are in use
 * waits for the next one, which is part of its latency.
 *
 * With RATE 0 it is a closed loop: each connection asks again when it is answered, and a latency
 * begins when its request is sent.
 *
 * `close`: a new connection for each request, and the latency includes connecting.
 *
 * It sends one request at a time on a connection, and knows as much of HTTP as one needs to see
 * the end of an answer: Content-Length, chunks, the end of the connection. It writes one line of
 * JSON, times in microseconds. `lag` is how late the generator itself was.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    MOST_BYTES = 1 << 17, /* of an answer, its head included */
    CHUNKED = -1,         /* in place of a body's length */
    TO_THE_END = -2,
};

/* The time that the last answers get, as a client that gives up then. */
static const int64_t GRACE = 2000000000;

typedef struct {
    int fd; /* -1: not connected */
    int is_busy, is_connecting;
    int64_t since; /* begin of the latency */
    size_t length; /* bytes of the answer so far; one more byte is kept for a zero */
    size_t head;   /* those of them that are its head; 0: it is not whole */
    long body;
    char *answer;
} client;

/* Latencies, or lags. */
typedef struct {
    int64_t *at;
    size_t count, room;
} list;

static struct sockaddr_in server;
static char request[4096];
static int poll_fd, closes, count_of_clients;
static client *clients;
/* Connections that wait for a request: a ring, so that all take their turn. */
static int *idle;
static size_t idle_head, idle_tail;
static list latencies, lags;
static size_t bad_status, broken;
static double rate;
static int64_t next_due, stop_at, answered_at;

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void add(list *list, int64_t value)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 1 << 16;
        list->at = realloc(list->at, list->room * sizeof *list->at);
        must(list->at != NULL, "realloc");
    }
    list->at[list->count++] = value;
}

/* Moves on to the next request of the Poisson process: the pauses are exponentially distributed. */
static void pass(void)
{
    static uint64_t state = 88172645463325252; /* xorshift64, with its usual seed */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    double share = ((state >> 11) + 1) / 9007199254740993.0;
    next_due += rate > 0 ? (int64_t)(-log(share) / rate * 1e9) : 0;
}

static void rest(client *client)
{
    client->is_busy = 0;
    idle[idle_tail++ % count_of_clients] = client - clients;
}

static void disconnect(client *client)
{
    close(client->fd);
    client->fd = -1;
}

/* It got no answer that could be used. */
static void fail(client *client)
{
    broken++;
    disconnect(client);
    rest(client);
}

static int join(client *client)
{
    int yes = 1;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(client->fd >= 0, "socket");
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(client->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        return 0;
    }
    client->is_connecting = 1;
    /* It becomes writable when it is connected, and readable with each answer. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.u32 = client - clients};
    must(epoll_ctl(poll_fd, EPOLL_CTL_ADD, client->fd, &event) == 0, "epoll_ctl");
    return 1;
}

/* Sends the request, which is smaller than any socket's buffer. */
static void ask(client *client)
{
    ssize_t length = strlen(request);
    if (write(client->fd, request, length) != length) {
        fail(client);
    }
}

static void begin(client *client, int64_t since)
{
    client->is_busy = 1;
    client->since = since;
    client->length = client->head = 0;
    if (client->fd >= 0) {
        ask(client);
    } else if (!join(client)) {
        fail(client);
    }
}

/* The value of a field of the head; NULL: it has none. */
static const char *field(const client *client, const char *name)
{
    const char *at = strcasestr(client->answer, name);
    return at && at < client->answer + client->head ? at + strlen(name) : NULL;
}

static void read_head(client *client)
{
    const char *end = strstr(client->answer, "\r\n\r\n");
    if (end == NULL) {
        return;
    }
    client->head = end + 4 - client->answer;
    const char *length = field(client, "\r\ncontent-length:");
    client->body = field(client, "\r\ntransfer-encoding: chunked") ? CHUNKED
                   : length                                        ? atol(length)
                                                                   : TO_THE_END;
}

/* Whether the answer is whole. Nothing follows an answer, so its last chunk ends what has come. */
static int is_whole(const client *client, int has_ended)
{
    if (client->head == 0) {
        return 0;
    }
    size_t body = client->length - client->head;
    switch (client->body) {
    case CHUNKED:
        return body >= 5 && memcmp(client->answer + client->length - 5, "0\r\n\r\n", 5) == 0;
    case TO_THE_END:
        return has_ended;
    default:
        return body >= (size_t)client->body;
    }
}

static void finish(client *client, int has_ended)
{
    answered_at = now();
    add(&latencies, answered_at - client->since);
    bad_status += strncmp(client->answer, "HTTP/1.1 200", 12) != 0;
    if (has_ended || closes || field(client, "\r\nconnection: close")) {
        disconnect(client);
    }
    rest(client);
}

static void take(client *client)
{
    if (client->fd < 0) {
        return;
    }
    if (client->is_connecting) {
        client->is_connecting = 0;
        ask(client);
        return;
    }
    for (;;) {
        ssize_t length =
            read(client->fd, client->answer + client->length, MOST_BYTES - client->length);
        if (length < 0 && errno == EAGAIN) {
            return;
        }
        int has_ended = length <= 0;
        client->length += length > 0 ? length : 0;
        client->answer[client->length] = 0;
        if (!client->is_busy) {
            /* The server has closed a connection that it kept, which it may. */
            disconnect(client);
            return;
        }
        if (client->head == 0) {
            read_head(client);
        }
        if (is_whole(client, has_ended)) {
            finish(client, has_ended);
            return;
        }
        if (has_ended || client->length == MOST_BYTES) {
            fail(client);
            return;
        }
    }
}

/* Begins what is due, as far as connections are there. */
static void begin_due(void)
{
    int is_late = idle_head != idle_tail;
    for (int64_t at; idle_head != idle_tail && next_due < stop_at && next_due <= (at = now());) {
        client *client = &clients[idle[idle_head++ % count_of_clients]];
        if (rate > 0) {
            /* With a free connection at hand it is nobody's fault but the generator's. */
            if (is_late) {
                add(&lags, at - next_due);
            }
            begin(client, next_due);
            pass();
        } else {
            begin(client, next_due = at);
        }
    }
}

static int has_busy(void)
{
    return idle_tail - idle_head < (size_t)count_of_clients;
}

/* Sleeps until something comes or falls due. */
static int sleep_for(struct epoll_event *events)
{
    int64_t until = next_due < stop_at && idle_head != idle_tail ? next_due : stop_at + GRACE;
    int64_t left = until - now();
    left = left > 0 ? left : 0;
    struct timespec limit = {left / 1000000000, left % 1000000000};
    return epoll_pwait2(poll_fd, events, EVENTS, &limit, NULL);
}

static void run(void)
{
    struct epoll_event events[EVENTS];
    while ((next_due < stop_at || has_busy()) && now() < stop_at + GRACE) {
        begin_due();
        if (next_due >= stop_at && !has_busy()) {
            return;
        }
        int count = sleep_for(events);
        for (int at = 0; at < count; at++) {
            take(&clients[events[at].data.u32]);
        }
        if (rate == 0) {
            next_due = now();
        }
    }
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* A percentile of a sorted list, by the nearest rank, in microseconds. */
static double percentile(const list *list, double percent)
{
    if (list->count == 0) {
        return 0;
    }
    size_t rank = ceil(list->count * percent / 100);
    return list->at[rank - 1] / 1e3;
}

static void report(double seconds)
{
    size_t unanswered = count_of_clients - (idle_tail - idle_head);
    for (; rate > 0 && next_due < stop_at; pass()) {
        unanswered++;
    }
    qsort(latencies.at, latencies.count, sizeof *latencies.at, compare);
    qsort(lags.at, lags.count, sizeof *lags.at, compare);
    printf("{\"seconds\":%.6f,\"requests\":%zu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,"
           "\"p999\":%.1f,\"lag\":%.1f,\"bad_status\":%zu,\"broken\":%zu,"
           "\"unanswered\":%zu}\n",
           seconds, latencies.count, percentile(&latencies, 50), percentile(&latencies, 90),
           percentile(&latencies, 99), percentile(&latencies, 99.9), percentile(&lags, 99),
           bad_status, broken, unanswered);
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

int main(int count, char **arguments)
{
    if (count < 6) {
        fprintf(stderr, "usage: %s PORT PATH CONNECTIONS RATE MILLISECONDS [close]\n",
                arguments[0]);
        return 2;
    }
    int port = atoi(arguments[1]);
    count_of_clients = atoi(arguments[3]);
    rate = atof(arguments[4]);
    int64_t duration = atoll(arguments[5]) * 1000000;
    closes = count > 6 && strcmp(arguments[6], "close") == 0;
    if (port < 1 || port > 65535 || count_of_clients < 1 || rate < 0 || duration < 1) {
        fprintf(stderr, "%s: a number is out of bounds\n", arguments[0]);
        return 2;
    }
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n",
             arguments[2], port, closes ? "Connection: close\r\n" : "");
    server = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    signal(SIGPIPE, SIG_IGN);
    /* Else the kernel wakes it up to 50 microseconds late, to save wake-ups. */
    prctl(PR_SET_TIMERSLACK, 1);
    allow_descriptors();
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    clients = calloc(count_of_clients, sizeof *clients);
    idle = calloc(count_of_clients, sizeof *idle);
    must(poll_fd >= 0 && clients && idle, "memory");
    for (int at = 0; at < count_of_clients; at++) {
        clients[at].fd = -1;
        clients[at].answer = malloc(MOST_BYTES + 1);
        must(clients[at].answer != NULL, "malloc");
        rest(&clients[at]);
    }
    int64_t started = now();
    stop_at = started + duration;
    next_due = started;
    run();
    report((answered_at > stop_at ? answered_at - started : duration) / 1e9);
}
