// A client made of Go's own libraries: three requests, each on a connection of its own, with one
// cache of sessions. It writes what each of them was.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func fail(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	url, authority, certificate, key := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	pem, err := os.ReadFile(authority)
	fail(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	fail(err)
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			ServerName:         "localhost",
			Certificates:       []tls.Certificate{pair},
			ClientSessionCache: tls.NewLRUClientSessionCache(4),
		},
	}
	client := &http.Client{Transport: transport}
	for i := 0; i < 3; i++ {
		answer, err := client.Get(url)
		fail(err)
		_, err = io.Copy(io.Discard, answer.Body)
		fail(err)
		answer.Body.Close()
		fmt.Printf("%s %d resumed=%t\n", answer.Proto, answer.StatusCode, answer.TLS.DidResume)
		transport.CloseIdleConnections()
	}
}
