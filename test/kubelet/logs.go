package kubelet

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// serveLogs serves the logs of the Pods to the API server, for kubectl logs and the
// runtime's own, and returns its port. The API server verifies the certificate, so
// it is the API server's own, which is for the address of the node too.
func (n *Node) serveLogs(t testing.TB) int32 {
	t.Helper()
	pki := filepath.Join(n.cluster.Dir, "pki", "apiserver")
	certificate := must.Get(tls.LoadX509KeyPair(pki+".crt", pki+".key"))(t)
	listener := must.Get(tls.Listen("tcp", netip.AddrPortFrom(n.ip(), 0).String(), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.sendLog)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	programs.Background(t, func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}, func() { _ = server.Close() })
	return int32(must.Get(netip.ParseAddrPort(listener.Addr().String()))(t).Port())
}

// sendLog sends the log of a Pod, or its last lines. It does not follow.
func (n *Node) sendLog(out http.ResponseWriter, in *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.pods {
		if one.object.Namespace != in.PathValue("namespace") || one.object.Name != in.PathValue("pod") {
			continue
		}
		lines := strings.SplitAfter(one.log.String(), "\n")
		// The last element is what follows the last newline.
		if tail, err := strconv.Atoi(in.URL.Query().Get("tailLines")); err == nil && tail >= 0 && tail < len(lines)-1 {
			lines = lines[len(lines)-1-tail:]
		}
		_, _ = io.WriteString(out, strings.Join(lines, ""))
		return
	}
	http.Error(out, "there is no such Pod", http.StatusNotFound)
}
