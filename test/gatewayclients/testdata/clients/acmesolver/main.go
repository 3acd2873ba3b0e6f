// Command acmesolver is the program of the Pods that cert-manager starts for HTTP-01
// challenges: its own server, with the flags that the Pods have.
package main

import (
	"flag"
	"log"

	"k8s.io/klog/v2"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
)

func main() {
	server := &solver.HTTP01Solver{}
	flag.IntVar(&server.ListenPort, "listen-port", 8089, "port to listen on")
	flag.StringVar(&server.Domain, "domain", "", "host name of the challenge")
	flag.StringVar(&server.Token, "token", "", "token of the challenge")
	flag.StringVar(&server.Key, "key", "", "response to the challenge")
	flag.Parse()
	log.Fatal(server.Listen(klog.Background()))
}
