package edgeprocess

import "testing"

// What the edge can do. A test of this package holds each of them to the truth,
// so none is forgotten when the edge learns it.
const (
	// ServesHTTP2 says that plain entry points take HTTP/2 of clients that know
	// it in advance.
	ServesHTTP2 = true
	// ServesTLS says that entry points take encrypted connections.
	ServesTLS = false
)

// NeedHTTP2 skips a test that needs HTTP/2, while there is none.
func NeedHTTP2(t *testing.T) {
	t.Helper()
	if !ServesHTTP2 {
		t.Skip("this edge does not speak HTTP/2 yet: edgeprocess.ServesHTTP2 is false")
	}
}

// NeedTLS skips a test that needs encryption, while there is none.
func NeedTLS(t *testing.T) {
	t.Helper()
	if !ServesTLS {
		t.Skip("this edge does not take encrypted connections yet: edgeprocess.ServesTLS is false")
	}
}

// TLSArgument is the option that makes an entry point take encrypted
// connections, with a certificate that the edge makes itself.
func TLSArgument(entryPoint string) string { return "--entryPoints." + entryPoint + ".http.tls=true" }
