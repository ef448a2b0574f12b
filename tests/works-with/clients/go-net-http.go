// Debian: golang-1.19-go golang-go
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

var client http.Client

func ask(method, url string, body io.Reader, fields map[string]string) {
	request, err := http.NewRequest(method, url, body)
	for name, value := range fields {
		request.Header.Set(name, value)
	}
	var answer *http.Response
	if err == nil {
		answer, err = client.Do(request)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, answer.Body)
		answer.Body.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	use, url := os.Args[1], os.Args[2]
	authority, _ := os.ReadFile(os.Getenv("AUTHORITY"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client.Transport = &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:     true,
		ExpectContinueTimeout: time.Minute,
	}
	switch use {
	case "page", "compressed":
		ask("GET", url, nil, nil)
	case "kept", "later":
		ask("GET", url, nil, nil)
		if use == "later" {
			bufio.NewReader(os.Stdin).ReadString('\n')
		}
		ask("GET", os.Args[3], nil, nil)
	case "range":
		part, _ := os.ReadFile(os.Args[3])
		os.Stdout.Write(part)
		ask("GET", url, nil, map[string]string{"Range": fmt.Sprintf("bytes=%d-", len(part))})
	case "upload":
		body, _ := os.Open(os.Args[3])
		ask("POST", url, body, map[string]string{"Expect": "100-continue"})
	}
}
