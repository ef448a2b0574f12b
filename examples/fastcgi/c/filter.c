/* A FastCGI filter in C, with libfcgi: it sends a file with $(NAME) replaced by the variable NAME
 * of the request. On descriptor 0, where who starts it puts a listening socket, or on a socket of
 * its own:
 *
 *     gcc -O2 -o filter filter.c -lfcgi
 *     ./filter /tmp/filter.sock
 */
#include <ctype.h>
#include <fastcgi.h>
#include <fcgiapp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Behind "$(": the variable, or the text as it was. */
static void replace(FCGX_Request *request)
{
    char name[64];
    size_t len = 0;
    int c;

    while ((c = FCGX_GetChar(request->in)) != EOF && len < sizeof(name) - 1 &&
           (isalnum(c) || c == '_')) {
        name[len++] = c;
    }
    name[len] = 0;
    if (c == ')' && len > 0) {
        const char *value = FCGX_GetParam(name, request->envp);
        FCGX_PutS(value ? value : "", request->out);
        return;
    }
    FCGX_FPrintF(request->out, "$(%s", name);
    if (c != EOF) {
        FCGX_UnGetChar(c, request->in);
    }
}

static void filter(FCGX_Request *request)
{
    int c;

    while (FCGX_GetChar(request->in) != EOF) {
        /* The request's body comes before the file. */
    }
    if (FCGX_StartFilterData(request->in) < 0) {
        FCGX_FPrintF(request->out, "Status: 500 Internal Server Error\r\n\r\n");
        return;
    }
    FCGX_FPrintF(request->out, "Content-Type: text/html; charset=utf-8\r\n\r\n");
    while ((c = FCGX_GetChar(request->in)) != EOF) {
        if (c != '$') {
            FCGX_PutChar(c, request->out);
        } else if ((c = FCGX_GetChar(request->in)) == '(') {
            replace(request);
        } else {
            FCGX_PutChar('$', request->out);
            if (c != EOF) {
                FCGX_UnGetChar(c, request->in);
            }
        }
    }
}

int main(int argc, char **argv)
{
    FCGX_Request request;
    int listening = FCGI_LISTENSOCK_FILENO;

    umask(0); /* whoever runs the web server may connect */
    FCGX_Init();
    if (argc > 1 && (listening = FCGX_OpenSocket(argv[1], 128)) < 0) {
        return 1;
    }
    FCGX_InitRequest(&request, listening, 0);
    while (FCGX_Accept_r(&request) == 0) {
        filter(&request);
        FCGX_Finish_r(&request);
    }
    return 0;
}
