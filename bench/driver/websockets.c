/* Both ends of a measurement of WebSockets: an application that echoes, and clients that each send
 * a message and wait for its echo before they send the next one.
 *
 *     websockets echo PORT                          listens on 127.0.0.1
 *     websockets talk PORT CLIENTS SECONDS BYTES    prints the messages, and the p50 and the p99 of
 *                                                   an echo in microseconds
 *
 * When all clients are connected, it prints an empty line, and begins when it is sent one.
 *
 * It is no implementation of the protocol: the application answers every handshake with the same
 * accept, and sends back the bytes that come. A message is one frame.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char ASK[] = "GET /socket HTTP/1.1\r\n"
                          "Host: 127.0.0.1\r\n"
                          "Upgrade: websocket\r\n"
                          "Connection: Upgrade\r\n"
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                          "Sec-WebSocket-Version: 13\r\n"
                          "\r\n";
static const char AGREE[] = "HTTP/1.1 101 Switching Protocols\r\n"
                            "Upgrade: websocket\r\n"
                            "Connection: Upgrade\r\n"
                            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                            "\r\n";

enum {
    BACKLOG = 4096,
    EVENTS = 256,
    MOST_DESCRIPTORS = 65536,
    PIECE = 65536,
    LONGEST = 60000,
    HEAD = 1024,
    BUCKETS = 100000, /* of ten microseconds */
};

/* What is known of a connection, by its descriptor. */
static struct {
    char head[HEAD];
    size_t length; /* of the head that has come; of the echo, once the connection is open */
    int open;
    double sent;
} known[MOST_DESCRIPTORS];
static char piece[PIECE], message[LONGEST + 16];
static unsigned long taken[BUCKETS];

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* Microseconds on a clock that only goes forward. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void send_all(int to, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(to, bytes, length, MSG_NOSIGNAL);
        if (sent < 0) {
            return; /* It has gone; reading tells. */
        }
        bytes += sent;
        length -= (size_t)sent;
    }
}

/* Takes bytes of a head; how many are left behind its end, or -1 if it has none yet. */
static ssize_t take_head(int of, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length; at++) {
        if (known[of].length == HEAD) {
            return -1;
        }
        known[of].head[known[of].length++] = bytes[at];
        if (known[of].length >= 4 &&
            memcmp(known[of].head + known[of].length - 4, "\r\n\r\n", 4) == 0) {
            known[of].open = 1;
            known[of].length = 0;
            return (ssize_t)(length - at - 1);
        }
    }
    return -1;
}

static void watch(int poll, int descriptor)
{
    must(descriptor < MOST_DESCRIPTORS, "too many descriptors");
    int yes = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    memset(&known[descriptor], 0, sizeof known[descriptor]);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    must(epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
}

static void echo(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    must(listener >= 0, "socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    must(listen(listener, BACKLOG) == 0, "listen");
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    must(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    for (;;) {
        int count = epoll_wait(poll, events, EVENTS, -1);
        for (int at = 0; at < count; at++) {
            int from = events[at].data.fd;
            if (from == listener) {
                int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                if (client >= 0) {
                    watch(poll, client);
                }
                continue;
            }
            ssize_t length = recv(from, piece, sizeof piece, 0);
            if (length <= 0) {
                close(from);
                continue;
            }
            const char *bytes = piece;
            if (!known[from].open) {
                ssize_t left = take_head(from, piece, (size_t)length);
                if (left < 0) {
                    continue;
                }
                send_all(from, AGREE, sizeof AGREE - 1);
                bytes += length - left;
                length = left;
            }
            send_all(from, bytes, (size_t)length);
        }
    }
}

/* A frame of so many bytes, as a client sends it: with a mask, which is of zeros. */
static size_t make_message(size_t bytes)
{
    size_t head = 2;
    message[0] = (char)0x82;
    if (bytes < 126) {
        message[1] = (char)(0x80 | bytes);
    } else {
        message[1] = (char)(0x80 | 126);
        message[2] = (char)(bytes >> 8);
        message[3] = (char)bytes;
        head = 4;
    }
    return head + 4 + bytes;
}

static double quantile(unsigned long all, double part)
{
    unsigned long seen = 0;
    for (int at = 0; at < BUCKETS; at++) {
        seen += taken[at];
        if (seen >= part * all) {
            return at * 10;
        }
    }
    return BUCKETS * 10;
}

static void talk(int port, int clients, double seconds, size_t bytes)
{
    size_t length = make_message(bytes);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int at = 0; at < clients; at++) {
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        watch(poll, client);
        send_all(client, ASK, sizeof ASK - 1);
    }
    unsigned long all = 0;
    int opened = 0;
    double end = 0;
    while (opened < clients || now() < end) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(poll, events, EVENTS, 100);
        for (int at = 0; at < count; at++) {
            int from = events[at].data.fd;
            ssize_t came = recv(from, piece, sizeof piece, 0);
            must(came > 0, "a connection has ended");
            if (!known[from].open) {
                if (take_head(from, piece, (size_t)came) < 0) {
                    continue;
                }
                must(memcmp(known[from].head, "HTTP/1.1 101", 12) == 0, "no WebSocket");
                if (++opened == clients) {
                    puts("");
                    fflush(stdout);
                    getchar();
                    end = now() + seconds * 1e6;
                    for (int one = 0; one < MOST_DESCRIPTORS; one++) {
                        if (known[one].open) {
                            known[one].sent = now();
                            send_all(one, message, length);
                        }
                    }
                }
                continue;
            } else {
                known[from].length += (size_t)came;
                if (known[from].length < length) {
                    continue;
                }
                int bucket = (int)((now() - known[from].sent) / 10);
                taken[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
                all++;
            }
            known[from].length = 0;
            known[from].sent = now();
            send_all(from, message, length);
        }
    }
    printf("%lu %.0f %.0f\n", all, quantile(all, 0.5), quantile(all, 0.99));
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN);
    int port = count > 2 ? atoi(arguments[2]) : 0;
    if (count == 3 && strcmp(arguments[1], "echo") == 0 && port > 0) {
        echo(port);
    }
    long bytes = count == 6 ? atol(arguments[5]) : 0;
    if (count != 6 || strcmp(arguments[1], "talk") != 0 || port <= 0 || bytes <= 0 ||
        bytes > LONGEST) {
        fprintf(stderr, "usage: %s echo PORT | talk PORT CLIENTS SECONDS BYTES\n", arguments[0]);
        return 2;
    }
    talk(port, atoi(arguments[3]), atof(arguments[4]), (size_t)bytes);
}
