// Go's net/http/fcgi.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"syscall"
)

func main() {
	syscall.Umask(0)
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if fcgi.ProcessEnv(r)["PATH_INFO"] == "/echo" || r.URL.Path == "/app/echo" {
			io.Copy(w, r.Body)
			return
		}
		for name, value := range fcgi.ProcessEnv(r) {
			fmt.Fprintf(w, "%s=%s\n", name, value)
		}
		fmt.Fprintf(w, "PATH_INFO=%s\nQUERY_STRING=%s\n", r.URL.Path[len("/app"):], r.URL.RawQuery)
		fmt.Fprintf(w, "HTTP_X_LONG=%s\n", r.Header.Get("X-Long"))
	}
	fcgi.Serve(listener, http.HandlerFunc(answer))
}
