package sharedtls_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/programs"
)

// patience bounds each connection. Only a test that fails waits so long.
const patience = 10 * time.Second

// greet connects to a server, which greets whom it lets in.
func greet(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	address := programs.Serve(t, "", func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(patience))                // the test fails without it too
		_, _ = io.WriteString(tls.Server(conn, server), "welcome in") // the client sees whether it came
	})
	conn, err := net.Dial("tcp", address.String())
	must.Do(t, err)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.ReadFull(tls.Client(conn, client), make([]byte, len("welcome in")))
	return err
}

func TestHandshake(t *testing.T) {
	one, two := bytes.Repeat([]byte("a"), sharedtls.MinSecret), bytes.Repeat([]byte("b"), sharedtls.MinSecret)
	made := func(make func([]byte, string) (*tls.Config, error), secret []byte, purpose string) *tls.Config {
		return must.Get(make(secret, purpose))(t)
	}
	server := made(sharedtls.Server, one, "x")
	for _, c := range []struct {
		name   string
		client *tls.Config
		in     bool
	}{
		{"the same secret", made(sharedtls.Client, one, "x"), true},
		{"another secret", made(sharedtls.Client, two, "x"), false},
		{"another purpose", made(sharedtls.Client, one, "y"), false},
		{"a server as a client", made(sharedtls.Server, one, "x"), false},
		{"nobody", &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, false},
	} {
		if err := greet(t, server, c.client); (err == nil) != c.in {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := greet(t, made(sharedtls.Server, two, "x"), made(sharedtls.Client, one, "x")); err == nil {
		t.Error("a client talks to a server with another secret")
	}
	if _, err := sharedtls.Server([]byte("short"), "x"); err == nil {
		t.Error("a short secret is taken")
	}
}

// TestFile: while there is no file no client gets in.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	secret := bytes.Repeat([]byte("a"), sharedtls.MinSecret)
	client := must.Get(sharedtls.Client(secret, "x"))(t)
	if err := greet(t, sharedtls.ServerFromFile(path, "x"), client); err == nil {
		t.Error("without a file somebody gets in")
	}
	must.Do(t, os.WriteFile(path, append(secret, '\n'), 0o600))
	if err := greet(t, sharedtls.ServerFromFile(path, "x"), client); err != nil {
		t.Error(err)
	}
}
