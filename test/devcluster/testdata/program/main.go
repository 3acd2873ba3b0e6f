// Command program is the program of an image in a test: on port 80 of all
// addresses it serves the files that it sees, and echoes datagrams.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	datagrams, err := net.ListenPacket("udp", ":80")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := datagrams.ReadFrom(buffer)
			if err != nil {
				log.Fatal(err)
			}
			_, _ = datagrams.WriteTo(buffer[:n], from) // the sender waits for it
		}
	}()
	files := http.FileServer(http.Dir("/"))
	log.Fatal(http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("request for", r.URL.Path, "with", os.Args[1:])
		w.Header().Set("Pod", os.Getenv("POD_NAME"))
		files.ServeHTTP(w, r)
	})))
}
