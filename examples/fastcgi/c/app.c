/* A FastCGI application in C, with libfcgi: four threads in one process, each with a connection of
 * its own. On descriptor 0, where who starts it puts a listening socket, or on a socket of its own:
 *
 *     gcc -O2 -pthread -o app app.c -lfcgi
 *     ./app /tmp/app.sock
 */
#include <fastcgi.h>
#include <fcgiapp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS 4

static int listening = FCGI_LISTENSOCK_FILENO;
static atomic_int count;

static void env(FCGX_Request *request)
{
    FCGX_FPrintF(request->out, "Content-Type: text/plain\r\n\r\n");
    for (char **variable = request->envp; *variable; variable++) {
        FCGX_FPrintF(request->out, "%s\n", *variable);
    }
}

static void echo(FCGX_Request *request)
{
    char piece[8192];
    int n;

    FCGX_FPrintF(request->out, "Content-Type: application/octet-stream\r\n\r\n");
    while ((n = FCGX_GetStr(piece, sizeof(piece), request->in)) > 0) {
        FCGX_PutStr(piece, n, request->out);
    }
}

static void answer(FCGX_Request *request)
{
    const char *path = FCGX_GetParam("PATH_INFO", request->envp);

    if (!strcmp(path, "/env")) {
        env(request);
    } else if (!strcmp(path, "/echo")) {
        echo(request);
    } else if (!strcmp(path, "/count")) {
        FCGX_FPrintF(request->out, "Content-Type: text/plain\r\n\r\n%d\n", ++count);
    } else if (!strcmp(path, "/complain")) {
        FCGX_FPrintF(request->err, "something is wrong\n");
        FCGX_FPrintF(request->out, "Content-Type: text/plain\r\n\r\nsaid\n");
    } else {
        FCGX_FPrintF(request->out,
                     "Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnothing here\n");
    }
}

static void *serve(void *unused)
{
    FCGX_Request request;

    (void)unused;
    FCGX_InitRequest(&request, listening, 0);
    while (FCGX_Accept_r(&request) == 0) {
        answer(&request);
        FCGX_Finish_r(&request);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    umask(0); /* whoever runs the web server may connect */
    FCGX_Init();
    if (argc > 1 && (listening = FCGX_OpenSocket(argv[1], 128)) < 0) {
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, serve, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
