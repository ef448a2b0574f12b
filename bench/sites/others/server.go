// The same endpoints in Go: net/http, its client, and a small client of Redis with kept connections.
package main

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const answer = `{"errno":0,"errmsg":"success","data":"e"}`

type connection struct {
	net.Conn
	reader *bufio.Reader
}

type redis struct {
	socket string
	idle   chan *connection
}

func (r *redis) connect() (*connection, error) {
	select {
	case kept := <-r.idle:
		return kept, nil
	default:
		made, err := net.Dial("unix", r.socket)
		if err != nil {
			return nil, err
		}
		return &connection{made, bufio.NewReader(made)}, nil
	}
}

func (r *redis) get(key string) ([]byte, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	value, err := c.get(key)
	if err != nil {
		c.Close()
		return nil, err
	}
	select {
	case r.idle <- c:
	default:
		c.Close()
	}
	return value, nil
}

func (c *connection) get(key string) ([]byte, error) {
	if _, err := io.WriteString(c, "*2\r\n$3\r\nget\r\n$"+strconv.Itoa(len(key))+"\r\n"+key+"\r\n"); err != nil {
		return nil, err
	}
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "$") {
		return nil, errors.New(line)
	}
	length, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || length < 0 {
		return nil, errors.New(line)
	}
	value := make([]byte, length+2)
	_, err = io.ReadFull(c.reader, value)
	return value[:length], err
}

func send(w http.ResponseWriter, body []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: server PORT SERVICE REDIS")
	}
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		Timeout:   time.Second,
	}
	store := &redis{os.Args[3], make(chan *connection, 256)}
	empty := func(w http.ResponseWriter, _ *http.Request) { send(w, []byte(answer), nil) }
	over := func(w http.ResponseWriter, _ *http.Request) {
		response, err := client.Get("http://" + os.Args[2] + "/")
		if err != nil {
			send(w, nil, err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		send(w, body, err)
	}
	read := func(w http.ResponseWriter, _ *http.Request) {
		value, err := store.get("answer")
		send(w, value, err)
	}
	http.HandleFunc("/empty", empty)
	http.HandleFunc("/http", over)
	http.HandleFunc("/redis", read)
	// The address by which everybody's script is asked for.
	asks := map[string]http.HandlerFunc{"": empty, "http": over, "stream": over, "redis": read}
	http.HandleFunc("/index.php", func(w http.ResponseWriter, r *http.Request) {
		asks[r.URL.Query().Get("ask")](w, r)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
