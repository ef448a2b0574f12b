/* The least that an HTTP server can cost: a bare epoll loop that gives one fixed answer and reads
 * of a request no more than where its head ends. It is what the other servers of a contest are
 * measured against, and the local service that their scripts call. It is no server: it knows no
 * methods, paths, bodies or time limits, and gives up a client that does not take its answer.
 *
 *     limit PORT [PROCESSES [MILLISECONDS]]      listens on 127.0.0.1
 *
 * With milliseconds it answers a request when they have passed, and a client sends one at a time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char ANSWER[] = "HTTP/1.1 200 OK\r\n"
                             "Content-Type: application/json\r\n"
                             "Content-Length: 41\r\n"
                             "\r\n"
                             "{\"errno\":0,\"errmsg\":\"success\",\"data\":\"e\"}";

enum {
    BACKLOG = 4096,
    EVENTS = 256,
    MOST_DESCRIPTORS = 65536,
    MOST_PIPELINED = 64, /* answers that are written at once: more than any client here sends */
};

/* How much of the empty line that ends a head has come, by descriptor. */
static unsigned char matched[MOST_DESCRIPTORS];

/* Who waits for an answer, in a ring: all wait for as long, so who comes first is due first. A
 * client that has gone meanwhile leaves its place. If another client has its descriptor by then,
 * that one gets its own answer early. */
static struct {
    int client;
    double due;
} waiting[MOST_DESCRIPTORS];
static unsigned int first_waiting, all_waiting;
static double delay;

/* Milliseconds on a clock that only goes forward. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* How many heads end in these bytes. */
static int heads(unsigned char *seen, const char *bytes, ssize_t length)
{
    int count = 0;
    for (ssize_t at = 0; at < length; at++) {
        if (bytes[at] == "\r\n\r\n"[*seen]) {
            (*seen)++;
        } else {
            *seen = bytes[at] == '\r';
        }
        if (*seen == 4) {
            *seen = 0;
            count++;
        }
    }
    return count;
}

/* Answers what a client has sent. Whether it is to be heard further. */
static int serve(int client)
{
    static char piece[16384], answers[MOST_PIPELINED * (sizeof ANSWER - 1)];
    ssize_t length = read(client, piece, sizeof piece);
    if (length <= 0) {
        return length < 0 && errno == EAGAIN;
    }
    int count = heads(&matched[client], piece, length);
    if (count == 0) {
        return 1;
    }
    if (count > MOST_PIPELINED) {
        return 0;
    }
    if (delay > 0) {
        unsigned int place = (first_waiting + all_waiting) % MOST_DESCRIPTORS;
        waiting[place].client = client;
        waiting[place].due = now() + delay;
        return all_waiting++ < MOST_DESCRIPTORS;
    }
    ssize_t size = sizeof ANSWER - 1;
    for (int at = 0; at < count; at++) {
        memcpy(answers + at * size, ANSWER, size);
    }
    return write(client, answers, count * size) == count * size;
}

/* Answers those whose time has come; for how long the next one waits, in milliseconds. */
static int answer_due(void)
{
    while (all_waiting > 0) {
        double left = waiting[first_waiting].due - now();
        if (left > 0) {
            return (int)left + 1;
        }
        ssize_t written = write(waiting[first_waiting].client, ANSWER, sizeof ANSWER - 1);
        (void)written; /* If it has gone, there is nobody to tell. */
        first_waiting = (first_waiting + 1) % MOST_DESCRIPTORS;
        all_waiting--;
    }
    return -1;
}

static void welcome(int poll, int listener)
{
    int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    if (client >= MOST_DESCRIPTORS) {
        close(client);
        return;
    }
    int yes = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    matched[client] = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = client};
    must(epoll_ctl(poll, EPOLL_CTL_ADD, client, &event) == 0, "epoll_ctl");
}

static void run(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    must(listener >= 0, "socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    /* Each process has a backlog of its own, and the kernel spreads the clients over them. */
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    must(listen(listener, BACKLOG) == 0, "listen");
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    must(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    for (;;) {
        int count = epoll_wait(poll, events, EVENTS, answer_due());
        for (int at = 0; at < count; at++) {
            int ready = events[at].data.fd;
            if (ready == listener) {
                welcome(poll, listener);
            } else if (!serve(ready)) {
                close(ready);
            }
        }
    }
}

int main(int count, char **arguments)
{
    int port = count > 1 ? atoi(arguments[1]) : 0, processes = count > 2 ? atoi(arguments[2]) : 1;
    if (port < 1 || port > 65535 || processes < 1) {
        fprintf(stderr, "usage: %s PORT [PROCESSES [MILLISECONDS]]\n", arguments[0]);
        return 2;
    }
    delay = count > 3 ? atoi(arguments[3]) : 0;
    signal(SIGPIPE, SIG_IGN);
    for (int at = 1; at < processes; at++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            break;
        }
    }
    run(port);
}
